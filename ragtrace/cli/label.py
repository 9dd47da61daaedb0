"""`ragtrace label`: which requests people label, what they say of them, and the rates that follow."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, option, print_json, print_table
from ragtrace.cli.triage import ServiceOption, SinceOption, UntilOption
from ragtrace.config import variable
from ragtrace.formats import shown_time

if TYPE_CHECKING:
    from ragtrace.store import Drawing, MeasuredRequest, RequestLabel, Store
    from ragtrace.triage.labels import DrawingRates, LabelAgreement
    from ragtrace.types import Analysis, Candidate, RequestRecord

__all__ = ["LabelerOption", "app", "ask_label", "labeler_name", "print_request"]

_PASSAGE: Final = 1_200  # characters of a chunk of the prompt that are shown
_MOST_LEFT_OUT: Final = 3  # sets of versions that are named
_GLANCE: Final = 400  # of one that is not in the prompt
_KEYS: Final = {"s": "sound", "b": "broken", "?": "cannot_tell"}
_MEANINGS: Final = {
    "retrieval": "the needed text is among the candidates",
    "ranking": "what is needed of the candidates is in the prompt",
    "generation": "the answer says what the prompt says, and answers the question",
    "citation": "claims cite the chunk that they rest on",
}

app = typer.Typer(
    help="Label drawn requests by hand, and see the rates that the tool's verdicts give, corrected by the labels.",
    no_args_is_help=True,
)

DrawingOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--drawing",
        metavar="ID",
        help="A drawing, or as much of its id as is unique.  [default: the newest]",
        show_default=False,
    ),
]
OfServiceOption: TypeAlias = Annotated[
    str | None, typer.Option("--service", help="Of this service alone.", show_default=False)
]
LabelerOption: TypeAlias = Annotated[str | None, option("labeler", show_default=False)]


@app.command("draw")
def draw(
    service: ServiceOption,
    since: SinceOption,
    until: UntilOption = "now",
    labels: Annotated[int, typer.Option("--labels", min=1, help="How many requests to draw.")] = 200,
    uniform: Annotated[
        float,
        typer.Option(
            "--uniform",
            metavar="SHARE",
            help="The share that is drawn evenly, from 0.2 to 1; the rest is drawn where the verdict is unsure.",
        ),
    ] = 0.5,
    version: Annotated[
        list[str] | None,
        typer.Option(
            "--version",
            metavar="COMPONENT=VERSION",
            help="Only requests of this version; may be repeated.  [default: the versions with the most requests]",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw requests of a window and of one set of versions to be labeled: rates of two releases mixed are of neither.

    Only requests of the random stratum whose verdict is of one judge; what is left out of the window is said.
    """
    from ragtrace.cli.terminal import existing
    from ragtrace.cli.triage import window_of
    from ragtrace.store import Store
    from ragtrace.triage.labels import draw_labels, judged_requests

    window, versions = window_of(since, until), _versions(version or ())
    with Store.open(existing(store)) as opened:
        judged = judged_requests(opened, service, window.since, window.until)
        drawing = draw_labels(opened, service, window, labels, uniform=uniform, versions=versions, judged=judged)
        _print_drawing(opened, drawing, judged, as_json)


@app.command("extend")
def extend(
    labels: Annotated[int, typer.Argument(metavar="LABELS", min=1, help="How many requests the drawing has then.")],
    drawing: DrawingOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw more requests of a drawing's window; what is labeled stays."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store
    from ragtrace.triage.labels import extend_drawing, find_drawing, judged_requests

    with Store.open(existing(store)) as opened:
        found = find_drawing(opened, drawing)
        judged = judged_requests(opened, found.service, found.since, found.until)
        extend_drawing(opened, found, labels, judged)
        _print_drawing(opened, found, judged, as_json)


def _versions(given: Sequence[str]) -> dict[str, str]:
    from ragtrace.errors import ConfigurationError

    pairs = [each.partition("=") for each in given]
    for each, (component, _, version) in zip(given, pairs, strict=True):
        if not (component and version):
            raise ConfigurationError.of("--version", each, "COMPONENT=VERSION, such as model=m-2")
    return {component: version for component, _, version in pairs}


def _print_drawing(store: Store, drawing: Drawing, judged: Sequence[MeasuredRequest], as_json: bool) -> None:
    from collections import Counter

    from ragtrace.triage.labels import undrawn

    requests = store.drawn_requests(drawing.drawing_id)
    strata = Counter(each.stratum for each in requests)
    if as_json:
        shown = {name: value for name, value in asdict(drawing).items() if name != "rates"}
        print_json({"drawing": shown, "requests": [asdict(each) for each in requests]})
        return
    words = {
        "named": "in which the tool names a stage",
        "suspected": "in which it suspects one",
        "open": "in which it does not know one",
        "sound": "which it takes for sound",
    }
    out = console()
    out.print(f"drawing {drawing.drawing_id}: {len(requests)} requests of {drawing.service}")
    versions = _of_versions(drawing.versions)
    out.print(f"from {drawing.population:,} judged ones of the random sample with the versions {versions}")
    for count, differing in (left := undrawn(drawing, judged))[:_MOST_LEFT_OUT]:
        out.print(f"  {count:>5} others of the window are left out: they have {_of_versions(differing)}")
    if len(left) > _MOST_LEFT_OUT:
        out.print(f"  {sum(count for count, _ in left[_MOST_LEFT_OUT:]):>5} others have further versions")
    if left:
        out.print("  --version COMPONENT=VERSION draws from those that have it")
    for stratum, said in words.items():
        if strata[stratum]:
            out.print(f"  {strata[stratum]:>5} {said}")
    out.print(f"next: ragtrace label ask --drawing {drawing.drawing_id}")


def _of_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={version}" for name, version in sorted(versions.items())) or "none recorded"


@app.command("list")
def list_drawings(service: OfServiceOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the drawings, newest first, and how many of their requests each labeler has labeled."""
    from collections import Counter

    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    rows = []
    with Store.open(existing(store)) as opened:
        for each in opened.drawings(service):
            requests = [one.request_id for one in opened.drawn_requests(each.drawing_id)]
            counts = Counter(label.labeler for label in opened.labels(request_ids=requests))
            rows.append((each, len(requests), counts))
    if as_json:
        print_json({"drawings": [{**asdict(each), "drawn": drawn, "labelers": counts} for each, drawn, counts in rows]})
        return
    if not rows:
        console().print("nothing is drawn yet: ragtrace label draw --service S --since 7d")
        return
    columns = ("drawing", "service", "from", "to", "versions", "drawn", "labeled by")
    print_table(
        columns,
        [
            (
                each.drawing_id,
                each.service,
                shown_time(each.since),
                shown_time(each.until),
                _of_versions(each.versions),
                str(drawn),
                ", ".join(f"{who} ({number})" for who, number in sorted(counts.items())) or "nobody",
            )
            for each, drawn, counts in rows
        ],
    )


@app.command("ask")
def ask(drawing: DrawingOption = None, labeler: LabelerOption = None, store: StoreOption = None) -> None:
    """Show one drawn request after the other, and ask which stage broke. Each answer is kept at once; end it with q,
    and go on another day. What the tool says of a request is not shown: it would be what you say."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store
    from ragtrace.triage.labels import find_drawing, unlabeled

    who = labeler_name(labeler)
    with Store.open(existing(store)) as opened:
        found = find_drawing(opened, drawing)
        waiting = unlabeled(opened, found, who)
        whole = len(opened.drawn_requests(found.drawing_id))
        for number, each in enumerate(waiting, start=whole - len(waiting) + 1):
            record = opened.get_record(each.request_id)
            if record is None:
                continue
            console().rule(f"{number} of {whole}, labeler {who}")
            print_request(record, opened.get_analysis(each.request_id))
            said = ask_label(record, who)
            if said == "quit":
                break
            if said is not None:
                opened.put_labels([said])
        left = len(unlabeled(opened, found, who))
        console().print(
            f"{whole - left} of {whole} labeled by {who}; rates: ragtrace label rates --drawing {found.drawing_id}"
        )


def labeler_name(given: str | None) -> str:
    """Who labels: the name that was given, else the user's. Raises: ConfigurationError where there is neither."""
    import getpass

    from ragtrace.errors import ConfigurationError

    if given is not None and given.strip():
        return given.strip()
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # a container's user without a name
        raise ConfigurationError(f"who labels? give --labeler NAME or {variable('labeler')}") from error


def print_request(record: RequestRecord, analysis: Analysis | None) -> None:
    """The question, the prompt, and the answer claim by claim, without any verdict."""
    from rich.text import Text

    from ragtrace.export.evidence_path import labeled

    out = console()
    asked = Text(record.query.original, "bold")
    out.print(labeled(("request", Text(record.request_id, style="dim")), ("asked", asked)))
    packed = record.packing.chunks if record.packing else ()
    texts = {each.chunk_id: each.text for each in record.candidates}
    out.print(Text(f"\nin the prompt ({len(packed)})", style="bold"))
    _print_passages(
        1,
        [
            (
                f"{chunk.chunk_id} (cut)" if chunk.truncated else chunk.chunk_id,
                texts.get(chunk.chunk_id) if chunk.text is None else chunk.text,
            )
            for chunk in packed
        ],
        _PASSAGE,
    )
    if others := _others(record):
        out.print(Text(f"    {len(others)} other candidates: m shows them", style="dim"))
    answer = record.generation.answer if record.generation else None
    claims = [claim.text for claim in analysis.claims if claim.factual] if analysis else []
    out.print(Text("\nanswer", style="bold"))
    out.print(Text(answer or "no answer was recorded"))
    if len(claims) > 1:
        out.print(labeled(*((f"claim {number}", Text(text)) for number, text in enumerate(claims, start=1))))
    out.print()


def _print_passages(first: int, passages: Iterable[tuple[str, str | None]], most: int) -> None:
    """Chunks with their numbers; of a long text the beginning."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", style="bold", min_width=3)
    table.add_column(overflow="fold")
    for number, (name, text) in enumerate(passages, start=first):
        words = "(no text is stored)" if text is None else " ".join(text.split())
        shown = words if len(words) <= most else f"{words[:most]} ..."
        table.add_row(str(number), Text.assemble((name, "dim"), "\n", shown))
    console().print(table)


def _others(record: RequestRecord) -> list[Candidate]:
    """The candidates that are not in the prompt, the best rank first."""
    packed = {chunk.chunk_id for chunk in record.packing.chunks} if record.packing else set()
    return [each for each in record.candidates if each.chunk_id not in packed]


def _chunks(record: RequestRecord) -> list[str]:
    """The chunks that may be needed, by their numbers: those of the prompt, then the other candidates."""
    packed = [chunk.chunk_id for chunk in record.packing.chunks] if record.packing else []
    return [*packed, *(each.chunk_id for each in _others(record))]


def ask_label(record: RequestRecord, labeler: str) -> RequestLabel | Literal["quit"] | None:
    """The label that somebody gives; None where the request is passed over, `quit` where it is the end."""
    from ragtrace.store import RequestLabel
    from ragtrace.triage.labels import first_broken_of

    chunks = _chunks(record)
    question = "needed chunks: numbers, 0 in no candidate, ? cannot tell, m more candidates, n next, q quit"
    while (given := _answer(question, lambda said: _needed(said, chunks))) == "m":
        others = _others(record)
        shown = ((each.chunk_id, each.text) for each in others)
        _print_passages(len(chunks) - len(others) + 1, shown, _GLANCE)
    if given in ("n", "q"):
        return "quit" if given == "q" else None
    needed = None if given == "?" else tuple(chunks[int(each) - 1] for each in given.split() if each != "0")
    expected = _expected(record, needed)
    stages: dict[str, str] = {}
    for stage in _stages(record):
        default = expected.get(stage, "")
        enter = f", Enter {_KEYS[default]}" if default else ""
        said = _answer(
            f"{stage}: {_MEANINGS[stage]}? s sound, b broken, ? cannot tell{enter}",
            lambda key, default=default: _KEYS.get(key or default),  # type: ignore[misc]
        )
        if said == "q":
            return "quit"
        stages[stage] = said
    note = _line("note, or Enter")
    return RequestLabel(
        request_id=record.request_id,
        labeler=labeler,
        first_broken=first_broken_of(stages),
        stages=stages,
        needed=needed,
        note=note or None,
        labeled_at=time.time_ns(),
    )


def _stages(record: RequestRecord) -> list[str]:
    """The stages that are asked about: citation only where the answer may cite."""
    cites = record.cites is not False and bool(record.generation and record.generation.citations)
    return [stage for stage in _MEANINGS if stage != "citation" or cites or record.cites]


def _needed(said: str, chunks: Sequence[str]) -> str | None:
    """What was said of the needed chunks, in one form; None where it is no answer."""
    if said in ("?", "n", "m"):
        return said
    numbers = said.replace(",", " ").split()
    if numbers == ["0"] or (numbers and all(each.isdecimal() and 0 < int(each) <= len(chunks) for each in numbers)):
        return " ".join(numbers)
    return None


def _expected(record: RequestRecord, needed: Sequence[str] | None) -> Mapping[str, str]:
    """What follows of the needed chunks for retrieval and ranking: the keys that Enter stands for."""
    if needed is None:
        return {}
    if not needed:
        return {"retrieval": "b", "ranking": "s"}
    packed = {chunk.chunk_id for chunk in record.packing.chunks if not chunk.truncated} if record.packing else set()
    return {"retrieval": "s", "ranking": "s" if packed.issuperset(needed) else "b"}


def _answer(question: str, read: Callable[[str], str | None]) -> str:
    """An answer that `read` takes, or q; asks again until there is one."""
    while True:
        said = _line(question).lower()
        if said == "q":
            return said
        found = read(said)
        if found is not None:
            return found
        console().print("that is no answer to the question; try again")


def _line(question: str) -> str:
    """A line of the terminal; q at its end."""
    console().print(f"{question}: ", end="")
    try:
        return input().strip()
    except EOFError:
        console().print()
        return "q"


@app.command("import")
def import_labels(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines or comma-separated values; - for standard input.")
    ],
    labeler: Annotated[
        str | None, typer.Option("--labeler", help="Who labeled rows that name nobody.", show_default=False)
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read labels from a file: request_id, and first_broken or a column for each stage."""
    from ragtrace.cli.terminal import existing
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store
    from ragtrace.triage.labels import read_labels

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {file!r}: {error}; give a file in UTF-8, or -") from error
    labels = read_labels(text, labeler=labeler)
    with Store.open(existing(store)) as opened:
        there = opened.put_labels(labels)
        drawn = {one.request_id for each in opened.drawings() for one in opened.drawn_requests(each.drawing_id)}
    unknown = sorted({label.request_id for label in labels} - there)
    kept = sum(label.request_id in there for label in labels)
    if as_json:
        print_json({"labels": kept, "drawn": len(there & drawn), "unknown": unknown})
        return
    console().print(
        f"{kept} labels of {len(there)} requests, of which {len(there & drawn)} were drawn: only these count in rates"
    )
    if unknown:
        console().print(f"{len(unknown)} requests are not in the store, and their labels were left: {unknown[0]} ...")


@app.command("export")
def export_labels(
    drawing: DrawingOption = None,
    labeler: Annotated[
        str | None, typer.Option("--labeler", help="Only labels of this labeler.", show_default=False)
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values in place of JSON lines.")] = False,
    todo: Annotated[
        bool, typer.Option("--todo", help="With --csv: an empty row for each drawn request without a label.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="All labels of the store, also of requests that were not drawn.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write it, in place of printing.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Write the labels of a drawing, as `import` reads them."""
    from ragtrace.cli.terminal import existing
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store
    from ragtrace.triage.labels import find_drawing, written_labels

    if todo and not as_csv:
        raise ConfigurationError("--todo writes empty rows; give --csv with it")
    with Store.open(existing(store)) as opened:
        ids = None
        if not everything:
            ids = [each.request_id for each in opened.drawn_requests(find_drawing(opened, drawing).drawing_id)]
        labels = opened.labels(request_ids=ids, labeler=labeler)
    known = {label.request_id for label in labels}
    waiting = [each for each in ids or () if each not in known] if todo else []
    text = written_labels(labels, as_csv=as_csv, todo=waiting)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {str(out)!r}: {error.strerror}; give another --out") from error
    typer.echo(f"wrote {out}")


@app.command("agreement")
def show_agreement(service: OfServiceOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """How far labelers agree on which stage broke first, in the requests that several of them labeled."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store
    from ragtrace.triage.labels import agreement

    with Store.open(existing(store)) as opened:
        found = agreement(opened.labels(service=service))
    if as_json:
        print_json(asdict(found))
    else:
        _print_agreement(found)


def _print_agreement(found: LabelAgreement) -> None:
    out = console()
    if not found.requests:
        out.print("no request has labels of two people that tell which stage broke first")
        return
    out.print(f"{found.requests} requests with several labels; Krippendorff's alpha {_coefficient(found.alpha)}")
    print_table(
        ("labelers", "requests", "the same", "Cohen's kappa"),
        [
            (f"{each.first}, {each.second}", str(each.requests), f"{each.same:.0%}", _coefficient(each.kappa))
            for each in found.pairs
        ],
    )
    out.print("0 is chance, 1 is always; below about 0.67 agree first on what the stages mean (docs/how-to/label.md)")


def _coefficient(value: float | None) -> str:
    return "not defined: all say the same word" if value is None else f"{value:.2f}"


@app.command("rates")
def show_rates(
    drawing: DrawingOption = None,
    service: OfServiceOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """The share of requests in which each stage broke first, corrected by the labels of a drawing; kept for export."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store
    from ragtrace.triage.labels import find_drawing, label_rates

    with Store.open(existing(store)) as opened:
        found = label_rates(opened, find_drawing(opened, drawing, service))
        pages = opened.count_page_judgments(found.drawing.service)
    right = sum(each.count for each in pages if each.judgment == "right")
    judged = sum(each.count for each in pages)
    if as_json:
        print_json({**asdict(found), "pages": {"right": right, "judged": judged}})
        return
    _print_rates(found)
    if judged:
        console().print(f"alerts of {found.drawing.service} that on-call called right: {right} of {judged}")


def _print_rates(found: DrawingRates) -> None:
    out, of = console(), found.drawing
    out.print(f"drawing {of.drawing_id}: {of.service}, {shown_time(of.since)} to {shown_time(of.until)}")
    out.print(f"versions: {_of_versions(of.versions)}")
    out.print(f"{found.requests} requests of the random sample, {found.drawn} drawn, {found.labeled} labeled")
    rows = []
    for each in found.stages:
        name = "any stage" if each.stage == "any" else each.stage
        if (it := each.correction) is None:
            is_out_of_reach = each.labels + each.lacking > found.requests
            lacking = f"needs {each.lacking} more labels" + (": draw from a longer time" if is_out_of_reach else "")
            rows.append((name, f"{each.verdict:.1%}", lacking, "-", str(each.labels), "-"))
        else:
            more = "not in this window" if it.to_halve is None else f"{it.to_halve:,} more"
            interval = f"{it.low:.1%} to {it.high:.1%}"
            rows.append((name, f"{it.verdict:.1%}", f"{it.rate:.1%}", interval, str(it.labels), more))
    print_table(("broke first", "by verdict", "corrected", "95 % interval", "labels", "to halve the interval"), rows)
