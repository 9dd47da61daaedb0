"""Brings the results of several queries in one call together: the best of each query, then the second of each, ...

A chunk that several queries found keeps its first place. The rank is the place in the merged list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final

from ragtrace.record.coercion.allowance import within
from ragtrace.record.coercion.chunks import read_chunk
from ragtrace.record.coercion.items import items_of
from ragtrace.record.coercion.values import Unreadable, number

__all__ = ["is_listing", "merge", "nested"]

_MISSING: Final = object()


def nested(value: list[Any]) -> Iterable[Any] | None:
    """The items of a list of one list per query; None for a list whose items are chunks written as lists."""
    if not all(type(part) is list and is_listing(part) for part in value):
        return None
    return merge([items_of(part) for part in value])


def is_listing(part: list[Any]) -> bool:
    """Whether a list holds chunks, and is no chunk written as a list."""
    return not part or (_may_be_chunk(part[0]) and _may_be_chunk(part[-1]))


def _may_be_chunk(item: Any) -> bool:
    """Whether this can be a result and no part of one: no text, no number."""
    return item is not None and not isinstance(item, str | bytes | bool) and number(item) is None


def merge(results: Sequence[Iterable[Any]]) -> Iterable[Any]:
    """The items of all results, in turn, each chunk once."""
    if len(results) == 1:
        return results[0]
    places: set[str] = set()
    found: list[Any] = []
    for turn in within(zip_longest(*results, fillvalue=_MISSING)):
        for item in turn:
            if item is not _MISSING:
                _add(item, places, found)
    return found


def _add(item: Any, places: set[str], found: list[Any]) -> None:
    try:
        chunk = read_chunk(item)
    except Unreadable:
        found.append(item)
        return
    if chunk.identity not in places:
        places.add(chunk.identity)
        found.append(chunk)
