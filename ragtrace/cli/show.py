"""`ragtrace show`: the evidence path of one request, or which requests there are."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table
from ragtrace.times import shown_time

if TYPE_CHECKING:
    from ragtrace.store import RequestRow, Store

__all__ = ["show"]

_COLUMNS: Final = ("request", "started", "service", "segment", "verdict", "owner")


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
    """Print one request's evidence path: facets, candidates, ranks, prompt, claims, and the diagnosis.

    Without an id, print the newest requests.
    """
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
        print_table(_COLUMNS, map(_row, found))


def _row(row: RequestRow) -> tuple[str, ...]:
    verdict = (row.verdict or "not analyzed").replace("_", " ")
    said = f"error; {verdict}" if row.status == "error" else verdict
    return row.request_id, shown_time(row.started_at), row.service, row.segment, said, row.owner or ""


def _show(store: Store, request_id: str, as_json: bool) -> None:
    from ragtrace.analyze.explaining.resting import resting_on
    from ragtrace.cli.stores import find_record
    from ragtrace.export import evidence_path
    from ragtrace.store import ATTRIBUTION
    from ragtrace.types import replace, to_builtins

    record = find_record(store, request_id)
    analysis = store.get_analysis(record.request_id)
    explained = store.get_analysis(record.request_id, ATTRIBUTION)
    if analysis is not None and explained is not None and explained.explanation is not None:
        analysis = replace(analysis, claims=resting_on(analysis.claims, explained.explanation.generator))
    if as_json:
        print_json({"record": to_builtins(record), "analysis": to_builtins(analysis) if analysis else None})
    else:
        console().print(evidence_path.render(record, analysis))
