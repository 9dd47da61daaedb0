"""`ragtrace show`: the evidence path of one request."""

from __future__ import annotations

from typing import Annotated

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json

__all__ = ["show"]


def show(
    request_id: Annotated[str, typer.Argument(help="A request id, or as much of its beginning as is unique.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print one request's evidence path: facets, candidates, ranks, prompt, claims, and the diagnosis."""
    from ragtrace.analyze.explaining.resting import resting_on
    from ragtrace.cli.stores import existing, find_record
    from ragtrace.export import evidence_path
    from ragtrace.store import ATTRIBUTION, Store
    from ragtrace.types import replace, to_builtins

    with Store.open(existing(store)) as opened:
        record = find_record(opened, request_id)
        analysis = opened.get_analysis(record.request_id)
        explained = opened.get_analysis(record.request_id, ATTRIBUTION)
    if analysis is not None and explained is not None and explained.explanation is not None:
        analysis = replace(analysis, claims=resting_on(analysis.claims, explained.explanation.generator))
    if as_json:
        print_json({"record": to_builtins(record), "analysis": to_builtins(analysis) if analysis else None})
    else:
        console().print(evidence_path.render(record, analysis))
