"""Chroma's results out of a real collection in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragtrace.probe import CallableProbe, ask, cause_of, compare
from ragtrace.record.coercion import Chunk, read_chunks
from ragtrace.types import Query, RequestRecord, RetrieveRun
from tests.captures.pipelines import check_stages
from tests.frameworks.conftest import Reads

DISTRIBUTIONS = ("chromadb",)

chromadb = pytest.importorskip("chromadb", reason="chromadb is not installed: make frameworks")
types = pytest.importorskip("chromadb.api.types", reason="chromadb is not installed: make frameworks")

ALPHA, BETA = "alpha is the first letter", "beta is the second letter"
META = {"source": "greek.md"}


@pytest.fixture(scope="module")
def collection() -> Any:
    """Two chunks; the second one has no metadata."""
    found = chromadb.EphemeralClient().create_collection("letters", embedding_function=None)
    found.add(ids=["a", "b"], documents=[ALPHA, BETA], embeddings=[[1.0, 0.0], [0.0, 1.0]], metadatas=[META, None])
    return found


@pytest.mark.captures(
    *("ids", "scores", "texts", "metadata", "moves", "packed"), where="Chroma `QueryResult`", mode=("sync", "async")
)
def test_a_query(reads: Reads, collection: Any) -> None:
    """Columns of one list per query; a distance is written as its negative."""
    found = collection.query(query_embeddings=[[1.0, 0.0]], n_results=2)
    assert found["distances"] == [[0.0, 2.0]]
    expected = [Chunk("a", ALPHA, 0.0, source="greek.md", metadata=META), Chunk("b", BETA, -2.0)]
    reads("query", found, expected)
    check_stages(found, expected, ("sync", "async"))


def test_several_queries(reads: Reads, collection: Any) -> None:
    """The best of each query, then the second of each; what several found keeps its first place and number."""
    found = collection.query(query_embeddings=[[1.0, 0.0], [0.0, 1.0]], n_results=2)
    assert found["ids"] == [["a", "b"], ["b", "a"]]
    expected = [Chunk("a", ALPHA, 0.0, source="greek.md", metadata=META), Chunk("b", BETA, 0.0)]
    reads("several_queries", found, expected)


def test_columns_that_were_not_asked_for(reads: Reads, collection: Any) -> None:
    """Ids alone are enough; a query without a neighbor has none."""
    reads("ids", collection.query(query_embeddings=[[1.0, 0.0]], include=[]), [Chunk("a"), Chunk("b")])
    nothing = collection.query(query_embeddings=[[1.0, 0.0]], where={"source": "latin.md"})
    assert nothing["ids"] == [[]]
    reads("nothing", nothing, [])


def test_get(reads: Reads, collection: Any) -> None:
    """No query, no list per query, no distance."""
    expected = [Chunk("a", ALPHA, source="greek.md", metadata=META), Chunk("b", BETA)]
    reads("get", collection.get(), expected)


def test_search(reads: Reads) -> None:
    """The numbers of the search API (which needs a server) are called scores, and lower is better."""
    found = types.SearchResult(
        ids=[["a", "b"]],
        documents=[[ALPHA, None]],
        embeddings=[None],
        metadatas=[[None, META]],
        scores=[[0.25, None]],
        select=[["#score"]],
    )
    reads("search", found, [Chunk("a", ALPHA, -0.25), Chunk("b", source="greek.md", metadata=META)])


def test_a_probe_of_a_collection() -> None:
    """The example of docs/how-to/probe.md: its own search behind a filter, and the stored vectors ranked exactly."""
    collection = chromadb.EphemeralClient().create_collection("probed", embedding_function=None)
    vectors, metadatas = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], [META, {"source": "b.md"}, META]
    collection.add(ids=["a", "b", "c"], documents=[ALPHA, BETA, "gamma"], embeddings=vectors, metadatas=metadatas)
    asked = np.array([0.6, 0.8])

    def exact(query: str, depth: int) -> list[dict[str, Any]]:
        held = collection.get(include=["embeddings", "documents"])
        order = np.argsort(-(np.asarray(held["embeddings"]) @ asked))[:depth]
        return [{"id": held["ids"][place], "text": held["documents"][place]} for place in order]

    probe = CallableProbe(
        search=lambda query, depth: collection.query(query_embeddings=[[0.6, 0.8]], n_results=depth, where=META),
        exact=exact,
        contains=lambda chunk: bool(collection.get(ids=[chunk])["ids"]),
        passes=lambda chunk_id: chunk_id != "b",
    )
    found = tuple(chunk.candidate(1) for _, chunk in read_chunks(probe.probe(BETA, 1, False)).ranked)
    record = RequestRecord(
        request_id="r", service="s", query=Query(original=BETA), stages=(RetrieveRun(top_k=1, candidates=found),)
    )
    answers = ask(probe, record)
    assert [cause_of(probe, name, answers).cause for name in ("b", "z")] == ["filtered", "not_indexed"]
    assert compare(probe, record, answers).cause == "filtered"
