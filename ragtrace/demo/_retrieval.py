"""The demo's retrieval: query rewriting, a FAISS index over chunk embeddings that knows which edition a chunk belongs
to, and reranking by BM25 fused with the dense score, or by a cross-encoder.

The embeddings of the chunks are kept on disk, so that a further process does not compute them again.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from ragtrace.demo._corpus import DocumentSection
from ragtrace.engines.models import load_package
from ragtrace.types import content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.engines.encoder import CrossEncoder, Encoder

__all__ = [
    "CrossEncoderReranker",
    "DenseIndex",
    "Embed",
    "FusionReranker",
    "Hit",
    "Reranker",
    "Retriever",
    "Rewriter",
    "VerbatimRewriter",
    "cache_folder",
    "kept_embeddings",
    "query_terms",
]

Embed: TypeAlias = "Callable[[Sequence[str], Encoder, Callable[[int], None] | None], NDArray[np.float32]]"
TIME_WEIGHT: Final = 0.2
_YEAR: Final = re.compile(r"\b20\d\d\b")
_EDITION: Final = re.compile(r"\bedition (\d+\.\d+)")
LEXICAL_SHARE: Final = 0.4
HEADER_WEIGHT: Final = 3
_TERM: Final = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_FUNCTION_WORDS: Final = (
    "a an and are as at be by can do does for from have how i if in is it its may must my of on or that the to under "
    "up was what when which with"
)
_STOPWORDS: Final = frozenset(_FUNCTION_WORDS.split())


class Rewriter(Protocol):
    """Turns a question into a retrieval query."""

    version: str

    def rewrite(self, question: str) -> str:
        """The query for `question`."""
        ...


class VerbatimRewriter:
    """Gives the retriever the question as it was asked."""

    version = "verbatim-1.0"

    def rewrite(self, question: str) -> str:
        """The question itself."""
        return question


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

    def __init__(self, chunks: Sequence[DocumentSection], vectors: NDArray[np.float32], version: str) -> None:
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
        chunks: Sequence[DocumentSection],
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


def _moments(chunk: DocumentSection) -> set[str]:
    return {str(chunk.document.year), chunk.document.edition}


def _hit(chunk: DocumentSection, score: float) -> Hit:
    return Hit(chunk.chunk_id, chunk.text, score, chunk.doc_id, chunk.source, dict(chunk.metadata))


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


def cache_folder() -> Path:
    """Where they lie: `ragtrace` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ragtrace"


def kept_embeddings(
    texts: Sequence[str], encoder: Encoder, on_progress: Callable[[int], None] | None = None
) -> NDArray[np.float32]:
    """The vectors of `texts`, from the disk where this encoder has made them before: `(n, dimension)`."""
    key = content_hash("\0".join([encoder.name, str(encoder.revision), *texts]))
    file = cache_folder() / f"demo-{key[:32]}.npy"
    known = _read(file)
    if known is not None and len(known) == len(texts):
        return known
    vectors = encoder.encode(texts, on_progress=on_progress, threads=None)
    _write(file, vectors)
    return vectors


def _read(file: Path) -> NDArray[np.float32] | None:
    import numpy as np

    try:
        vectors: NDArray[np.float32] = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):  # not there, or not whole
        return None
    return vectors


def _write(file: Path, vectors: NDArray[np.float32]) -> None:
    """Other processes see all of it or nothing. Where the folder takes no file, the next one embeds again."""
    import numpy as np

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".npy", delete=False) as made:
            np.save(made, vectors)
        os.replace(made.name, file)
    except OSError:
        return
