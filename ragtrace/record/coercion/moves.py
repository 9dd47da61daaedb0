"""Works out what a reranker did: each chunk's rank before and after, and which ones fell out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragtrace.record.coercion.chunks import Chunk
from ragtrace.record.coercion.known import Known
from ragtrace.types import RankMove

__all__ = ["read_moves"]


def read_moves(
    ranked: Iterable[tuple[int, Chunk]], inputs: Sequence[str], known: Known
) -> tuple[list[str], tuple[RankMove, ...], tuple[RankMove, ...]]:
    """The ids of `ranked`, which came out of a reranker, the moves of each chunk of them, and those that fell out.

    inputs: ids of what went in, in order; known: the candidates by which a chunk without an id is recognized.
    """
    before = {chunk_id: rank for rank, chunk_id in reversed(list(enumerate(inputs, 1)))}
    after: dict[str, RankMove] = {}
    ids = []
    for rank, chunk in ranked:
        chunk_id = _identity(chunk, inputs, known)
        ids.append(chunk_id)
        move = RankMove(chunk_id=chunk_id, rank_before=before.get(chunk_id), rank_after=rank, score=chunk.score)
        after.setdefault(chunk_id, move)
    lost = [RankMove(chunk_id=lost, rank_before=rank) for lost, rank in before.items() if lost not in after]
    return ids, tuple(after.values()), tuple(sorted(lost, key=lambda move: move.rank_before or 0))


def _identity(chunk: Chunk, inputs: Sequence[str], known: Known) -> str:
    """A reranker may return positions among its inputs instead of chunks."""
    if chunk.index is not None and 0 <= chunk.index < len(inputs):
        return inputs[chunk.index]
    return known.identify(chunk)
