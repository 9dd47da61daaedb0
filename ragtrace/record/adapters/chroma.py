"""Reads Chroma's results: columns instead of rows, and in a query's result one list per query.

`query` gives distances, `get` neither; `search` calls its numbers scores, of which the lower one is the better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from ragtrace.record.coercion.allowance import within
from ragtrace.record.coercion.chunks import read_document
from ragtrace.record.coercion.dispatch import Adapter
from ragtrace.record.coercion.rows import merge, negative
from ragtrace.record.coercion.values import Chunk

__all__ = ["RESULT", "columns"]

_COLUMNS: Final = frozenset({"documents", "metadatas", "distances", "embeddings", "uris", "data"})


def columns(result: Mapping[str, Any]) -> Iterable[Any] | None:
    """The chunks of a result; None for a mapping that is none. Raises: Unreadable."""
    ids = result.get("ids")
    if not isinstance(ids, Sequence) or isinstance(ids, str) or _COLUMNS.isdisjoint(result):
        return None
    if not ids or not isinstance(ids[0], list | tuple):
        return _rows(ids, result.get("documents"), result.get("metadatas"), None)
    distances = result.get("distances") or result.get("scores")
    parts = zip_longest(ids, *(part or () for part in (result.get("documents"), result.get("metadatas"), distances)))
    return merge([_rows(*part) for part in parts if part[0] is not None])


def _rows(ids: Sequence[Any], documents: Any, metadatas: Any, distances: Any) -> list[Chunk]:
    """One query's chunks. A column that was not asked for is None."""
    parts = zip_longest(ids, *((part or ())[: len(ids)] for part in (documents, metadatas, distances)))
    return [
        read_document(ids, id=id, body=body, metadata=metadata, score=negative(distance))
        for id, body, metadata, distance in within(parts)
    ]


RESULT: Final = Adapter(items=columns)
