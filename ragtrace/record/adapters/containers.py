"""Bare dicts, lists and tuples, whose parts tell what they are; and chunks that are read already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ragtrace.record.adapters.chroma import columns
from ragtrace.record.adapters.faiss import neighbors
from ragtrace.record.adapters.qdrant import is_page
from ragtrace.record.adapters.sentence_transformers import MARKS, hits
from ragtrace.record.coercion.dispatch import Adapter
from ragtrace.record.coercion.rows import distances, listed_in, nested, rows_in

__all__ = ["CHUNK", "DICT", "LIST", "TUPLE"]


def _tuple(value: tuple[Any, ...]) -> Iterable[Any] | None:
    if is_page(value):
        return value[0]  # type: ignore[no-any-return]
    if value and type(value[0]) is tuple:
        return distances(value)
    for read in (neighbors, rows_in, listed_in):
        if (found := read(value)) is not None:
            return found
    return None


DICT: Final = Adapter(items=columns, listed=hits, marks=MARKS)
LIST: Final = Adapter(listed=nested)
TUPLE: Final = Adapter(items=_tuple, listed=distances)
CHUNK: Final = Adapter(chunk=lambda chunk: chunk)  # an adapter of a result gives them
