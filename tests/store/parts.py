"""Parts of traces as the store hands them out."""

from __future__ import annotations

from collections.abc import Iterable

from ragtrace.errors import CorruptStore
from ragtrace.store import DueTrace, Store


def bodies(store: Store, due: Iterable[DueTrace]) -> dict[tuple[str, str], list[bytes]]:
    """What came of these traces, which can be read."""
    found: dict[tuple[str, str], list[bytes]] = {}
    for key, parts in store.spans_of(due).items():
        assert not isinstance(parts, CorruptStore)
        found[key] = sorted(part.body for part in parts)
    return found
