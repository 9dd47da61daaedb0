"""Reads sentence-transformers' hits: a place in the corpus and a score, from `CrossEncoder.rank` also a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ragtrace.record.coercion.values import Chunk, number, text, whole

__all__ = ["MARKS", "hits"]

_PLACE: Final = "corpus_id"
MARKS: Final = frozenset({_PLACE})  # what a hit has


def hits(found: list[Any]) -> Iterable[Any] | None:
    """The hits of one query; None for a list of other mappings.

    A reranker's place is among its inputs, whatever the text says: two inputs may have the same.
    """
    if _PLACE not in found[0] or any(name in found[0] for name in ("id", "chunk_id", "_id")):
        return None
    return [_hit(hit) for hit in found]


def _hit(hit: Any) -> Any:
    index = whole(hit.get(_PLACE)) if isinstance(hit, Mapping) else None
    if index is None:
        return hit
    return Chunk(text=text(hit.get("text")), score=number(hit.get("score")), index=index)
