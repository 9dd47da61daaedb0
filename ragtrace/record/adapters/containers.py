"""What may stand in a bare dict, list or tuple: it has no type of its own, so that its parts tell what it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ragtrace.record.adapters import Adapter
from ragtrace.record.adapters.chroma import columns
from ragtrace.record.adapters.faiss import neighbors
from ragtrace.record.adapters.qdrant import is_page
from ragtrace.record.adapters.sentence_transformers import MARKS, hits
from ragtrace.record.adapters.several import nested
from ragtrace.record.adapters.tuples import distances, listed_in, rows_in

__all__ = ["DICT", "LIST", "TUPLE"]


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
