"""`ragtrace drift`: which chunks an index build holds differently from the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table

if TYPE_CHECKING:
    from ragtrace.store import Drift

__all__ = ["drift"]

_COLUMNS = ("service", "from", "to", "chunks", "unchanged", "rewritten", "renumbered")


def drift(
    service: Annotated[str | None, typer.Option("--service", help="Only this service.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the chunks of each index version with those of the version before it, as far as requests found them."""
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        found = opened.drift(service)
    if as_json:
        print_json({"drift": [_plain(each) for each in found]})
    elif found:
        print_table(_COLUMNS, map(_row, found))
        console().print("\n".join(line for each in found for line in _examples(each)))
    else:
        console().print("nothing to compare yet: no analyzed chunk was found under two versions of an index")


def _plain(found: Drift) -> dict[str, Any]:
    return {
        "service": found.service,
        "from": found.previous_version,
        "to": found.version,
        "chunks": found.chunks,
        "unchanged": found.unchanged,
        "rewritten": found.rewritten,
        "renumbered": found.renumbered,
        "rewritten_ids": list(found.rewritten_ids),
        "renumbered_ids": [{"from": before, "to": now} for before, now in found.renumbered_ids],
    }


def _row(found: Drift) -> tuple[str, ...]:
    counts = (found.chunks, found.unchanged, found.rewritten, found.renumbered)
    return (found.service, found.previous_version, found.version, *map(str, counts))


def _examples(found: Drift) -> list[str]:
    place = f"{found.service} {found.version}"
    moved = [f"{before} → {now}" for before, now in found.renumbered_ids]
    named = (("rewritten", list(found.rewritten_ids)), ("renumbered", moved))
    return [f"{place} {kind}, for example: {', '.join(ids)}" for kind, ids in named if ids]
