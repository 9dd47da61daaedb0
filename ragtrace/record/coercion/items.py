"""Finds the list in what a stage returned: lists, tuples, parallel lists, results that hold a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final

from ragtrace.record.adapters import items_in
from ragtrace.record.coercion.values import Unreadable, first

__all__ = ["items_of"]

_LISTS: Final = ("candidates", "documents", "results", "hits", "matches", "points", "nodes", "source_nodes", "chunks")


def items_of(value: Any) -> Iterable[Any]:
    """The items of a list-like value. An iterator is not touched: the host still needs it. Raises: Unreadable."""
    kind = type(value)
    if (adapted := items_in(value)) is not None:
        return adapted
    if kind is list or kind is tuple:
        return value  # type: ignore[no-any-return]
    if isinstance(value, str | bytes | bytearray) or value is None:
        raise Unreadable(value)
    is_named = isinstance(value, tuple) and hasattr(value, "_fields")
    if not (is_named or isinstance(value, Mapping)) and isinstance(value, Sequence | Set):
        return value
    found = first(value, *_LISTS)
    if isinstance(found, list | tuple):
        return found
    if isinstance(found, Mapping):  # Elasticsearch: {"hits": {"hits": [...]}}
        return items_of(found)
    if is_named:
        return items_of(tuple(value))
    raise Unreadable(value)
