"""Dense retrieval: a FAISS index over chunk embeddings that knows which edition a chunk belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ragtrace.demo.corpus import Chunk
from ragtrace.engines.models import load_package

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.engines.encoder import Encoder

__all__ = ["DenseIndex", "Embed", "Hit", "Retriever"]

Embed: TypeAlias = "Callable[[Sequence[str], Encoder, Callable[[int], None] | None], NDArray[np.float32]]"

TIME_WEIGHT: Final = 0.2
_YEAR: Final = re.compile(r"\b20\d\d\b")
_EDITION: Final = re.compile(r"\bedition (\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved chunk."""

    chunk_id: str
    text: str
    score: float
    doc_id: str
    source: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


class DenseIndex:
    """Inner-product search over chunk embeddings, each with a few dimensions appended for its year and edition.

    A chunk of a year or edition that the query names gains `TIME_WEIGHT`; a query that names none means the wording
    now in force. Wordings of other years stay retrievable, only further down.
    """

    def __init__(self, chunks: Sequence[Chunk], vectors: NDArray[np.float32], version: str) -> None:
        self.chunks = chunks
        self.vectors = vectors
        self.version = version
        self._rows = {chunk.chunk_id: row for row, chunk in enumerate(chunks)}
        self._years = sorted({str(chunk.document.year) for chunk in chunks})
        self._moments = [*self._years, *sorted({chunk.document.edition for chunk in chunks})]
        self._points = self._embed_moments()
        self._faiss = load_package("faiss", package="faiss-cpu").IndexFlatIP(self._points.shape[1])
        self._faiss.add(self._points)

    @classmethod
    def build(
        cls,
        chunks: Sequence[Chunk],
        encoder: Encoder,
        version: str,
        on_progress: Callable[[int], None] | None = None,
        embed: Embed | None = None,
    ) -> DenseIndex:
        """Embed (by `embed`, else by the encoder) and index `chunks`. `on_progress` gets the number of chunks just
        embedded."""
        texts = [chunk.text for chunk in chunks]
        if embed is not None:
            return cls(chunks, embed(texts, encoder, on_progress), version)
        return cls(chunks, encoder.encode(texts, on_progress=on_progress, threads=None), version)

    def search(self, query: str, vector: NDArray[np.float32], top_k: int) -> list[Hit]:
        """The `top_k` chunks with the highest score for `query` and its embedding, best first."""
        scores, rows = self._faiss.search(self._point(query, vector)[None, :], top_k)
        return [_hit(self.chunks[row], float(score)) for score, row in zip(scores[0], rows[0], strict=True) if row >= 0]

    def scores(self, query: str, vector: NDArray[np.float32], chunk_ids: Sequence[str]) -> NDArray[np.float32]:
        """The scores of the given chunks for `query` and its embedding: `(n,)`."""
        rows = [self._rows[chunk_id] for chunk_id in chunk_ids]
        scores: NDArray[np.float32] = self._points[rows] @ self._point(query, vector)
        return scores

    def _embed_moments(self) -> NDArray[np.float32]:
        import numpy as np

        flags = [[moment in _moments(chunk) for moment in self._moments] for chunk in self.chunks]
        return np.ascontiguousarray(np.hstack([self.vectors, np.asarray(flags)]), dtype=np.float32)

    def _point(self, query: str, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        import numpy as np

        return np.concatenate([vector, self._time_features(_named_moments(query))])

    def _time_features(self, named: set[str]) -> NDArray[np.float32]:
        import numpy as np

        wanted = named or {self._years[-1]}
        return np.asarray([TIME_WEIGHT * (moment in wanted) for moment in self._moments], dtype=np.float32)


class Retriever:
    """Encodes a query and searches the index. Embeddings of repeated queries are kept."""

    def __init__(self, encoder: Encoder, index: DenseIndex, *, version: str = "dense-2.1") -> None:
        self.encoder = encoder
        self.index = index
        self.version = version
        self._known: dict[str, NDArray[np.float32]] = {}

    def search(self, query: str, top_k: int) -> list[Hit]:
        """The `top_k` best chunks for `query`."""
        return self.index.search(query, self._vector(query), top_k)

    def scores(self, query: str, chunk_ids: Sequence[str]) -> NDArray[np.float32]:
        """The dense scores of the given chunks for `query`: `(n,)`."""
        return self.index.scores(query, self._vector(query), chunk_ids)

    def know(self, queries: Sequence[str]) -> None:
        """Embed `queries` in one batch ahead of their use."""
        fresh = [query for query in dict.fromkeys(queries) if query not in self._known]
        if fresh:
            self._known.update(zip(fresh, self.encoder.encode(fresh), strict=True))

    def over(self, index: DenseIndex) -> Retriever:
        """The same retriever over another index; the known query embeddings are shared."""
        other = Retriever(self.encoder, index, version=self.version)
        other._known = self._known
        return other

    def _vector(self, query: str) -> NDArray[np.float32]:
        self.know([query])
        return self._known[query]


def _named_moments(query: str) -> set[str]:
    """The years that a query names, else the editions."""
    return set(_YEAR.findall(query)) or set(_EDITION.findall(query))


def _moments(chunk: Chunk) -> set[str]:
    return {str(chunk.document.year), chunk.document.edition}


def _hit(chunk: Chunk, score: float) -> Hit:
    return Hit(chunk.chunk_id, chunk.text, score, chunk.doc_id, chunk.source, dict(chunk.metadata))
