"""`ragtrace show|probe`: requests one by one: what happened, and what the index holds for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, option, print_json, print_table
from ragtrace.config import variable
from ragtrace.errors import ConfigurationError
from ragtrace.formats import parse_time, shown_time
from ragtrace.registry.wording import REASONS, VERDICTS
from ragtrace.safe_text import harmless
from ragtrace.types import Stage

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragtrace.analyze.services import Judgeability
    from ragtrace.probe import Answers, Probe
    from ragtrace.store import Listing, RequestRow, Store
    from ragtrace.types import ProbedChunk, RequestRecord

__all__ = ["probe", "show"]

_SCAN: Final = 20_000  # requests that are looked at in one query
_DOUBTS: Final = ("suspected", "not_known")
_IN_DOUBT: Final = (*get_args(Stage), "distant")
_STATUSES: Final = ("ok", "error")
_WIDE: Final = 160  # columns of a terminal, from which on all is shown
_ROOM: Final = 30  # of them, from which on a question stands in its line
_NARROWEST: Final = 8  # to which a column is cut
_COLUMNS: Final = ("request", "started", "service", "segment", "verdict", "stages sound", "owner")


_LIST: Final = "The list of requests, where no id is given"


def _only(name: str, metavar: str | None, which: str, choices: Iterable[str] = ()) -> Any:
    """The option of a filter of the list. choices: its values, where they are a closed list."""
    values = f": {', '.join(choices)}" if choices else ""
    text = f"Only requests {which}{values}."
    return typer.Option(name, metavar=metavar, help=text, show_default=False, rich_help_panel=_LIST)


def show(
    request_id: Annotated[
        str | None, typer.Argument(help="A request id, or as much of its beginning as is unique.", show_default=False)
    ] = None,
    service: Annotated[str | None, _only("--service", "NAME", "of this service")] = None,
    segment: Annotated[str | None, _only("--segment", "NAME", "of this segment")] = None,
    stage: Annotated[
        str | None,
        _only("--stage", "STAGE", "that broke first at this stage, or with --doubt in which it is so", get_args(Stage)),
    ] = None,
    verdict: Annotated[str | None, _only("--verdict", "VERDICT", "with this verdict", VERDICTS)] = None,
    doubt: Annotated[
        str | None, _only("--doubt", "STATE", "in which a stage, or that of --stage, is so", _DOUBTS)
    ] = None,
    in_doubt: Annotated[
        str | None,
        _only(
            "--in-doubt",
            "STAGE",
            "in which this stage is in doubt or broken, as `ragtrace triage` counts (distant: with an answer far from "
            "the question)",
            _IN_DOUBT,
        ),
    ] = None,
    reason: Annotated[
        str | None, _only("--reason", "REASON", "of which a stage is suspected or not known for this reason", REASONS)
    ] = None,
    rollout: Annotated[
        str | None, _only("--rollout", "COMPONENT=VERSION", "whose break is suspected to come from this release")
    ] = None,
    version: Annotated[str | None, _only("--with-version", "COMPONENT=VERSION", "that ran with this version")] = None,
    provider: Annotated[
        str | None,
        _only("--provider", "NAME", "with a candidate of this provider, as `ragtrace analyze --provider` names it"),
    ] = None,
    flag: Annotated[str | None, _only("--flag", "FLAG", "with this flag, such as low_coverage or thumbs_down")] = None,
    session: Annotated[str | None, _only("--session", "ID", "of this session")] = None,
    status: Annotated[str | None, _only("--status", "STATUS", "that ended so", _STATUSES)] = None,
    since: Annotated[str | None, _only("--since", "TIME", "that began then or later, such as 2h ago")] = None,
    until: Annotated[str | None, _only("--until", "TIME", "that began before")] = None,
    search: Annotated[
        str | None,
        _only("--search", "WORDS", "with all of these words in question or answer, after `ragtrace db search on`"),
    ] = None,
    labeled: Annotated[
        bool | None,
        typer.Option(
            "--labeled/--unlabeled", help="Only requests that people labeled, or did not.", rich_help_panel=_LIST
        ),
    ] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="List them in the order of time.", rich_help_panel=_LIST)
    ] = False,
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, help="The most requests to show, the newest ones first.", rich_help_panel=_LIST),
    ] = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print one request's evidence path: verdict, the state of each stage, facets, candidates, ranks, prompt, claims.

    Without an id, print the newest requests; and how much of them can be judged, unless they are filtered.
    """
    from ragtrace.analyze.services import judgeability
    from ragtrace.cli.terminal import existing, no_such_service
    from ragtrace.store import Listing, Store

    _check_choices(stage=stage, verdict=verdict, doubt=doubt, in_doubt=in_doubt, reason=reason, status=status)
    wanted = Listing(
        service=service,
        segment=segment,
        session_id=session,
        since=None if since is None else parse_time("--since", since),
        until=None if until is None else parse_time("--until", until),
        stage=stage,
        verdict=verdict,
        doubt=doubt,
        in_doubt=in_doubt,
        reason=reason,
        rollout=rollout,
        version=version,
        provider=provider,
        flag=flag,
        status=status,
        is_labeled=labeled,
        search=search,
        oldest_first=oldest_first,
    )
    if search is not None and oldest_first:
        raise ConfigurationError("--search finds the newest requests first; leave out --oldest-first")
    if wanted.since is not None and wanted.until is not None and wanted.since >= wanted.until:
        raise ConfigurationError.of("--since", since, f"a time before --until ({until})")
    if request_id is not None and wanted != Listing():
        raise ConfigurationError("one request was named, and a filter is for a list; leave one of them out")
    with Store.open(existing(store)) as opened:
        if request_id is not None:
            _show(opened, request_id, as_json)
            return
        if service is not None and service not in (known := opened.services()):
            raise no_such_service(service, known)
        found = _listed(opened, wanted, limit + 1)
        has_more, found = len(found) > limit, found[:limit]
        if as_json:
            print_json([asdict(row) for row in found])
        elif not found:
            console().print("no such requests")
        else:
            _print_list(found, _questions(opened, found))
            if has_more:
                which = "first" if oldest_first else "newest"
                told = f"the {which} {len(found)}; there are more: --limit {5 * limit} shows more of them"
                console().print(told)
            is_whole = wanted == Listing(service=service)  # what tells of the last requests tells nothing of a choice
            for name in dict.fromkeys(row.service for row in found) if is_whole else ():
                console().print()
                for part in _judgeable(judgeability(opened, name)):
                    console().print(part)


def _check_choices(**given: str | None) -> None:
    """Raises: ConfigurationError for a word that no request has."""
    known: dict[str, Iterable[str]] = {
        "stage": get_args(Stage),
        "verdict": VERDICTS,
        "doubt": _DOUBTS,
        "in_doubt": _IN_DOUBT,
        "reason": REASONS,
        "status": _STATUSES,
    }
    for name, value in given.items():
        if value is not None and value not in known[name]:
            raise ConfigurationError.of(f"--{name.replace('_', '-')}", value, ", ".join(known[name]))


def _listed(store: Store, wanted: Listing, limit: int) -> list[RequestRow]:
    """The first requests that match, in the order that is wanted, however far away they are."""
    found: list[RequestRow] = []
    before = None
    while len(found) < limit:
        page = store.list_requests(wanted, before, limit=limit - len(found), scan=_SCAN)
        found += page.rows
        before = page.after
        if before is None:
            break
    return found


def _table(rows: Sequence[RequestRow], width: int) -> tuple[Sequence[str], list[Sequence[str]]]:
    """The columns and lines of a list of requests; where it is narrow, without what is alike in all, or follows."""
    lines = list(map(_row, rows))
    kept = list(range(len(_COLUMNS)))
    if width < _WIDE:
        values = dict(zip(_COLUMNS, zip(*lines, strict=True), strict=True))
        left_out = {name for name in ("service", "segment") if len(set(values[name])) == 1} | {"owner"}
        kept = [place for place, name in enumerate(_COLUMNS) if name not in left_out]
    return [_COLUMNS[place] for place in kept], [[line[place] for place in kept] for line in lines]


def _questions(store: Store, rows: Sequence[RequestRow]) -> list[str]:
    """What was asked, on one line each; nothing where it was not kept or cannot be read."""
    records = store.get_records([row.request_id for row in rows])
    return [" ".join(record.query.original.split()) if (record := records.get(row.request_id)) else "" for row in rows]


def _print_list(rows: Sequence[RequestRow], questions: Sequence[str]) -> None:
    """The list; a question stands in the last column where that leaves room for one, else below its request."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    out = console()
    columns, lines = _table(rows, out.width)
    widths = [max(map(cell_len, cells)) for cells in zip(columns, *lines, strict=True)]
    if sum(widths) + 2 * len(widths) - 2 > out.width and "segment" in columns:
        place = columns.index("segment")
        columns = [*columns[:place], *columns[place + 1 :]]
        lines = [[*line[:place], *line[place + 1 :]] for line in lines]
        widths.pop(place)
    needed = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    while sum(widths) + 2 * len(widths) - 2 > out.width and max(widths[1:]) > _NARROWEST:
        place = max(range(1, len(widths)), key=lambda at: (widths[at] > needed[at], widths[at]))  # a long head first
        widths[place] -= 1
    left = max(0, out.width - sum(widths) - 2 * len(widths))

    def printed(cells: Sequence[str], more: str, style: str = "") -> None:
        fitted = (_cut(cell, width) for cell, width in zip(cells, widths, strict=True))
        line = "  ".join(set_cell_size(cell, width) for cell, width in zip(fitted, widths, strict=True))
        out.print(Text(f"{line}  {_cut(more, left)}".rstrip() if more else line.rstrip(), style), soft_wrap=True)

    is_beside = left >= _ROOM
    printed(columns, "asked" if is_beside else "", "bold")
    for line, question in zip(lines, questions, strict=True):
        printed(line, question if is_beside else "")
        if question and not is_beside:
            out.print(Text(f"  {_cut(question, out.width - 2)}", "dim"), soft_wrap=True)


def _cut(text: str, width: int) -> str:
    """A text of so many columns at most."""
    from rich.cells import cell_len, set_cell_size

    plain = harmless(text)
    return plain if cell_len(plain) <= width else f"{set_cell_size(plain, max(0, width - 1)).rstrip()}…"


def _row(row: RequestRow) -> tuple[str, ...]:
    from ragtrace.export.findings import verdict_brief

    verdict = verdict_brief(row.verdict, row.states, row.reasons)
    said = f"error; {verdict}" if row.status == "error" and row.verdict != "error" else verdict
    sound = f"{sum(state == 'sound' for state in row.states.values())}/{len(row.states)}" if row.states else ""
    started = shown_time(row.started_at)[5:]  # the newest requests: no year
    return row.request_id, started, row.service, row.segment, said, sound, row.owner or ""


def _judgeable(judgeability: Judgeability) -> Iterator[RenderableType]:
    """Of a service's last requests: in how many each stage is judged, why not in the others, and what tells more."""
    from rich.text import Text

    from ragtrace.analyze.services import remedy
    from ragtrace.export.evidence_path import labeled, plain_table
    from ragtrace.export.findings import NOT_JUDGED
    from ragtrace.registry.wording import reason_words

    if judgeability.outdated:
        yield Text(f"{judgeability.service}: {judgeability.outdated:,} requests are {NOT_JUDGED}")
    if not judgeability.requests:
        return
    table = plain_table(
        f"last {judgeability.requests:,} requests of {judgeability.service}", "judged", "main reason for the rest"
    )
    remedies = []
    for stage in judgeability.stages:
        judged = stage.states["sound"] + stage.states["broken"]
        why = "" if stage.reason is None else reason_words(stage.reason, stage.stage)
        table.add_row(Text(stage.stage), Text(f"{judged:,} of {stage.requests:,}"), Text(why))
        helpful = stage.reason and remedy(stage.stage, stage.reason, is_verified=judgeability.is_verified)
        if helpful:
            remedies.append((stage.stage, Text(helpful)))
    if not judgeability.judges_citations:
        table.add_row(Text("citation"), Text("none"), Text("answers that do not cite"))
        remedies.append(("citation", Text("ragtrace.configure(cites=True) judges the citations all the same")))
    yield table
    if remedies:
        yield Text("What would let more be judged:")
        yield labeled(*remedies)


def _show(store: Store, request_id: str, as_json: bool) -> None:
    from ragtrace.analyze.alignment import resting_on
    from ragtrace.cli.terminal import find_record
    from ragtrace.export import evidence_path
    from ragtrace.export.findings import request_document
    from ragtrace.store import ATTRIBUTION
    from ragtrace.types import replace, to_builtins

    record = find_record(store, request_id)
    analysis = store.get_analysis(record.request_id)
    explained = store.get_analysis(record.request_id, ATTRIBUTION)
    if analysis is not None and explained is not None and explained.explanation is not None:
        analysis = replace(analysis, claims=resting_on(analysis.claims, explained.explanation.generator))
    if as_json:
        print_json(to_builtins(request_document(record, analysis)))
    else:
        lost = [one.chunk_id for one in analysis.lost if one.where == "retrieval"] if analysis else []
        known = store.chunk_texts(record.service, lost) if lost else {}
        labels = store.labels(request_ids=[record.request_id])
        console().print(evidence_path.render(record, analysis, known, labels, is_explained=explained is not None))


def probe(
    request_id: Annotated[
        str | None, typer.Argument(help="A request id, or as much of its beginning as is unique.", show_default=False)
    ] = None,
    query: Annotated[str | None, typer.Option("--query", help="Instead of a request: what to search for.")] = None,
    named: Annotated[str | None, option("probe", metavar="MODULE:NAME")] = None,
    depth: Annotated[int, typer.Option("--depth", min=1, help="With --query: how many the application asks for.")] = 10,
    deeper: Annotated[int, typer.Option("--deeper", min=1, help="How many times deeper to ask.")] = 10,
    chunk: Annotated[
        list[str] | None,
        typer.Option("--chunk", metavar="ID", help="Say why this chunk is not found, or its text; may be repeated."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the index again, deeper and exactly: is evidence not indexed, missed, too deep, or removed by a filter?

    Nothing is stored; `ragtrace analyze --again --probe` does that.
    """
    from ragtrace.probe import load_probe

    if (request_id is None) == (query is None):
        raise ConfigurationError("give a request id, or --query with what to search for")
    if named is None:
        raise ConfigurationError(
            f"no probe is given; give --probe MODULE:NAME or {variable('probe')}: your object with "
            "probe(query, depth, exact) and has(id or text)"
        )
    asked = load_probe(named)
    if request_id is not None:
        _of_request(asked, request_id, store, deeper, chunk or [], as_json=as_json)
    else:
        _of_query(asked, query or "", depth, deeper, chunk or [], as_json=as_json)


def _of_request(
    probe: Probe, request_id: str, store: str | None, deeper: int, chunks: list[str], *, as_json: bool
) -> None:
    from ragtrace.analyze import examine, judge_id
    from ragtrace.analyze.analysis import with_probe
    from ragtrace.analyze.probe_schedule import probed
    from ragtrace.analyze.services import Services
    from ragtrace.cli.terminal import existing, find_record
    from ragtrace.export.findings import verdict_words
    from ragtrace.probe import ask
    from ragtrace.registry.wording import FIXES, probe_lines
    from ragtrace.store import Store
    from ragtrace.types import to_builtins

    with Store.open(existing(store)) as opened:
        record = find_record(opened, request_id)
        gold = opened.find_golds([(record.service, record.query.original)]).get((record.service, record.query.original))
        services = Services(opened, judge_id())
        services.load([record.service])
        releases = opened.releases(record.service)
        view = services.view(record)
    analysis, case = examine(record, gold, releases, service=view)
    found = probed(probe, record, analysis, view, deeper=deeper)
    judged = with_probe(record, analysis, case, found, releases)
    told = _reasons_not_found(probe, chunks, ask(probe, record, deeper=deeper) if chunks else [], record)
    if as_json:
        print_json(
            {"probe": to_builtins(found), "diagnosis": to_builtins(judged.diagnosis), "chunks": list(map(_plain, told))}
        )
        return
    say = console().print
    say(verdict_words(judged.diagnosis), markup=False)
    for line in (*probe_lines(found), *(_line(one, found.asked) for one in told)):
        say(f"  {line}", markup=False)
    if found.cause is not None:
        say(FIXES[found.cause], markup=False)


def _of_query(probe: Probe, query: str, depth: int, deeper: int, chunks: list[str], *, as_json: bool) -> None:
    from ragtrace.probe import ask
    from ragtrace.types import Query, RequestRecord, RetrieveRun, to_builtins

    record = RequestRecord(
        request_id="", service="", query=Query(original=query), stages=(RetrieveRun(query=query, top_k=depth),)
    )
    answers = ask(probe, record, deeper=deeper)
    told = _reasons_not_found(probe, chunks, answers, record)
    rows = [
        (name, _rank(one.same, name), _rank(one.deep, name), _rank(one.exact or {}, name))
        for one in answers
        for name in dict.fromkeys([*one.same, *list(one.exact or {})[: 2 * depth]])
    ]
    if as_json:
        found = [{"chunk_id": row[0], "rank": row[1], "deep_rank": row[2], "exact_rank": row[3]} for row in rows]
        print_json({"query": query, "depth": depth, "found": found, "chunks": [to_builtins(one) for one, _ in told]})
        return
    columns = ("chunk", f"of {depth}", f"of {answers[0].asked}", "exact") if answers else ("chunk",)
    print_table(columns, [tuple(str(cell or "-") for cell in row) for row in rows])
    for one in told:
        console().print(_line(one, answers[0].asked), markup=False)


def _reasons_not_found(
    probe: Probe, chunks: list[str], answers: list[Answers], record: RequestRecord
) -> list[tuple[ProbedChunk, bool]]:
    """Each chunk with the reason why it is not found, and whether it is."""
    from ragtrace.probe import cause_of

    there = {candidate.chunk_id for candidate in record.candidates} or {name for one in answers for name in one.same}
    return [(cause_of(probe, name, answers, record), name in there) for name in chunks]


def _line(told: tuple[ProbedChunk, bool], asked: int) -> str:
    from ragtrace.registry.wording import FIXES, PROBE_CAUSES

    chunk, is_there = told
    if is_there:
        return f"{chunk.chunk_id}: it is among the candidates"
    ranks = f"rank {chunk.rank or '-'} of {asked}, exactly {chunk.exact_rank or '-'}"
    if chunk.cause is None:
        return f"{chunk.chunk_id}: the probe cannot tell why it is not among the candidates ({ranks})"
    return f"{chunk.chunk_id} {PROBE_CAUSES[chunk.cause]} ({ranks}). {FIXES[chunk.cause]}"


def _plain(told: tuple[ProbedChunk, bool]) -> dict[str, Any]:
    from ragtrace.types import to_builtins

    return {**to_builtins(told[0]), "is_candidate": told[1]}


def _rank(found: Any, name: str) -> int | None:
    candidate = found.get(name)
    return None if candidate is None else candidate.rank
