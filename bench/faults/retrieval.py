"""Faults of retrieval: the index lost or kept a stale copy of the evidence, or the rewrite stripped a facet."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final

from bench.faults.answers import altered_value
from bench.faults.model import Scene, passage
from ragtrace.coverage.text import NEGATIONS, content_words
from ragtrace.demo.pipeline import Components
from ragtrace.demo.retrieval import DenseIndex, Hit, Retriever

__all__ = ["OtherIndex", "drop", "stale", "strip"]

NEIGHBORS: Final = {1: 0, 2: 3, 3: 10}  # chunks next to the evidence that are lost together with it
STRIPPED: Final = {1: 1, 2: 2, 3: 4}  # how many of the rarest names and words of the query are lost
_TERM: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_CAPITALIZED: Final = re.compile(r"(?<=\s)[A-Z][\w-]+")


@dataclass
class OtherIndex:
    """A retriever whose index was rebuilt: some chunks are gone, of some it holds another copy under another id."""

    inner: Retriever
    gone: Set[str]
    copies: Retriever | None
    version: str = "dense-2.1"

    @property
    def encoder(self) -> Any:
        """The inner retriever's."""
        return self.inner.encoder

    @property
    def index(self) -> SimpleNamespace:
        """The rebuilt index, by its version."""
        return SimpleNamespace(version="passages-2")

    def search(self, query: str, top_k: int) -> list[Hit]:
        """The best `top_k` of what the rebuilt index holds."""
        hits = [hit for hit in self.inner.search(query, top_k + len(self.gone)) if hit.chunk_id not in self.gone]
        if self.copies is not None:
            hits += self.copies.search(query, top_k)
        return sorted(hits, key=lambda hit: -hit.score)[:top_k]


@dataclass
class Originals:
    """A reranker that knows the scores of original chunks and is given copies of them."""

    inner: Any
    version: str

    def rerank(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        """The inner ranking; a copy ranks as its original would."""
        by_original = {hit.metadata.get("original", hit.chunk_id): hit for hit in hits}
        ranked = self.inner.rerank(question, [replace(hit, chunk_id=name) for name, hit in by_original.items()])
        return [replace(by_original[hit.chunk_id], score=hit.score) for hit in ranked]


@dataclass
class Stripping:
    """A rewriter that takes some words for noise."""

    inner: Any
    stripped: Sequence[str]
    version: str = "keywords-0.3"

    def rewrite(self, question: str) -> str:
        """The inner query without the stripped words."""
        query = self.inner.rewrite(question)
        for word in self.stripped:
            query = re.sub(rf"(?<![\w-]){re.escape(word)}(?:'s)?(?![\w-])", "", query)
        return " ".join(query.split())


def drop(healthy: Components, scene: Scene, strength: int) -> Components | None:
    """The index lost the evidence, and at greater strength its nearest neighbors as well: a whole source."""
    near = [hit.chunk_id for hit in scene.ranked if hit.chunk_id not in scene.evidence][: NEIGHBORS[strength]]
    return _over(healthy, {*scene.evidence, *near}, None)


def stale(healthy: Components, scene: Scene, strength: int) -> Components | None:
    """The index holds an older copy: what the question names and the evidence holds differs in it (1: one such value
    or name, 2: all); 3: the copy was written before the evidence was."""
    copies = []
    for hit in scene.ranked:
        if hit.chunk_id in scene.evidence:
            text = _older(hit.text, scene, scene.evidence[hit.chunk_id], strength)
            if text is None:
                return None
            copies.append(passage(f"{hit.chunk_id}@old", text, original=hit.chunk_id))
    encoder = healthy.retriever.encoder
    index = DenseIndex(copies, encoder.encode([chunk.text for chunk in copies]), "passages-2")
    return _over(healthy, set(scene.evidence), healthy.retriever.over(index))


def strip(healthy: Components, scene: Scene, strength: int) -> Components | None:
    """The rewrite loses the rarest of what the question names."""
    query = healthy.rewriter.rewrite(scene.case.question)
    terms = [term for term in _TERM.findall(query) if content_words(term) or term.isdigit()]
    terms = [term for term in dict.fromkeys(terms) if term.lower() not in NEGATIONS]
    rare = sorted(terms, key=lambda term: scene.common.get(_stem(term), 0))
    stripped = rare[: STRIPPED[strength]]
    return healthy.changed(rewriter=Stripping(healthy.rewriter, stripped)) if len(stripped) < len(terms) else None


def _over(healthy: Components, gone: Set[str], copies: Retriever | None) -> Components:
    retriever = OtherIndex(healthy.retriever, gone, copies)
    reranker = Originals(healthy.reranker, healthy.reranker.version)
    return healthy.changed(retriever=retriever, reranker=reranker)


def _older(text: str, scene: Scene, sentences: Sequence[str], strength: int) -> str | None:
    if strength == 3:
        for sentence in sentences:
            text = text.replace(sentence, " ")
        title, _, body = text.partition("\n")
        return f"{title}\n{' '.join(body.split())}" if body.strip() else None
    chance = scene.chance("stale")
    asked = [term for term in _TERM.findall(scene.case.question) if term.isdigit()]
    asked += _CAPITALIZED.findall(scene.case.question)
    changed = False
    for term in [term for term in dict.fromkeys(asked) if re.search(rf"\b{re.escape(term)}\b", text)]:
        other = altered_value(term, chance) if term.isdigit() else chance.choice(scene.names)
        text = re.sub(rf"\b{re.escape(term)}\b", other, text)
        changed = True
        if strength == 1:
            break
    return text if changed else None


def _stem(term: str) -> str:
    return (content_words(term) or [term.lower()])[0]
