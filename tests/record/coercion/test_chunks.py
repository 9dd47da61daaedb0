"""What counts as a chunk: the shapes that retrievers return."""

from __future__ import annotations

import decimal
import json
import uuid
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from ragtrace.record.coercion import Chunk, Unreadable, read_chunks
from ragtrace.types import Candidate, content_hash

TEXT = "the text of a chunk"


@dataclass
class Hit:
    """A dataclass of a host."""

    chunk_id: str
    text: str
    score: float
    doc_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class Document:
    """As LangChain has it."""

    def __init__(self, page_content: str, metadata: dict[str, Any], id: str | None = None) -> None:
        self.page_content, self.metadata, self.id = page_content, metadata, id


class Node:
    """As LlamaIndex has it."""

    node_id = "n1"
    metadata: dict[str, Any] = {"file_name": "a.pdf"}  # noqa: RUF012 - a stand-in

    def get_content(self) -> str:
        """Text behind a method."""
        return TEXT


class Row(NamedTuple):
    """A named tuple."""

    id: int
    content: str
    distance: float


SHAPES: list[tuple[Any, Chunk]] = [
    ({"id": "a", "text": TEXT, "score": 0.5}, Chunk("a", TEXT, 0.5)),
    ({"_id": 7, "body": TEXT, "similarity": 1}, Chunk("7", TEXT, 1.0)),
    ({"chunk_id": "a", "content": TEXT, "year": 2024}, Chunk("a", TEXT, metadata={"year": 2024})),
    ({"id": "a", "text": TEXT, "distance": 0.25}, Chunk("a", TEXT, -0.25)),
    ({"_id": "a", "_score": 2.0, "_index": "kb", "_source": {"text": TEXT}}, Chunk("a", TEXT, 2.0, source="kb")),
    ({"id": "a", "metadata": {"text": TEXT, "doc_id": "d"}}, Chunk("a", TEXT, doc_id="d", metadata={"doc_id": "d"})),
    ({"document": {"id": "a", "text": TEXT}, "relevance_score": 0.5}, Chunk("a", TEXT, 0.5)),
    ({"corpus_id": 3, "score": 0.5}, Chunk(score=0.5, index=3)),
    ({"id": "a", "text": None, "score": None}, Chunk("a")),
    (("a", 0.5), Chunk("a", score=0.5)),
    ((TEXT, 0.5), Chunk(text=TEXT, score=0.5)),
    ((0.5, TEXT), Chunk(text=TEXT, score=0.5)),
    ((17, 0.5), Chunk("17", score=0.5)),
    (("a", TEXT, 0.5), Chunk("a", TEXT, 0.5)),
    (["a", TEXT, 0.5], Chunk("a", TEXT, 0.5)),
    (("a", TEXT, 0.5, {"year": 2024}), Chunk("a", TEXT, 0.5, metadata={"year": 2024})),
    (({"id": "a", "text": TEXT}, np.float32(0.5)), Chunk("a", TEXT, 0.5)),
    ((Document(TEXT, {"k": "v"}, "a"), decimal.Decimal("0.5")), Chunk("a", TEXT, 0.5, metadata={"k": "v"})),
    (Document(TEXT, {"source": "s"}, "a"), Chunk("a", TEXT, source="s", metadata={"source": "s"})),
    (Document(TEXT, {"id": "m"}), Chunk("m", TEXT, metadata={"id": "m"})),
    (Hit("a", TEXT, 0.5, "d", {"n": 1}), Chunk("a", TEXT, 0.5, "d", metadata={"n": 1})),
    (SimpleNamespace(node=Node(), score=0.5), Chunk("n1", TEXT, 0.5, metadata={"file_name": "a.pdf"})),
    (Row(4, TEXT, 0.25), Chunk("4", TEXT, -0.25)),
    (SimpleNamespace(id=uuid.UUID(int=1), text=TEXT), Chunk("00000000-0000-0000-0000-000000000001", TEXT)),
    ("a-17", Chunk("a-17")),
    (TEXT, Chunk(text=TEXT)),
    (Candidate(chunk_id="a", rank=9, text=TEXT, modality="image"), Chunk("a", TEXT, modality="image")),
]  # fmt: skip


@pytest.mark.parametrize(("item", "expected"), SHAPES)
def test_shapes(item: Any, expected: Chunk) -> None:
    """Each usual shape is read whole, the first time and from the kept shape."""
    assert read_chunks([item, item]).ranked == [(1, expected), (2, expected)]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), "high", True, None, object()])
def test_a_score_that_is_no_number_is_left_out(score: Any) -> None:
    """Undefined is None, never zero."""
    ((_, chunk),) = read_chunks([{"id": "a", "text": TEXT, "score": score}]).ranked
    assert (chunk.chunk_id, chunk.score) == ("a", None)


@pytest.mark.parametrize(
    "item",
    [
        {"id": "", "text": TEXT, "score": 0.5},
        {"id": "", "text": TEXT, "score": 0.5, "page": 1},
        ("", TEXT, 0.5),
        Hit("", TEXT, 0.5),
        SimpleNamespace(id="", node_id="", text=TEXT, score=0.5),
        Document(TEXT, {}, id=""),
        {"text": TEXT, "metadata": {"id": ""}},
    ],
)
def test_an_empty_id_is_none(item: Any) -> None:
    """Chunks without an id would otherwise be one chunk; the first item of a shape and the further ones."""
    for chunks in (read_chunks([item, item]), read_chunks([item])):
        assert {chunk.identity for _, chunk in chunks.ranked} == {content_hash(TEXT)}


def test_an_id_behind_an_empty_one_counts() -> None:
    """The next name under which ids are given."""
    ((_, chunk),) = read_chunks([{"chunk_id": "", "id": "c7", "text": TEXT}]).ranked
    assert chunk.identity == "c7"


def test_without_an_id_the_text_identifies_the_chunk() -> None:
    """The same text has the same id in every process and after re-indexing."""
    ((_, chunk),) = read_chunks([TEXT]).ranked
    assert chunk.candidate(1).chunk_id == content_hash(TEXT)


@pytest.mark.parametrize(
    "body",
    ["自転車の盗難は補償されます。", "火災は。", "自行车被盗属于保险范围", "การโจรกรรมจักรยานได้รับความคุ้มครอง"],
)
def test_a_sentence_without_spaces_is_no_id(body: str) -> None:
    """Scripts without spaces: it would stand wherever ids do, which no capture policy hides."""
    for item in (body, (body, 0.5)):
        ((_, chunk),) = read_chunks([item]).ranked
        assert (chunk.chunk_id, chunk.text) == (None, body)


@pytest.mark.parametrize("name", ["家庭财产保险条款2024版.pdf", "合同-2024-第3条", "日本語の約款の一覧/1", "Straße"])
def test_a_name_without_spaces_is_an_id(name: str) -> None:
    """Of a file, a clause, a page, whatever the script."""
    ((_, chunk),) = read_chunks([name]).ranked
    assert (chunk.chunk_id, chunk.text) == (name, None)


@pytest.mark.parametrize(
    "value",
    [
        [("a", 0.5), ("b", 0.4)],
        (("a", 0.5), ("b", 0.4)),
        (["a", "b"], [0.5, 0.4]),
        {"hits": [("a", 0.5), ("b", 0.4)]},
        SimpleNamespace(matches=[("a", 0.5), ("b", 0.4)]),
    ],
)
def test_containers(value: Any) -> None:
    """Lists, tuples, parallel lists, and results that hold a list."""
    assert read_chunks(value).ranked == [(1, Chunk("a", score=0.5)), (2, Chunk("b", score=0.4))]


@pytest.mark.parametrize("value", [5, "text", b"bytes", None, object(), {"a": 1}, iter([1])])
def test_what_holds_no_chunks_is_unreadable(value: Any) -> None:
    """It is named by its type."""
    with pytest.raises(Unreadable) as caught:
        read_chunks(value)
    assert caught.value.kind == type(value).__name__


def test_an_unreadable_item_keeps_the_ranks_of_the_others() -> None:
    """The others are recorded where they stood."""
    chunks = read_chunks(["a", object(), "b", {}])
    assert [(rank, chunk.chunk_id) for rank, chunk in chunks.ranked] == [(1, "a"), (3, "b")]
    assert chunks.unread == ["object", "dict"]


def test_objects_of_one_class_may_differ_in_their_attributes() -> None:
    """What the first object lacks is still read from the second, and the other way round."""
    full = Hit("a", TEXT, 0.5)
    bare = Hit("b", TEXT, 0.5)
    del bare.score
    assert [chunk.score for _, chunk in read_chunks([full, bare, full]).ranked] == [0.5, None, 0.5]


def test_metadata_is_a_bounded_copy() -> None:
    """Embeddings are cut, what JSON lacks becomes text, and depth is bounded."""
    deep: dict[str, Any] = {}
    deep["self"] = deep
    given = {"vector": [0.0] * 5000, "when": uuid.UUID(int=1), "huge": 2**80, "nan": float("nan"), "deep": deep}
    ((_, chunk),) = read_chunks([{"id": "a", "metadata": given}]).ranked
    assert len(chunk.metadata["vector"]) == 64
    assert chunk.metadata["when"] == "00000000-0000-0000-0000-000000000001"
    assert (chunk.metadata["huge"], chunk.metadata["nan"]) == (str(2**80), None)
    assert len(json.dumps(chunk.metadata["deep"])) < 100
