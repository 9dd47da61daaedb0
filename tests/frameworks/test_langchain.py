"""LangChain's documents out of a real in-memory vector store."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.record.coercion import Chunk
from tests.captures.pipelines import check_stages
from tests.frameworks.conftest import Reads

DISTRIBUTIONS = ("langchain-core",)
REASON = "langchain-core is not installed: make frameworks"

documents = pytest.importorskip("langchain_core.documents", reason=REASON)
embeddings = pytest.importorskip("langchain_core.embeddings", reason=REASON)
vectorstores = pytest.importorskip("langchain_core.vectorstores", reason=REASON)

ALPHA, BETA = "alpha is the first letter", "beta is the second letter"
FOUND = [Chunk("a", ALPHA, source="greek.md", metadata={"source": "greek.md", "page": 1}), Chunk("b", BETA)]


def _store() -> Any:
    class Letters(embeddings.Embeddings):  # type: ignore[misc, name-defined]
        """Embeds a text by its first letter."""

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            """One vector each."""
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            """Alpha and beta are at an angle of 60 degrees."""
            return [1.0, 0.0] if text.startswith("alpha") else [0.5, 0.75**0.5]

    store = vectorstores.InMemoryVectorStore(Letters())
    store.add_documents(
        [
            documents.Document(ALPHA, metadata={"source": "greek.md", "page": 1}, id="a"),
            documents.Document(BETA, id="b"),
        ]
    )
    return store


@pytest.mark.captures("ids", "texts", "metadata", "moves", "packed", where="LangChain `Document`")
def test_a_retriever(reads: Reads) -> None:
    """Documents, which have no score."""
    found = _store().as_retriever().invoke("alpha")
    reads("documents", found, FOUND)
    check_stages(found, FOUND)


@pytest.mark.captures("ids", "scores", "texts", "metadata", "moves", "packed", where="LangChain `(Document, score)`")
def test_scores(reads: Reads) -> None:
    """Pairs of a document and a similarity."""
    found = _store().similarity_search_with_score("alpha", k=2)
    assert [score for _, score in found] == pytest.approx([1.0, 0.5])
    expected = [Chunk(one.chunk_id, one.text, score, source=one.source, metadata=one.metadata)
                for one, (_, score) in zip(FOUND, found, strict=True)]  # fmt: skip
    reads("pairs", found, expected)
    check_stages(found, expected)


def test_distances(reads: Reads) -> None:
    """Stores of distances return the same pairs; their numbers rise."""
    found = [(document, 1.0 - score) for document, score in _store().similarity_search_with_score("alpha", k=2)]
    expected = [Chunk(one.chunk_id, one.text, -distance, source=one.source, metadata=one.metadata)
                for one, (_, distance) in zip(FOUND, found, strict=True)]  # fmt: skip
    reads("distances", found, expected)


def test_several_queries(reads: Reads) -> None:
    """A batch is one list per query; a document that two queries found stands in it once."""
    reads("batch", _store().as_retriever(search_kwargs={"k": 2}).batch(["alpha", "beta"]), FOUND)


def test_compressors_and_missing_ids(reads: Reads) -> None:
    """Compressors leave their score in the metadata; without an own id a document has the metadata's or none."""
    found = [
        documents.Document(ALPHA, metadata={"relevance_score": 0.75, "doc_id": "d"}),
        documents.Document(BETA, metadata={"_id": 7}),
    ]
    expected = [
        Chunk(None, ALPHA, 0.75, "d", metadata={"relevance_score": 0.75, "doc_id": "d"}),
        Chunk("7", BETA, metadata={"_id": 7}),
    ]
    reads("compressed", found, expected)


def test_subclasses(reads: Reads) -> None:
    """A host's own kind of document is read like its base."""

    class Passage(documents.Document):  # type: ignore[misc, name-defined]
        """A host's."""

    reads("subclass", [Passage(page_content=ALPHA, id="a")], [Chunk("a", ALPHA)])
