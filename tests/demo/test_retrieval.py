"""The dense index with its dimensions for years and editions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.demo._corpus import DocumentSection, load_corpus
from ragtrace.demo._faults import index_without
from ragtrace.demo._retrieval import DenseIndex, Retriever
from ragtrace.engines.encoder import Encoder

pytest.importorskip("faiss", reason="faiss-cpu is not installed (pip install 'ragtrace[models]')")


class _SameForAll:
    """An encoder that cannot tell texts apart, so that only years and editions decide."""

    name = "constant"
    calls = 0

    def encode(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 32,
        on_progress: Callable[[int], None] | None = None,
        threads: int | None = 1,
    ) -> NDArray[np.float32]:
        self.calls += 1
        return np.full((len(texts), 4), 0.5, dtype=np.float32)


def _water() -> list[DocumentSection]:
    chunks = load_corpus().chunks
    return [chunk for chunk in chunks if chunk.document.code == "home" and chunk.key == "water"]


def _retriever() -> Retriever:
    encoder = cast(Encoder, _SameForAll())
    return Retriever(encoder, DenseIndex.build(_water(), encoder, "test"))


@pytest.mark.parametrize(
    ("query", "years"),
    [
        ("the limit in 2019", {2019}),
        ("the limit on 3 May 2019", {2019}),
        ("from 2018 to 2020", {2018, 2020}),
        ("according to edition 1.10", {2018}),
        ("under edition 2.0 of 2019", {2019}),
        ("the limit", {2024}),
    ],
)
def test_named_years_and_editions_go_first(query: str, years: set[int]) -> None:
    """Chunks of the years that a query names, else of its editions, else of the wording in force, come first."""
    by_id = load_corpus().by_id
    hits = _retriever().search(query, 5 * len(years))
    assert {by_id[hit.chunk_id].document.year for hit in hits} == years


def test_other_years_stay_retrievable() -> None:
    """The year is a bonus and no filter."""
    assert len(_retriever().search("the limit in 2019", 50)) == len(_water()) == 40


def test_scores_of_given_chunks_are_those_of_the_search() -> None:
    """Scoring chunks by id gives what the search gives."""
    retriever = _retriever()
    hits = retriever.search("the limit in 2019", 40)
    scores = retriever.scores("the limit in 2019", [hit.chunk_id for hit in hits])
    np.testing.assert_allclose(scores, [hit.score for hit in hits], rtol=1e-6)


def test_an_index_without_a_source() -> None:
    """A rebuilt index lacks the chunks of one source and nothing else, and has its own version."""
    retriever = _retriever()
    rebuilt = retriever.over(index_without(retriever.index, "wordings-ie", "test-2"))
    sources = {hit.source for hit in rebuilt.search("the limit in 2019", 50)}
    assert sources == {"wordings-gb", "wordings-de", "wordings-ch", "wordings-se"}
    assert len(rebuilt.search("x", 50)) == 32
    assert rebuilt.index.version == "test-2"


def test_query_embeddings_are_kept() -> None:
    """A query is encoded once, also for a retriever over another index."""
    retriever = _retriever()
    encoder = cast(_SameForAll, retriever.encoder)
    retriever.know(["one", "two", "one"])
    calls = encoder.calls
    retriever.search("one", 5)
    retriever.over(retriever.index).search("two", 5)
    assert encoder.calls == calls
