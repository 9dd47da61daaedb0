"""Faults between candidates and prompt: the reranker sinks the evidence, or the packer cuts it or leaves it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from bench.faults.model import Scene
from ragtrace.demo.packing import Context, DroppedHit, PackedHit
from ragtrace.demo.pipeline import Components
from ragtrace.demo.retrieval import Hit

__all__ = ["demote", "evict", "swap", "truncate"]

DEPTHS: Final = {1: 1, 2: 8, 3: 10_000}  # ranks below the deepest one packed, or the end of the list


@dataclass
class Demoting:
    """A reranker that sinks some chunks to `place` (0-based), or exchanges them with those from there on."""

    inner: Any
    sunk: Set[str]
    place: int
    exchange: bool = False
    version: str = "fusion-1.5"

    def rerank(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        """The inner ranking, disturbed; the scores stay with the ranks."""
        ranked = self.inner.rerank(question, hits)
        order = self._exchanged(ranked) if self.exchange else self._demoted(ranked)
        return [replace(hit, score=at.score) for hit, at in zip(order, ranked, strict=True)]

    def _demoted(self, ranked: Sequence[Hit]) -> list[Hit]:
        others = [hit for hit in ranked if hit.chunk_id not in self.sunk]
        place = max(0, min(self.place, len(others)))
        return [*others[:place], *(hit for hit in ranked if hit.chunk_id in self.sunk), *others[place:]]

    def _exchanged(self, ranked: Sequence[Hit]) -> list[Hit]:
        order = list(ranked)
        free = [row for row in range(self.place, len(order)) if order[row].chunk_id not in self.sunk]
        free = free or [row for row in range(len(order)) if order[row].chunk_id not in self.sunk][-len(self.sunk) :]
        for row, hit in enumerate(ranked):
            if hit.chunk_id in self.sunk and free and free[0] > row:
                other = free.pop(0)
                order[row], order[other] = order[other], order[row]
        return order


@dataclass
class Cutting:
    """A packer that gives some chunks only in part."""

    inner: Any
    parts: Mapping[str, str]
    version: str = "budget-2.1"

    def pack(self, hits: Sequence[Hit]) -> Context:
        """The inner packing with the cuts."""
        context: Context = self.inner.pack(hits)
        return replace(context, chunks=[self._cut(chunk) for chunk in context.chunks])

    def _cut(self, chunk: PackedHit) -> PackedHit:
        part = self.parts.get(chunk.chunk_id)
        if part is None:
            return chunk
        tokens = max(1, round(chunk.tokens_full * len(part) / len(chunk.text)))
        return replace(chunk, text=part, tokens=tokens, truncated=True)


@dataclass
class Evicting:
    """A packer that leaves some chunks out: with a reason, silently, or with half of the prompt besides."""

    inner: Any
    evicted: Set[str]
    strength: int
    version: str = "budget-2.1"

    def pack(self, hits: Sequence[Hit]) -> Context:
        """The inner packing of what is left."""
        context: Context = self.inner.pack([hit for hit in hits if hit.chunk_id not in self.evicted])
        chunks = context.chunks[len(context.chunks) // 2 :] if self.strength == 3 else context.chunks
        dropped = context.dropped
        if self.strength == 1:
            dropped = [*dropped, *(DroppedHit(hit.chunk_id, "filter") for hit in hits if hit.chunk_id in self.evicted)]
        return replace(context, chunks=chunks, dropped=dropped)


def demote(healthy: Components, scene: Scene, strength: int) -> Components | None:
    """The reranker sinks the evidence: just below what is packed, eight ranks further, or to the end."""
    place = scene.packed + DEPTHS[strength] - 1
    return healthy.changed(reranker=Demoting(healthy.reranker, set(scene.evidence), place))


def swap(healthy: Components, scene: Scene, strength: int) -> Components | None:
    """The reranker exchanges the evidence with chunks from below what is packed."""
    place = min(scene.packed + DEPTHS[strength] - 1, len(scene.ranked) - len(scene.evidence))
    return healthy.changed(reranker=Demoting(healthy.reranker, set(scene.evidence), place, exchange=True))


def truncate(healthy: Components, scene: Scene, strength: int) -> Components | None:
    """The packer cuts the evidence away: from the first sentence that holds it (1), from halfway before it (2), or
    all but the title and a few words (3)."""
    parts = {}
    for hit in scene.ranked:
        places = [hit.text.find(sentence) for sentence in scene.evidence.get(hit.chunk_id, ())]
        if not any(place > 0 for place in places):
            continue
        first = min(place for place in places if place > 0)
        title = hit.text.find("\n") + 1
        end = {1: first, 2: title + (first - title) // 2, 3: min(title + 30, first)}[strength]
        if end - title < (1 if strength == 3 else 60):
            return None  # nothing to speak of stands before the evidence
        parts[hit.chunk_id] = hit.text[:end].rstrip()
    return healthy.changed(packer=Cutting(healthy.packer, parts)) if parts else None


def evict(healthy: Components, scene: Scene, strength: int) -> Components | None:
    """The packer leaves the evidence out: with a stated reason (1), silently (2), with half of the prompt (3)."""
    return healthy.changed(packer=Evicting(healthy.packer, set(scene.evidence), strength))
