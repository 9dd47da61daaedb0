"""Reranking: BM25 fused with the dense score, or a cross-encoder in its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from ragtrace.demo.retrieval import Hit, Retriever
from ragtrace.engines.models import load_package

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.engines.cross_encoder import CrossEncoder

__all__ = ["CrossEncoderReranker", "FusionReranker", "Reranker", "query_terms"]

LEXICAL_SHARE: Final = 0.4
HEADER_WEIGHT: Final = 3
_TERM: Final = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_FUNCTION_WORDS: Final = (
    "a an and are as at be by can do does for from have how i if in is it its may must my of on or that the to under "
    "up was what when which with"
)
_STOPWORDS: Final = frozenset(_FUNCTION_WORDS.split())


class Reranker(Protocol):
    """Orders candidates anew by the user's own question."""

    version: str

    def rerank(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        """The same chunks, best first, with new scores."""
        ...


class FusionReranker:
    """A weighted sum of BM25 and dense scores for the original question, both scaled to [0, 1] over the candidates.

    A chunk's header counts `HEADER_WEIGHT` times, since product, country and edition stand there.
    """

    def __init__(self, retriever: Retriever, *, version: str = "fusion-1.4") -> None:
        self.version = version
        self._retriever = retriever
        self._rows = {chunk.chunk_id: row for row, chunk in enumerate(retriever.index.chunks)}
        self._bm25 = load_package("bm25s").BM25()
        self._bm25.index([_chunk_terms(chunk.text) for chunk in retriever.index.chunks], show_progress=False)

    def rerank(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        """The same chunks, best first, with scores in [0, 1]."""
        if not hits:
            return []
        chunk_ids = [hit.chunk_id for hit in hits]
        lexical = self._bm25.get_scores(query_terms(question))[[self._rows[name] for name in chunk_ids]]
        dense = self._retriever.scores(question, chunk_ids)
        return order_by(hits, LEXICAL_SHARE * _scaled(lexical) + (1 - LEXICAL_SHARE) * _scaled(dense))


class CrossEncoderReranker:
    """Scores by a cross-encoder model."""

    def __init__(self, model: CrossEncoder) -> None:
        self.version = model.name
        self._model = model

    def rerank(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        """The same chunks, best first, with the model's scores."""
        return order_by(hits, self._model.scores(question, [hit.text for hit in hits])) if hits else []


def order_by(hits: Sequence[Hit], scores: NDArray[np.floating]) -> list[Hit]:
    """`hits` with `scores`, best first; equal scores keep their order."""
    scored = [replace(hit, score=float(score)) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: -hit.score)


def query_terms(text: str) -> list[str]:
    """Words and numbers of `text` that carry meaning, in lower case."""
    return [term for term in _TERM.findall(text.lower()) if term not in _STOPWORDS]


def _chunk_terms(text: str) -> list[str]:
    header, _, body = text.partition("\n")
    return query_terms(header) * HEADER_WEIGHT + query_terms(body)


def _scaled(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    spread = scores.max() - scores.min()
    return (scores - scores.min()) / spread if spread else scores * 0.0
