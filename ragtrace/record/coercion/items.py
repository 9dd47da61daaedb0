"""Finds the list in what a stage returned: lists, tuples, parallel lists, results that hold a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final

from ragtrace.record.adapters import items_in
from ragtrace.record.coercion.values import Unreadable, first, number

__all__ = ["items_of"]

_LISTS: Final = ("candidates", "documents", "results", "hits", "matches", "points", "nodes", "source_nodes", "chunks")


def items_of(value: Any) -> Iterable[Any]:
    """The items of a list-like value. An iterator is not touched: the host still needs it. Raises: Unreadable."""
    kind = type(value)
    if (adapted := items_in(value)) is not None:
        return adapted
    if kind is list:
        return value  # type: ignore[no-any-return]
    if kind is tuple:
        return _paired(value)
    if isinstance(value, str | bytes | bytearray) or value is None:
        raise Unreadable(value)
    if not isinstance(value, Mapping) and isinstance(value, Sequence | Set):
        return value
    found = first(value, *_LISTS)
    if isinstance(found, list | tuple):
        return found
    raise Unreadable(value)


def _paired(value: tuple[Any, ...]) -> Iterable[Any]:
    """A tuple of two parallel lists, chunks and scores, reads as pairs; any other tuple as it is."""
    if len(value) == 2 and all(isinstance(part, list) for part in value) and len(value[0]) == len(value[1]):
        chunks, scores = value
        if all(number(score) is not None for score in scores):
            return zip(chunks, scores, strict=True)
    return value
