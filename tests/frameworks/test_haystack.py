"""Haystack's documents out of a real document store in memory."""

from __future__ import annotations

import pytest

from ragtrace.record.coercion import Chunk
from tests.captures.pipelines import check_stages
from tests.frameworks.conftest import Reads

DISTRIBUTIONS = ("haystack-ai",)
REASON = "haystack-ai is not installed: make frameworks"

haystack = pytest.importorskip("haystack", reason=REASON)
dataclasses = pytest.importorskip("haystack.dataclasses", reason=REASON)
in_memory = pytest.importorskip("haystack.document_stores.in_memory", reason=REASON)
retrievers = pytest.importorskip("haystack.components.retrievers.in_memory", reason=REASON)

ALPHA, BETA = "alpha is the first letter", "beta is the second letter"


@pytest.mark.captures("ids", "scores", "texts", "metadata", "moves", "packed", where="Haystack `Document`")
def test_a_retriever(reads: Reads) -> None:
    """A component returns a mapping with documents; the splitter's `source_id` is the document."""
    store = in_memory.InMemoryDocumentStore()
    store.write_documents(
        [
            haystack.Document(id="a", content=ALPHA, meta={"source_id": "greek"}, embedding=[1.0, 0.0]),
            haystack.Document(id="b", content=BETA, embedding=[0.5, 0.5]),
        ]
    )
    found = retrievers.InMemoryEmbeddingRetriever(store).run(query_embedding=[1.0, 0.0])
    scores = [document.score for document in found["documents"]]
    assert scores == pytest.approx([1.0, 0.5])
    expected = [Chunk("a", ALPHA, scores[0], "greek", metadata={"source_id": "greek"}), Chunk("b", BETA, scores[1])]
    reads("component", found, expected)
    reads("documents", found["documents"], expected)
    check_stages(found["documents"], expected)
    check_stages(found, expected, ("sync", "async"))


def test_documents(reads: Reads) -> None:
    """Without a score; the content hash that Haystack gives is the id; a blob has its own modality and no text."""
    image = dataclasses.ByteStream(b"\x89PNG", mime_type="image/png")
    found = [haystack.Document(content=ALPHA, meta={"file_path": "greek.md"}), haystack.Document(id="i", blob=image)]
    expected = [
        Chunk(found[0].id, ALPHA, source="greek.md", metadata={"file_path": "greek.md"}),
        Chunk("i", modality="image"),
    ]
    reads("blobs", found, expected)
