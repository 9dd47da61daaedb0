"""`ragtrace probe`: asks the index about one request, or about one query, and says why evidence is not found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtrace.probe import Answers, Probe
    from ragtrace.types import ProbedChunk, RequestRecord

__all__ = ["probe"]


def probe(
    request_id: Annotated[
        str | None, typer.Argument(help="A request id, or as much of its beginning as is unique.", show_default=False)
    ] = None,
    query: Annotated[str | None, typer.Option("--query", help="Instead of a request: what to search for.")] = None,
    named: Annotated[
        str | None,
        typer.Option(
            "--probe",
            metavar="MODULE:NAME",
            envvar="RAGTRACE_PROBE",
            help="Your object with probe(query, depth, exact) and has(id or text), or a function() that makes it.",
        ),
    ] = None,
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
            "no probe is given; give --probe MODULE:NAME or RAGTRACE_PROBE: your object with "
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
    from ragtrace.analyze.index_probe import probed
    from ragtrace.analyze.services import Services
    from ragtrace.cli.stores import existing, find_record
    from ragtrace.export.evidence_path import verdict_words
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
    told = _told(probe, chunks, ask(probe, record, deeper=deeper) if chunks else [], record)
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
    told = _told(probe, chunks, answers, record)
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


def _told(
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
