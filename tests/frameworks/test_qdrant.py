"""Qdrant's points out of the client's real local mode."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.probe import CallableProbe, ask, cause_of, compare
from ragtrace.record.coercion import Chunk, read_chunks
from ragtrace.types import Query, RequestRecord, RetrieveRun
from tests.captures.pipelines import check_stages
from tests.frameworks.conftest import Reads

DISTRIBUTIONS = ("qdrant-client",)

qdrant = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: make frameworks")
models = qdrant.models

ALPHA, BETA = "alpha is the first letter", "beta is the second letter"
UUID = "00000000-0000-0000-0000-000000000005"
FIRST = Chunk("1", ALPHA, 1.0, "greek", metadata={"doc_id": "greek"})


@pytest.fixture(scope="module")
def client() -> Any:
    """The same points by similarity and by distance; one has LangChain's payload, one has none."""
    found = qdrant.QdrantClient(":memory:")
    for name, distance in (("cosine", models.Distance.COSINE), ("euclid", models.Distance.EUCLID)):
        found.create_collection(name, vectors_config=models.VectorParams(size=2, distance=distance))
        found.upsert(
            name,
            [
                models.PointStruct(id=1, vector=[1.0, 0.0], payload={"text": ALPHA, "doc_id": "greek"}),
                models.PointStruct(id=2, vector=[0.6, 0.8], payload={"page_content": BETA, "metadata": {"page": 1}}),
                models.PointStruct(id=UUID, vector=[0.0, 1.0]),
            ],
        )
    return found


def _scored(chunk: Chunk, score: float | None) -> Chunk:
    return Chunk(chunk.chunk_id, chunk.text, score, chunk.doc_id, chunk.source, metadata=chunk.metadata)


def _all(scores: list[Any]) -> list[Chunk]:
    chunks = [FIRST, Chunk("2", BETA, metadata={"page": 1}), Chunk(UUID)]
    return [_scored(chunk, score) for chunk, score in zip(chunks, scores, strict=True)]


@pytest.mark.captures("ids", "scores", "texts", "metadata", "moves", "packed", where="Qdrant `ScoredPoint`")
def test_a_query(reads: Reads, client: Any) -> None:
    """A response with points, or its points."""
    found = client.query_points("cosine", query=[1.0, 0.0])
    scores = [point.score for point in found.points]
    assert scores == pytest.approx([1.0, 0.6, 0.0])
    reads("response", found, _all(scores))
    reads("points", found.points, _all(scores))
    check_stages(found.points, _all(scores))
    check_stages(found, _all(scores), ("sync", "async"))


def test_distances(reads: Reads, client: Any) -> None:
    """The score of a Euclidean collection is a distance: it rises, and is written as its negative."""
    found = client.query_points("euclid", query=[1.0, 0.0])
    distances = [point.score for point in found.points]
    assert distances == pytest.approx([0.0, 0.8**0.5, 2**0.5])
    reads("distances", found, _all([-distance or 0.0 for distance in distances]))
    reads("distance_points", found.points, _all([-distance or 0.0 for distance in distances]))


def test_several_queries(reads: Reads, client: Any) -> None:
    """A batch is one response per query."""
    queries = [models.QueryRequest(query=query, limit=1, with_payload=True) for query in ([1.0, 0.0], [0.0, 1.0])]
    found = client.query_batch_points("cosine", queries)
    scores = [response.points[0].score for response in found]
    assert scores == pytest.approx([1.0, 1.0])
    reads("batch", found, [_scored(FIRST, scores[0]), Chunk(UUID, score=scores[1])])


def test_groups(reads: Reads, client: Any) -> None:
    """The points of all groups, the best group first."""
    found = client.query_points_groups("cosine", query=[1.0, 0.0], group_by="doc_id")
    reads("groups", found, [_scored(FIRST, found.groups[0].hits[0].score)])


def test_records(reads: Reads, client: Any) -> None:
    """What is not searched has no score; `scroll` returns its next page beside it."""
    reads("records", client.retrieve("cosine", [1, 2, UUID]), _all([None, None, None]))
    reads("scroll", client.scroll("cosine", limit=1), _all([None, None, None])[:1])


def test_a_probe_of_a_collection(client: Any) -> None:
    """The example of docs/how-to/probe.md: the same search, an exact one without its filter, and what is there."""
    greek = models.Filter(must=[models.FieldCondition(key="doc_id", match=models.MatchValue(value="greek"))])
    probe = CallableProbe(
        search=lambda query, depth: client.query_points("cosine", query=[0.6, 0.8], limit=depth, query_filter=greek),
        exact=lambda query, depth: client.query_points(
            "cosine", query=[0.6, 0.8], limit=depth, search_params=models.SearchParams(exact=True)
        ),
        contains=lambda chunk: bool(client.retrieve("cosine", [int(chunk)])),
        passes=lambda chunk_id: chunk_id == "1",
    )
    found = tuple(chunk.candidate(1) for _, chunk in read_chunks(probe.probe(BETA, 1, False)).ranked)
    record = RequestRecord(
        request_id="r", service="s", query=Query(original=BETA), stages=(RetrieveRun(top_k=1, candidates=found),)
    )
    answers = ask(probe, record)
    assert [cause_of(probe, name, answers).cause for name in ("2", "9")] == ["filtered", "not_indexed"]
    assert compare(probe, record, answers).cause == "filtered"
