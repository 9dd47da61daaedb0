"""`ragtrace show`: the evidence path of one request, or which requests there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table
from ragtrace.times import shown_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragtrace.analyze.judgeability import Judgeability
    from ragtrace.store import RequestRow, Store

__all__ = ["show"]

_WIDE: Final = 120  # columns of a terminal, from which on all is shown
_COLUMNS: Final = ("request", "started", "service", "segment", "verdict", "sound", "owner")


def show(
    request_id: Annotated[
        str | None, typer.Argument(help="A request id, or as much of its beginning as is unique.", show_default=False)
    ] = None,
    service: Annotated[str | None, typer.Option("--service", help="Without an id: of this application.")] = None,
    segment: Annotated[str | None, typer.Option("--segment", help="Without an id: of this segment.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Without an id: how many, the newest first.")] = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print one request's evidence path: verdict, the state of each stage, facets, candidates, ranks, prompt, claims.

    Without an id, print the newest requests, and how much of them can be judged.
    """
    from ragtrace.analyze.judgeability import judgeability
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        if request_id is not None:
            _show(opened, request_id, as_json)
            return
        found = opened.find_requests(service=service, segment=segment, limit=limit)
        if as_json:
            print_json([asdict(row) for row in found])
        elif not found:
            console().print("no such requests")
        else:
            print_table(*_table(found, console().width))
            for name in dict.fromkeys(row.service for row in found):
                console().print()
                for part in _judgeable(judgeability(opened, name)):
                    console().print(part)


def _table(rows: Sequence[RequestRow], width: int) -> tuple[Sequence[str], list[Sequence[str]]]:
    """The columns and lines of a list of requests; where it is narrow, without what is alike in all, or follows."""
    lines = list(map(_row, rows))
    kept = list(range(len(_COLUMNS)))
    if width < _WIDE:
        values = dict(zip(_COLUMNS, zip(*lines, strict=True), strict=True))
        left_out = {name for name in ("service", "segment") if len(set(values[name])) == 1} | {"owner"}
        kept = [place for place, name in enumerate(_COLUMNS) if name not in left_out]
    return [_COLUMNS[place] for place in kept], [[line[place] for place in kept] for line in lines]


def _row(row: RequestRow) -> tuple[str, ...]:
    from ragtrace.export.evidence_path import verdict_brief

    verdict = verdict_brief(row.verdict, row.states)
    said = f"error; {verdict}" if row.status == "error" and row.verdict != "error" else verdict
    sound = f"{sum(state == 'sound' for state in row.states.values())}/{len(row.states)}" if row.states else ""
    started = shown_time(row.started_at)[5:]  # the newest requests: no year
    return row.request_id, started, row.service, row.segment, said, sound, row.owner or ""


def _judgeable(found: Judgeability) -> Iterator[RenderableType]:
    """Of a service's last requests: in how many each stage is judged, why not in the others, and what tells more."""
    from rich.text import Text

    from ragtrace.analyze.judgeability import remedy
    from ragtrace.export.evidence_path import NOT_JUDGED, labeled, plain_table
    from ragtrace.registry.wording import reason_words

    if found.outdated:
        yield Text(f"{found.service}: {found.outdated:,} requests are {NOT_JUDGED}")
    if not found.requests:
        return
    table = plain_table(f"last {found.requests:,} requests of {found.service}", "judged", "else mostly")
    remedies = []
    for stage in found.stages:
        judged = stage.states["sound"] + stage.states["broken"]
        why = "" if stage.reason is None else reason_words(stage.reason, stage.stage)
        table.add_row(Text(stage.stage), Text(f"{judged:,} of {stage.requests:,}"), Text(why))
        helpful = stage.reason and remedy(stage.stage, stage.reason, is_verified=found.is_verified)
        if helpful:
            remedies.append((stage.stage, Text(helpful)))
    if not found.judges_citations:
        table.add_row(Text("citation"), Text("none"), Text("answers that do not cite"))
        remedies.append(("citation", Text("ragtrace.configure(cites=True) judges the citations all the same")))
    yield table
    if remedies:
        yield Text("What would let more be judged:")
        yield labeled(*remedies)


def _show(store: Store, request_id: str, as_json: bool) -> None:
    from ragtrace.analyze.generator import resting_on
    from ragtrace.cli.stores import find_record
    from ragtrace.export import evidence_path
    from ragtrace.export.claims import claim_rationales
    from ragtrace.store import ATTRIBUTION
    from ragtrace.types import replace, to_builtins

    record = find_record(store, request_id)
    analysis = store.get_analysis(record.request_id)
    explained = store.get_analysis(record.request_id, ATTRIBUTION)
    if analysis is not None and explained is not None and explained.explanation is not None:
        analysis = replace(analysis, claims=resting_on(analysis.claims, explained.explanation.generator))
    if as_json:
        found = claim_rationales(record, analysis.claims) if analysis else ()
        told = [one and {"chunk_id": one.chunk_id, "stance": one.stance, "text": one.text} for one in found]
        print_json(
            {
                "record": to_builtins(record),
                "analysis": to_builtins(analysis) if analysis else None,
                "rationales": told,
            }
        )
    else:
        console().print(evidence_path.render(record, analysis))
