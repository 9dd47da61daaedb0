"""A probe of real FAISS indexes: what they store, an exact search over it, filters, and what cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ragtrace.engines.faiss_index import FaissProbe
from ragtrace.errors import ConfigurationError
from tests.club import CHUNKS, QUESTIONS, vector, vectors

faiss = pytest.importorskip("faiss", reason="FAISS is not installed (pip install 'ragtrace[models]')")

IDS = list(CHUNKS)
QUESTION = next(iter(QUESTIONS))
SIZE = vectors().shape[1]


def flat() -> Any:
    """Exact by inner product."""
    index = faiss.IndexFlatIP(SIZE)
    index.add(vectors())
    return index


def flat_by_distance() -> Any:
    """Exact by squared distance, which orders unit vectors alike."""
    index = faiss.IndexFlatL2(SIZE)
    index.add(vectors())
    return index


def ivf() -> Any:
    """Eight lists, of which one is searched; FAISS's numbers were given, in another order."""
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(SIZE), SIZE, 8, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    index.train(vectors())
    backwards = np.arange(len(IDS))[::-1].copy()
    index.add_with_ids(vectors()[backwards], backwards)
    return index


def hnsw() -> Any:
    """Few links and a short search."""
    index = faiss.IndexHNSWFlat(SIZE, 4, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efSearch = 2
    index.add(vectors())
    return index


def mapped() -> Any:
    """An id map over an HNSW index."""
    index = faiss.IndexIDMap(faiss.IndexHNSWFlat(SIZE, 4, faiss.METRIC_INNER_PRODUCT))
    index.add_with_ids(vectors(), np.arange(len(IDS)))
    return index


def exact_order(question: str) -> list[str]:
    """All chunk ids by their similarity, computed without FAISS."""
    scores = vectors() @ vector(question)
    return [IDS[place] for place in np.argsort(-scores, kind="stable")]


@pytest.mark.parametrize("make", [flat, flat_by_distance, ivf, hnsw, mapped])
def test_an_exact_search_ranks_all_that_is_stored(make: Callable[[], Any]) -> None:
    """The best of each question is that of the whole matrix, with its text, whatever the index."""
    index = make()
    asked = FaissProbe(index, vector, ids=IDS, texts=CHUNKS)
    for question in QUESTIONS:
        best = asked.probe(question, 5, True)
        assert best[0].chunk_id == exact_order(question)[0]
        assert best[0].text == CHUNKS[best[0].chunk_id]
        assert [one.rank for one in best] == [1, 2, 3, 4, 5]
    assert len(asked.probe(QUESTION, 100, True)) == len(IDS) == index.ntotal


def test_its_own_search_is_the_application_s() -> None:
    """What the index returns, in its order, without the slots that are empty."""
    index = ivf()
    _, places = index.search(vector(QUESTION)[None, :], 20)
    expected = [IDS[place] for place in places[0] if place >= 0]
    assert len(expected) < 20
    assert [one.chunk_id for one in FaissProbe(index, vector, ids=IDS).probe(QUESTION, 20, False)] == expected


def test_a_filter_is_applied_by_its_own_search_alone() -> None:
    """As deep as before, without what the filter removes; an exact search has it."""
    best = exact_order(QUESTION)
    asked = FaissProbe(flat(), vector, ids=IDS, passes=lambda name: name not in best[:3])
    own, similar = asked.probe(QUESTION, 4, False), np.sort(vectors() @ vector(QUESTION))[::-1]
    assert {one.chunk_id for one in own}.isdisjoint(best[:3])
    assert [one.score for one in own] == pytest.approx(similar[3:7].tolist(), abs=1e-6)
    assert asked.probe(QUESTION, 1, True)[0].chunk_id == best[0]
    assert (asked.passes(best[0]), asked.passes(best[4])) == (False, True)
    assert FaissProbe(flat(), vector, ids=IDS).passes(best[0]) is None


def test_what_is_stored_is_known_by_id_and_by_text() -> None:
    """A chunk that was never added is not there, though the list of ids has it."""
    index = faiss.IndexFlatIP(SIZE)
    index.add(vectors()[:10])
    asked = FaissProbe(index, vector, ids=IDS, texts=CHUNKS.get)
    assert (asked.has(IDS[3]), asked.has(IDS[12])) == (True, False)
    assert (asked.has(f"  {CHUNKS[IDS[3]]}\n"), asked.has(CHUNKS[IDS[12]])) == (True, False)


def test_numbers_are_ids_where_none_are_given() -> None:
    """As `faiss` gives them."""
    assert FaissProbe(flat(), vector).probe(QUESTION, 1, True)[0].chunk_id == str(IDS.index("mooring-fee"))


def test_vectors_that_an_index_does_not_keep_whole() -> None:
    """A quantized index is refused with the remedy; with the vectors beside it the exact search is exact."""
    index = faiss.IndexIVFPQ(faiss.IndexFlatIP(SIZE), SIZE, 4, 4, 4, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
    index.train(vectors())
    index.add(vectors())
    with pytest.raises(ConfigurationError, match=r"IndexIVFPQ.*FaissProbe\(vectors=\.\.\.\)"):
        FaissProbe(index, vector, ids=IDS).probe(QUESTION, 5, True)
    whole = FaissProbe(index, vector, ids=IDS, vectors=vectors())
    assert whole.probe(QUESTION, 1, True)[0].chunk_id == exact_order(QUESTION)[0]


def test_an_empty_index_holds_nothing() -> None:
    """Neither search fails."""
    asked = FaissProbe(faiss.IndexFlatIP(SIZE), vector, ids=IDS)
    assert (asked.probe(QUESTION, 5, False), asked.probe(QUESTION, 5, True), asked.has("keys")) == ([], [], False)


def test_a_gpu_that_is_not_there_is_said() -> None:
    """Where it was asked for."""
    if faiss.get_num_gpus() if hasattr(faiss, "get_num_gpus") else 0:
        pytest.skip("FAISS sees a GPU here")
    with pytest.raises(ConfigurationError, match=r"FAISS sees no GPU"):
        FaissProbe(flat(), vector, gpu=True).probe(QUESTION, 1, True)


@pytest.mark.gpu
def test_the_exact_search_runs_on_a_gpu() -> None:
    """With the same ranks as on the CPU."""
    if not (hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus()):
        pytest.skip("FAISS sees no GPU (pip install 'ragtrace[gpu]')")
    there, here = (FaissProbe(ivf(), vector, ids=IDS, gpu=gpu) for gpu in (True, False))
    for question in QUESTIONS:
        assert there.probe(question, 1, True)[0].chunk_id == here.probe(question, 1, True)[0].chunk_id
