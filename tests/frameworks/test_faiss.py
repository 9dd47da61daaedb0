"""FAISS's arrays out of real indexes."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.record.coercion import Chunk
from tests.captures.pipelines import check_stages
from tests.frameworks.conftest import Reads

DISTRIBUTIONS = ("faiss-cpu",)

faiss = pytest.importorskip("faiss", reason="faiss-cpu is not installed: make frameworks")

VECTORS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], dtype=np.float32)
QUERY = VECTORS[:1]
SIMILARITIES = [1.0, float(np.float32(0.6)), 0.0]


def test_inner_product(reads: Reads) -> None:
    """Similarities fall from the best to the worst and stand as they are; an id is its place in the index."""
    index = faiss.IndexFlatIP(2)
    index.add(VECTORS)
    expected = [Chunk(str(place), score=score) for place, score in enumerate(SIMILARITIES)]
    reads("inner_product", index.search(QUERY, 3), expected)


def test_distances_and_empty_slots(reads: Reads) -> None:
    """Squared distances rise and are written as their negatives; slots without a neighbor are left out."""
    index = faiss.IndexIDMap(faiss.IndexFlatL2(2))
    index.add_with_ids(VECTORS[[0, 2]], np.array([10, 30]))
    found = index.search(QUERY, 5)
    assert found[1].tolist() == [[10, 30, -1, -1, -1]]
    reads("distances", found, [Chunk("10", score=0.0), Chunk("30", score=-2.0)])


@pytest.mark.captures(
    *("ids", "scores", "texts", "metadata", "moves"), where="FAISS `(D, I)` and an id map", mode=("sync", "async")
)
def test_an_id_map(reads: Reads) -> None:
    """A third part says what stands at each place: ids by list or mapping, or chunks."""
    index = faiss.IndexFlatIP(2)
    index.add(VECTORS[:2])
    scores, places = index.search(QUERY, 2)
    expected = [Chunk("a", score=1.0), Chunk("b", score=SIMILARITIES[1])]
    reads("id_list", (scores, places, ["a", "b"]), expected)
    reads("id_mapping", (scores, places, {0: "a", 1: "b"}), expected)
    reads("id_array", (scores, places, np.array(["a", "b"])), expected)
    chunks = [{"id": "a", "text": "alpha is the first letter", "metadata": {"page": 1}}, {"id": "b", "score": 9.0}]
    expected[0] = Chunk("a", "alpha is the first letter", 1.0, metadata={"page": 1})
    reads("chunk_list", (scores, places, chunks), expected)
    check_stages((scores, places, chunks), expected, ("sync", "async"), packed=False)


def test_several_queries(reads: Reads) -> None:
    """The best of each query, then the second of each, each chunk once."""
    index = faiss.IndexFlatIP(2)
    index.add(VECTORS)
    scores, places = index.search(VECTORS[[0, 2]], 2)
    assert places.tolist() == [[0, 1], [2, 1]]
    expected = [Chunk("0", score=1.0), Chunk("2", score=1.0), Chunk("1", score=SIMILARITIES[1])]
    reads("several_queries", (scores, places), expected)


def test_a_single_neighbor(reads: Reads) -> None:
    """One number has no order, so that nothing tells a distance from a similarity; an empty slot does."""
    index = faiss.IndexFlatL2(2)
    index.add(VECTORS[2:])
    reads("single", index.search(QUERY, 1), [Chunk("0")])
    reads("single_and_empty", index.search(QUERY, 2), [Chunk("0", score=-2.0)])


def test_binary(reads: Reads) -> None:
    """Hamming distances are integers like the ids."""
    index = faiss.IndexBinaryFlat(8)
    index.add(np.array([[1], [3]], dtype=np.uint8))
    reads("binary", index.search(np.array([[1]], dtype=np.uint8), 2), [Chunk("0", score=0.0), Chunk("1", score=-1.0)])
