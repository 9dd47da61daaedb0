"""A FAISS index as a probe asks it: by its own search, and exactly over the vectors that it stores.

Flat, IVF and HNSW indexes, also behind id maps. The exact search is a flat index over the stored vectors, on a GPU
where faiss-gpu is installed and sees one. Other kinds (quantized, transformed) need the vectors beside the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ragtrace.engines.models import load_package
from ragtrace.errors import ConfigurationError
from ragtrace.types import Candidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FaissProbe"]

Texts: TypeAlias = "Mapping[str, str] | Callable[[str], str | None]"

_ROWS: Final = 65_536  # stored vectors that are copied at a time


@dataclass(frozen=True, slots=True)
class _Stored:
    """The vectors of an index. numbers: FAISS's ids, (n,); vectors: (n, d)."""

    numbers: NDArray[np.int64]
    vectors: NDArray[np.float32]


class FaissProbe:
    """Asks a FAISS index. It is read, and never changed.

    index: as the application searches it, with its `nprobe` or `efSearch`. encode: a query's vector, (d,), as the
    application makes it. ids: the chunk id of each of FAISS's numbers; by default the number itself. texts: of a chunk
    id; without them only gold evidence can be looked for. passes: whether the application's filters let a chunk
    through. version: of the index. vectors: those that the index was made of, (n, d), by FAISS's number from 0, where
    it does not store them whole. gpu: whether the exact search runs on a GPU; None: where there is one.

    Raises: ConfigurationError for an index whose vectors cannot be read, when it is first searched exactly;
        MissingExtraError where FAISS is not installed.
    """

    def __init__(
        self,
        index: Any,
        encode: Callable[[str], NDArray[np.float32]],
        *,
        ids: Sequence[str] | Mapping[int, str] | None = None,
        texts: Texts | None = None,
        passes: Callable[[str], bool] | None = None,
        version: str | None = None,
        vectors: NDArray[np.float32] | None = None,
        gpu: bool | None = None,
    ) -> None:
        self.version = version
        self._faiss = load_package("faiss", package="faiss-cpu")
        self._index = index
        self._encode = encode
        self._ids = ids
        self._texts = texts
        self._allowed = passes
        self._vectors = vectors
        self._gpu = gpu
        self._exact: tuple[Any, NDArray[np.int64]] | None = None
        self._held: tuple[frozenset[str], frozenset[str]] | None = None

    def probe(self, query: str, depth: int, exact: bool) -> list[Candidate]:
        """The best `depth` chunks: by the index behind the filters, or exactly among all that is stored."""
        import numpy as np

        vector = np.ascontiguousarray(self._encode(query), dtype=np.float32).reshape(1, -1)
        if exact:
            flat, numbers = self._flat()
            if not len(numbers):
                return []
            scores, places = flat.search(vector, min(depth, len(numbers)))
            found = zip(scores[0], numbers[places[0]], strict=True)
            return [self._candidate(rank, *one) for rank, one in enumerate(found, 1)]
        for width in self._widths(depth):
            scores, places = self._index.search(vector, width)
            pairs = [(score, number) for score, number in zip(scores[0], places[0], strict=True) if number >= 0]
            kept = [pair for pair in pairs if self.passes(self._id(pair[1])) is not False]
            if len(kept) >= depth or len(pairs) < width:
                break
        return [self._candidate(rank, *one) for rank, one in enumerate(kept[:depth], 1)]

    def has(self, chunk: str) -> bool:
        """Whether the index stores a chunk of this id or text."""
        if self._held is None:
            ids = frozenset(self._id(number) for number in self._stored().numbers)
            texts = frozenset(_plain(text) for chunk_id in ids if (text := self._text(chunk_id)))
            self._held = ids, texts
        return chunk in self._held[0] or _plain(chunk) in self._held[1]

    def passes(self, chunk_id: str) -> bool | None:
        """Whether the application's filters let a chunk through; None where it has none."""
        return None if self._allowed is None else self._allowed(chunk_id)

    def _widths(self, depth: int) -> Iterable[int]:
        """How many neighbors are asked for, until enough of them pass the filters."""
        width, most = depth, int(self._index.ntotal)
        while self._allowed is not None and width < most:
            yield width
            width *= 4
        yield max(1, min(width, most))

    def _candidate(self, rank: int, score: Any, number: Any) -> Candidate:
        chunk_id = self._id(number)
        return Candidate(chunk_id=chunk_id, rank=rank, score=float(score), text=self._text(chunk_id))

    def _id(self, number: Any) -> str:
        return str(number) if self._ids is None else str(self._ids[int(number)])

    def _text(self, chunk_id: str) -> str | None:
        return self._texts(chunk_id) if callable(self._texts) else (self._texts or {}).get(chunk_id)

    def _flat(self) -> tuple[Any, NDArray[np.int64]]:
        """An exact index over the stored vectors, and FAISS's number of each of its rows."""
        if self._exact is None:
            stored, is_product = self._stored(), self._index.metric_type == self._faiss.METRIC_INNER_PRODUCT
            flat = (self._faiss.IndexFlatIP if is_product else self._faiss.IndexFlatL2)(stored.vectors.shape[1])
            if self._on_gpu():
                flat = self._faiss.index_cpu_to_gpu(self._faiss.StandardGpuResources(), 0, flat)
            for start in range(0, len(stored.vectors), _ROWS):
                flat.add(stored.vectors[start : start + _ROWS])
            self._exact = flat, stored.numbers
        return self._exact

    def _on_gpu(self) -> bool:
        there = hasattr(self._faiss, "StandardGpuResources") and self._faiss.get_num_gpus() > 0
        if self._gpu and not there:
            raise ConfigurationError.of("gpu", True, "False or None: FAISS sees no GPU (pip install 'ragtrace[gpu]')")
        return there and self._gpu is not False

    def _stored(self) -> _Stored:
        import numpy as np

        numbers, vectors = _read(self._faiss, self._faiss.downcast_index(self._index))
        if self._vectors is not None:
            vectors = np.ascontiguousarray(self._vectors, dtype=np.float32)[numbers]
        if vectors is None:
            kind = type(self._faiss.downcast_index(self._index)).__name__
            raise ConfigurationError.of(
                "index",
                kind,
                "a flat, IVF (flat) or HNSW (flat) index, or its vectors beside it: FaissProbe(vectors=...)",
            )
        return _Stored(numbers, vectors)


def _read(faiss: Any, index: Any) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """FAISS's numbers of what an index stores, and the vectors, None where they are not stored whole."""
    import numpy as np

    if isinstance(index, faiss.IndexIDMap | faiss.IndexIDMap2):
        _, vectors = _read(faiss, faiss.downcast_index(index.index))
        return faiss.vector_to_array(index.id_map).astype(np.int64), vectors
    if isinstance(index, faiss.IndexIVF):
        return _read_lists(faiss, index)
    numbers = np.arange(index.ntotal, dtype=np.int64)
    store = faiss.downcast_index(index.storage) if isinstance(index, faiss.IndexHNSW) else index
    if not isinstance(store, faiss.IndexFlat):
        return numbers, None
    return numbers, store.reconstruct_n(0, store.ntotal) if store.ntotal else np.zeros((0, index.d), np.float32)


def _read_lists(faiss: Any, index: Any) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """The inverted lists of an IVF index, one behind the other."""
    import numpy as np

    is_flat = isinstance(index, faiss.IndexIVFFlat)
    numbers, vectors = [np.zeros(0, np.int64)], [np.zeros((0, index.d), np.float32)]
    for place in range(index.nlist):
        size = index.invlists.list_size(place)
        if not size:
            continue
        numbers.append(faiss.rev_swig_ptr(index.invlists.get_ids(place), size).astype(np.int64))
        if is_flat:
            codes = faiss.rev_swig_ptr(index.invlists.get_codes(place), size * index.code_size)
            vectors.append(codes.view(np.float32).reshape(size, index.d).copy())
    return np.concatenate(numbers), np.concatenate(vectors) if is_flat else None


def _plain(text: str) -> str:
    return " ".join(text.split())
