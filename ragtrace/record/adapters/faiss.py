"""Reads what FAISS returns: `(distances, ids)`, one row per query, and what the host may add to it, its id map.

hnswlib's `(labels, distances)` is told by its integers and read alike. Slots without a neighbor (-1) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ragtrace.record.coercion.allowance import within
from ragtrace.record.coercion.chunks import read_chunk
from ragtrace.record.coercion.rows import is_array, merge, negative, rises
from ragtrace.record.coercion.values import Chunk, Unreadable, number, whole

__all__ = ["neighbors"]

Rows: TypeAlias = list[list[Any]]


def neighbors(value: tuple[Any, ...]) -> Iterable[Any] | None:
    """The chunks of a pair of arrays, with or without an id map behind it; None for any other tuple."""
    if len(value) not in (2, 3) or not (is_array(value[0]) and is_array(value[1])):
        return None
    distances, ids = _rows(value[0]), _rows(value[1])
    known: Any = value[2] if len(value) == 3 else None
    if _are_whole(distances) and not _are_whole(ids):
        if is_array(known):  # of `range_search`, which returns limits, distances and ids
            return None
        distances, ids = ids, distances
    known = known.tolist() if is_array(known) else known
    if [len(row) for row in distances] != [len(row) for row in ids] or isinstance(known, str):
        return None
    is_distance = _are_distances(distances, ids)
    return merge(
        [
            [
                _chunk(place, score, is_distance, known)
                for score, place in within(zip(*row, strict=True))
                if _is_there(place)
            ]
            for row in zip(distances, ids, strict=True)
        ]
    )


def _rows(array: Any) -> Rows:
    """Rows of an array of any number of dimensions up to two."""
    found = array.tolist()
    if not isinstance(found, list):
        return [[found]]
    return found if found and isinstance(found[0], list) else [found]


def _are_whole(rows: Rows) -> bool:
    return all(isinstance(value, int) for row in rows for value in row)


def _is_there(place: Any) -> bool:
    index = whole(place)
    return index is None or index >= 0


def _are_distances(distances: Rows, ids: Rows) -> bool | None:
    """Whether lower is better, by the order of any row or by an empty slot, which has the worst number."""
    for scores, places in zip(distances, ids, strict=True):
        pairs = list(zip(scores, places, strict=True))
        empty = next((number(score) for score, place in pairs if not _is_there(place)), None)
        if empty:
            return empty > 0
        found = rises(score for score, place in pairs if _is_there(place))
        if found is not None:
            return found
    return None


def _chunk(place: Any, score: Any, is_distance: bool | None, known: Any) -> Chunk:
    """One neighbor. Without a direction its number says nothing."""
    chunk = _mapped(place, known)
    chunk.score = None if is_distance is None else negative(score) if is_distance else number(score)
    return chunk


def _mapped(place: Any, known: Sequence[Any] | Mapping[Any, Any] | None) -> Chunk:
    """What the id map has at `place`: an id, or any chunk; without one, `place` is the id."""
    if known is not None:
        try:
            found = known[place]
        except (LookupError, TypeError):
            found = known.get(str(place)) if isinstance(known, Mapping) else None
        if found is not None:
            return _known(found)
    return Chunk(chunk_id=str(place))


def _known(found: Any) -> Chunk:
    try:
        chunk = read_chunk(found)
    except Unreadable:
        return Chunk(chunk_id=str(found))
    return Chunk(
        chunk.chunk_id, chunk.text, None, chunk.doc_id, chunk.source, chunk.modality, chunk.metadata, chunk.index
    )
