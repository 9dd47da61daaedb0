"""LlamaIndex's nodes out of a real index in memory."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.record.coercion import Chunk
from tests.captures.pipelines import check_stages
from tests.frameworks.conftest import Reads

DISTRIBUTIONS = ("llama-index-core",)
REASON = "llama-index-core is not installed: make frameworks"

core = pytest.importorskip("llama_index.core", reason=REASON)
schema = pytest.importorskip("llama_index.core.schema", reason=REASON)
stores = pytest.importorskip("llama_index.core.vector_stores.types", reason=REASON)

TEXT = "alpha is the first letter"
META = {"file_name": "greek.md", "page": 1}


def _node(id: str = "a") -> Any:
    source = {schema.NodeRelationship.SOURCE: schema.RelatedNodeInfo(node_id="greek")}
    return schema.TextNode(id_=id, text=TEXT, metadata=dict(META), relationships=source)


def _read(id: str | None = "a", score: float | None = None) -> Chunk:
    return Chunk(id, TEXT, score, "greek", "greek.md", metadata=META)


@pytest.mark.captures("ids", "scores", "texts", "metadata", "moves", "packed", where="LlamaIndex `NodeWithScore`")
def test_a_retriever(reads: Reads) -> None:
    """Nodes with scores; the document is the node's source."""
    index = core.VectorStoreIndex([_node(), _node("b")], embed_model=core.MockEmbedding(embed_dim=3))
    found = index.as_retriever().retrieve("alpha")
    assert [each.score for each in found] == pytest.approx([1.0, 1.0])
    expected = [_read(each.node.node_id, each.score) for each in found]
    assert {chunk.chunk_id for chunk in expected} == {"a", "b"}
    reads("retriever", found, expected)
    check_stages(found, expected)


def test_nodes(reads: Reads) -> None:
    """Nodes alone, and scores that are None or no number."""
    found = [
        _node(),
        schema.NodeWithScore(node=_node("b"), score=None),
        schema.NodeWithScore(node=_node("c"), score=float("inf")),
    ]
    reads("nodes", found, [_read(), _read("b"), _read("c")])


def test_the_text_is_without_the_metadata(reads: Reads) -> None:
    """Newer nodes hold their text in a resource; both kinds are read without what their template adds."""
    found = [schema.Node(id_="n", text_resource=schema.MediaResource(text=TEXT)), core.Document(id_="d", text=TEXT)]
    reads("resources", found, [Chunk("n", TEXT), Chunk("d", TEXT)])


def test_images(reads: Reads) -> None:
    """A node that holds an image and no text says so."""
    found = [
        schema.ImageNode(id_="i", image_url="https://example.org/a.png"),
        schema.Node(id_="m", image_resource=schema.MediaResource(url="https://example.org/b.png")),
    ]
    reads("images", found, [Chunk("i", modality="image"), Chunk("m", modality="image")])


def test_a_vector_store(reads: Reads) -> None:
    """Its result has nodes or only ids, and similarities beside them."""
    result = stores.VectorStoreQueryResult(nodes=[_node(), _node("b")], similarities=[0.75, 0.5], ids=["a", "b"])
    reads("vector_store", result, [_read(score=0.75), _read("b", 0.5)])
    result = stores.VectorStoreQueryResult(nodes=None, similarities=[0.75], ids=["a", "b"])
    reads("vector_store_ids", result, [Chunk("a", score=0.75), Chunk("b")])


def test_a_response(reads: Reads) -> None:
    """What a query engine answers holds the nodes that it used."""
    response = core.Response("an answer", source_nodes=[schema.NodeWithScore(node=_node(), score=0.5)])
    reads("response", response, [_read(score=0.5)])
