"""`ragtrace grade`: whether what was retrieved is good enough to answer from, and how often that was known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, option, print_json, print_table, progress
from ragtrace.cli.triage import ServiceOption, SinceOption, UntilOption

if TYPE_CHECKING:
    from ragtrace.analyze.grade_attribution import EntityAlignmentReport, GradeAttribution, Interval
    from ragtrace.analyze.retrieval_grading import GradeReport, RequestGrades
    from ragtrace.coverage.verifier import RelevanceJudge
    from ragtrace.grading import ActionOutcome, GradeThresholds
    from ragtrace.store import GradeLine
    from ragtrace.types import RequestRecord

__all__ = ["app", "print_alignment"]

_WORDS = 12  # of a side that are shown, the strongest
_STRIP = 300  # characters of a strip that are shown

app = typer.Typer(
    help="Grade what was retrieved: CORRECT, AMBIGUOUS or INCORRECT, as corrective retrieval does.",
    no_args_is_help=True,
)

JudgeOption: TypeAlias = Annotated[list[str] | None, option("judge", metavar="relevant=MODEL")]
UpperOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--upper",
        metavar="SCORE",
        help="From this grade on, -1 to 1, a document is CORRECT.  [default: what is kept for the service, else 0.59]",
        show_default=False,
    ),
]
LowerOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--lower",
        metavar="SCORE",
        help="Below this grade every document is INCORRECT.  [default: what is kept for the service, else -0.99]",
        show_default=False,
    ),
]


@app.callback()
def _group() -> None:
    """Grade what was retrieved: CORRECT, AMBIGUOUS or INCORRECT, as corrective retrieval does."""


@app.command("request")
def request(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="A request's id, or its beginning.")],
    judge: JudgeOption = None,
    upper: UpperOption = None,
    lower: LowerOption = None,
    why: Annotated[
        str | None,
        typer.Option(
            "--why", metavar="CHUNK_ID", help="Say which words give this chunk its grade.", show_default=False
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", dir_okay=False, help="With --why: also draw it, in one HTML page."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grade each candidate of one request, and show the parts of it that are worth keeping."""
    from ragtrace.analyze.retrieval_grading import grade_request, host_grades
    from ragtrace.cli.terminal import existing, find_record
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store
    from ragtrace.types import to_builtins

    with Store.open(existing(store)) as opened:
        record = find_record(opened, request_id)
        lines = opened.grade_lines([record.service])
    if html is not None and why is None:
        raise ConfigurationError("--html draws what --why says; give --why CHUNK_ID as well")
    if why is not None:
        _explain(record, _relevance(judge), why, html, as_json=as_json)
        return
    is_graded = record.graded is not None and bool(record.graded.grades)
    if is_graded and not judge:
        found = host_grades(record, _thresholds(upper, lower, lines, "host"))
    else:
        model = _relevance(judge)
        found = grade_request(record, model, _thresholds(upper, lower, lines, model.name))
    if as_json:
        print_json(to_builtins(found))
    else:
        _print_request(found)


@app.command("report")
def report(
    service: ServiceOption,
    since: SinceOption,
    until: UntilOption = "now",
    segment: Annotated[str | None, typer.Option("--segment", help="Only this segment.", show_default=False)] = None,
    judge: JudgeOption = None,
    upper: UpperOption = None,
    lower: LowerOption = None,
    wanted: Annotated[
        float | None,
        typer.Option(
            "--wanted",
            metavar="SHARE",
            help="Also find the grade from which CORRECT is right in this share of the requests, such as 0.9.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Grade the service by the threshold of --wanted from now on: one half of the requests fits it.",
        ),
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="About the most requests that are graded.")] = 200,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """How often a window's retrieval was good, whether that was known, and which questions are confidently wrong."""
    from ragtrace.analyze.retrieval_grading import grade_report
    from ragtrace.cli.terminal import existing
    from ragtrace.cli.triage import window_of
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store
    from ragtrace.types import to_builtins

    if keep and wanted is None:
        raise ConfigurationError("--keep keeps the threshold of --wanted; give --wanted SHARE as well")
    window, model = window_of(since, until), _relevance(judge) if judge else None
    with Store.open(existing(store)) as opened, progress() as bar:
        task = bar.add_task("grading", total=None)
        lines = opened.grade_lines([service])
        found = grade_report(
            opened,
            service,
            model,
            _thresholds(upper, lower, lines, model.name if model else None),
            since=window.since,
            until=window.until,
            segment=segment,
            wanted=wanted,
            limit=limit,
            on_progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
        is_kept = keep and found.line is not None
        if keep and found.line is not None:
            opened.keep_grade_line(replace(found.line, fitted_at=time.time_ns()))
    if as_json:
        print_json(to_builtins(found))
    else:
        _print_report(found, is_kept=is_kept)


@app.command("entities")
def entities(
    service: ServiceOption,
    since: SinceOption,
    until: UntilOption = "now",
    judge: JudgeOption = None,
    upper: UpperOption = None,
    lower: LowerOption = None,
    each: Annotated[int, typer.Option("--each", min=2, help="Requests of each action that are explained.")] = 50,
    budget: Annotated[
        int, typer.Option("--budget", min=2, help="About the most pairs that the judge reads for one explanation.")
    ] = 128,
    limit: Annotated[int, typer.Option("--limit", min=1, help="About the most requests that are graded.")] = 1000,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Whether grades rest on the names that question and document share; and what exchanging these names does."""
    from ragtrace.analyze.grade_attribution import alignment_report, deciding_pairs
    from ragtrace.cli.terminal import existing
    from ragtrace.cli.triage import window_of
    from ragtrace.store import Store
    from ragtrace.types import to_builtins

    window, model = window_of(since, until), _relevance(judge)
    with Store.open(existing(store)) as opened:
        thresholds = _thresholds(upper, lower, opened.grade_lines([service]), model.name)
        pairs = deciding_pairs(
            opened, service, model, thresholds, since=window.since, until=window.until, each=each, limit=limit
        )
    with progress() as bar:
        task = bar.add_task("explaining", total=len(pairs))
        found = alignment_report(
            pairs, model, thresholds, budget=budget, on_progress=lambda done, _: bar.update(task, completed=done)
        )
    if as_json:
        print_json(to_builtins(found))
    else:
        print_alignment(found)


def print_alignment(found: EntityAlignmentReport) -> None:
    """The report as tables: what grades rest on, and what becomes of them without a name."""
    out = console()
    out.print(f"what the grades of {found.judge} rest on", highlight=False)
    if not found.alignments:
        out.print("no request of the window has a question and texts of its candidates", highlight=False)
        return
    print_table(
        ("action", "requests", "without a name", "for: shared names", "against: missing names", "separator"),
        (
            (each.action, str(each.requests), str(each.unnamed), *map(_percents, (each.shared, each.missing)),
             _percents(each.separator))
            for each in found.alignments
        ),
    )  # fmt: skip
    out.print("\nA name that both have is exchanged for another request's:", highlight=False)
    print_table(
        ("action", "requests", "in the document: grade falls by", "still this action", "on both: falls by"),
        (
            (each.action, str(each.requests), _points(each.in_document), _percents(each.kept), _points(each.on_both))
            for each in found.exchanges
        ),
    )


def _percents(share: Interval | None) -> str:
    return "–" if share is None else _share(share.value, share.low, share.high)


def _points(fall: Interval | None) -> str:
    return "–" if fall is None else f"{fall.value:.2f} [{fall.low:.2f}, {fall.high:.2f}]"


def _explain(record: RequestRecord, judge: RelevanceJudge, chunk_id: str, html: Path | None, *, as_json: bool) -> None:
    """The words behind the grade of one candidate. Raises: ConfigurationError where there is none with a text."""
    from ragtrace.analyze.grade_attribution import explain_grade
    from ragtrace.errors import ConfigurationError
    from ragtrace.types import to_builtins

    texts = {each.chunk_id: each.text for each in record.candidates if each.text}
    if chunk_id not in texts:
        raise ConfigurationError.of(
            "--why", chunk_id, f"a candidate with a text: {', '.join(list(texts)[:9]) or 'none'}"
        )
    found = explain_grade(judge, record.query.original, texts[chunk_id] or "")
    if html is not None:
        from ragtrace.export.explanation_html import grade_page

        try:
            html.write_text(grade_page(found, chunk_id), encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"--html {html}: it cannot be written ({error.strerror})") from error
    if as_json:
        print_json(to_builtins(found))
    else:
        _print_attribution(found)


def _print_attribution(found: GradeAttribution) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(f"grade {found.grade:+.2f} by {found.judge}; of two empty texts {found.empty:+.2f}"))
    path = found.gradients
    for side, words, beside in (
        ("question", found.question, path.question if path else None),
        ("document", found.document, path.document if path else None),
    ):
        out.print(Text(f"\n{side}  {sum(word.weight for word in words):+.2f} in all"))
        pairs = list(zip(words, beside or words, strict=True))
        strongest = sorted((pair for pair in pairs if pair[0].weight), key=lambda pair: -abs(pair[0].weight))[:_WORDS]
        if strongest:
            print_table(
                ("word", "adds", *(("by gradients",) if path else ())),
                (
                    (word.text, f"{word.weight:+.3f}", *((f"{other.weight:+.3f}",) if path else ()))
                    for word, other in strongest
                ),
            )
    if found.separator is not None:
        gradients = f" ({path.separator:+.3f} by gradients)" if path else ""
        out.print(f"\nwhat stands between both  {found.separator:+.3f}{gradients}", highlight=False)
    for share, what in (
        (found.shared, "of what speaks for it stands on words that question and document share"),
        (found.missing, "of what speaks against it stands on words of the question that the document lacks"),
    ):
        if share is not None:
            out.print(f"\n{100 * share:.0f}% {what}", highlight=False)
    exact = "" if found.is_exact else "; parts that were not looked into share their worth evenly"
    out.print(f"\n{found.evaluations:,} pairs were graded{exact}", highlight=False)


def _relevance(given: list[str] | None) -> RelevanceJudge:
    """The judge of relevance: the one that is named, else the built-in one. Raises: MissingExtraError."""
    from ragtrace.engines.model_names import as_judges, load_judges

    models = as_judges(given or ())
    found = load_judges({"relevant": models.get("relevant", "builtin")}).relevant
    assert found is not None
    return found


def _thresholds(
    upper: float | None, lower: float | None, lines: Sequence[GradeLine], judge: str | None
) -> GradeThresholds:
    """Those that are given, else those that are kept for the judge (of several judges None has none), else PopQA's."""
    from ragtrace.grading import POPQA, GradeThresholds, given_thresholds

    own = [line for line in lines if judge is None or line.judge == judge]
    kept = GradeThresholds(own[0].upper, own[0].lower) if len(own) == 1 else POPQA
    return given_thresholds(upper, lower) or kept


def _line(thresholds: GradeThresholds) -> str:
    return f"CORRECT from {thresholds.upper:+.2f} on, INCORRECT below {thresholds.lower:+.2f}"


def _print_request(found: RequestGrades) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(f"question  {found.question}"))
    by = f"{found.judge} ({found.source})" if found.source else found.judge
    out.print(Text(f"action    {found.action}  ({_line(found.thresholds)}, by {by})"))
    if found.left_out:
        out.print(f"{found.left_out:,} candidates are left out: their texts were not recorded", highlight=False)
    out.print()
    print_table(
        ("chunk", "rank", "grade", "alone", "in prompt"),
        (
            (each.chunk_id, str(each.rank), f"{each.grade:+.2f}", each.action, "yes" if each.is_packed else "")
            for each in found.candidates
        ),
    )
    for each in found.candidates:
        for strip in each.strips:
            words = " ".join(strip.split())
            cut = words if len(words) <= _STRIP else f"{words[:_STRIP]}…"
            out.print(Text(f"\n{each.chunk_id}: {cut}"))


def _print_report(report: GradeReport, *, is_kept: bool) -> None:
    from rich.text import Text

    out = console()
    if not report.requests:
        out.print(Text(f"{report.service}: no request of this time is graded"))
        for reason, count in report.left_out.items():
            out.print(f"  {count:,} are left out: {reason}", highlight=False)
        if report.left_out:
            out.print("  --judge relevant=builtin, or another model, grades them now", highlight=False)
        return
    out.print(Text(f"{report.service}: {report.requests:,} requests graded by {report.judge}"))
    out.print(f"  {_line(report.thresholds)}", highlight=False)
    for reason, count in report.left_out.items():
        out.print(f"  {count:,} are left out: {reason}", highlight=False)
    for each in report.wrong_kinds:
        right = _share(each.right, each.low, each.high)
        out.print(Text(f"  confidently wrong: {each.kind}: retrieval is trusted, and answers are right in {right}"))
    out.print()
    rows = (
        (each.segment, each.action, f"{each.requests:,}", _share(each.share, each.low, each.high))
        for each in report.actions
    )
    print_table(("segment", "action", "requests", "share"), rows)
    told = " and ".join(f"{by} in {count:,}" for by, count in report.told_by.items())
    out.print(f"\nWhether the answer was right is told by {told or 'nothing in these requests'}.", highlight=False)
    if (apart := report.disagreed) is not None:
        share = _share(apart.share, apart.low, apart.high)
        out.print(f"The host took another action than the grades say in {share} of {apart.of:,}:", highlight=False)
        for taken, said, count in apart.cells:
            out.print(f"  {taken} taken where the grades say {said}: {count:,}", highlight=False)
    if report.outcomes:
        _print_outcomes("action", report.outcomes)
    if report.by_kind:
        out.print()
        _print_outcomes("question", report.by_kind)
    _print_fitted(report, is_kept=is_kept)


def _print_outcomes(first: str, cells: tuple[ActionOutcome, ...]) -> None:
    rows = []
    for cell in cells:
        right = (f"{cell.requests:,}", _share(cell.right, cell.low, cell.high))
        rows.append((cell.action, *right) if first == "action" else (cell.kind, cell.action, *right))
    print_table((first, *(() if first == "action" else ("action",)), "requests", "answers right"), rows)


def _print_fitted(report: GradeReport, *, is_kept: bool) -> None:
    fitted = report.fitted
    if fitted is None:
        return
    if fitted.threshold is None or fitted.share is None or fitted.low is None or fitted.high is None:
        console().print(f"\n{fitted.reason}", highlight=False)
        return
    share, out = _share(fitted.share, fitted.low, fitted.high), console()
    out.print(
        f"\nfrom {fitted.threshold:+.2f} on, answers were right in {share} of {fitted.requests:,} requests:"
        f" --upper {floor(fitted.threshold * 1e4) / 1e4:g}",
        highlight=False,
    )
    line = report.line
    if line is None:
        why = "one half of them alone is too few to find it"
        if " and " in report.judge:
            why = "several judges graded them; name one by --judge relevant=MODEL"
        out.print(f"Judge it on other requests than these. Nothing can be kept: {why}.", highlight=False)
        return
    if line.share is not None and line.low is not None and line.high is not None:
        share = _share(line.share, line.low, line.high)
        out.print(
            f"One half of them gives {line.upper:g}, and {share} of {line.requests:,} in the other half are right.",
            highlight=False,
        )
    if is_kept:
        out.print(f"{report.service} is graded by {line.upper:g} and {line.lower:g} from now on.", highlight=False)
    else:
        out.print("--keep grades the service by that from now on.", highlight=False)


def _share(share: float, low: float, high: float) -> str:
    return f"{100 * share:.0f}% [{100 * low:.0f}, {100 * high:.0f}]"
