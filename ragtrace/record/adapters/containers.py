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
from ragtrace.record.adapters.tuples import distances

__all__ = ["DICT", "LIST", "TUPLE"]


def _tuple(value: tuple[Any, ...]) -> Iterable[Any] | None:
    if is_page(value):
        return value[0]  # type: ignore[no-any-return]
    return distances(value) if value and type(value[0]) is tuple else neighbors(value)


DICT: Final = Adapter(items=columns, listed=hits, marks=MARKS)
LIST: Final = Adapter(listed=nested)
TUPLE: Final = Adapter(items=_tuple, listed=distances)
