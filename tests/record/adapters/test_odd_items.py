"""Items that are wrong or odd, and numbers of every kind, with a name and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragtrace.record.coercion import Chunk, read_chunks
from tests.record.adapters.examples import TEXT, document, look_alike, node, point, read, row

NAN = float("nan")
SCORES: list[tuple[Any, float | None]] = [
    (0.5, 0.5),
    (1, 1.0),
    (Decimal("0.5"), 0.5),
    (np.float32(0.5), 0.5),
    (np.float64(0.5), 0.5),
    (np.int64(2), 2.0),
    (np.array(0.5), 0.5),
    (None, None),
    (NAN, None),
    (np.float32("nan"), None),
    (Decimal("NaN"), None),
    (float("-inf"), None),
    ("high", None),
    (np.array([0.5, 0.25]), None),
]


@dataclass
class Hit:
    """A dataclass of a host."""

    id: str | None
    text: str
    score: Any


@dataclass(slots=True)
class SlottedHit:
    """One without a `__dict__`."""

    id: str | None
    text: str
    score: Any


class Entry(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Any:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


MAKERS = {
    "dict": lambda score: {"id": "a", "text": TEXT, "score": score},
    "mapping": lambda score: Entry(id="a", text=TEXT, score=score),
    "dataclass": lambda score: Hit("a", TEXT, score),
    "slots": lambda score: SlottedHit("a", TEXT, score),
    "object": lambda score: SimpleNamespace(id="a", text=TEXT, score=score),
    "langchain": lambda score: document(relevance_score=score),
    "llama_index": lambda score: look_alike(["llama_index.core.schema.NodeWithScore"], node=node(), score=score),
    "haystack": lambda score: look_alike(
        ["haystack.dataclasses.document.Document"], id="a", content=TEXT, blob=None, meta={}, score=score
    ),
    "qdrant": point,
    "row": lambda score: row(("id", "text", "score"), "a", TEXT, score),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(("score", "expected"), SCORES, ids=[repr(score) for score, _ in SCORES])
def test_numbers(make: Any, score: Any, expected: float | None) -> None:
    """Every number is a plain float; what is none, or not finite, is None and never zero."""
    (chunk,) = read([make(score)])
    assert (chunk.chunk_id, chunk.text, chunk.score) == ("a", TEXT, expected)


@pytest.mark.parametrize(("score", "expected"), SCORES[:10], ids=[repr(score) for score, _ in SCORES[:10]])
def test_numbers_in_pairs(score: Any, expected: float | None) -> None:
    """A document beside a score."""
    (chunk,) = read([(document(), score)])
    assert (chunk.chunk_id, chunk.text, chunk.score) == ("a", TEXT, expected)


@pytest.mark.parametrize("id", [None, ""])
def test_documents_without_an_id(id: str | None) -> None:
    """They keep their text, whose hash stands for the id."""
    assert read([document(id)]) == [Chunk(None, TEXT)]


@pytest.mark.parametrize(
    "item",
    [
        document(None, None),
        look_alike(["haystack.dataclasses.document.Document"], id="", content=None, blob=None, meta=None, score=None),
        row(("count",), 5),
        row((), ()),
        look_alike(
            ["app.Item", "sqlalchemy.orm.decl_api.DeclarativeBase"], _sa_instance_state=SimpleNamespace(key=None)
        ),
    ],
)
def test_what_has_neither_id_nor_text_is_counted(item: Any) -> None:
    """It is named by its type, and the others keep their places."""
    found = read_chunks([item, document()])
    assert [(rank, chunk.chunk_id) for rank, chunk in found.ranked] == [(2, "a")]
    assert found.unread == [type(item).__name__]


def test_rows_of_different_queries() -> None:
    """All rows have one class; what it means is told by each row's fields."""
    assert read([row(("id", "text"), 1, TEXT)]) == [Chunk("1", TEXT)]
    assert read([row(("chunk_id", "content", "dist"), "a", TEXT, Decimal("0.5"))]) == [Chunk("a", TEXT, -0.5)]
    assert read([row(("id", "year"), 1, 2024)]) == [Chunk("1", metadata={"year": 2024})]


RISING = [0.1, 0.5, 0.5, 0.9]
FALLING = [0.9, 0.5, 0.5, 0.1]
PAIRS = {
    "documents": lambda score: (document(), score),
    "ids": lambda score: ("a", score),
    "rows": lambda score: (7, TEXT, score),
    "decimals": lambda score: ("a", Decimal(str(score))),
    "numpy": lambda score: ("a", np.float64(score)),
}


@pytest.mark.parametrize("make", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("container", [list, tuple])
def test_numbers_without_a_name_are_judged_by_their_order(make: Any, container: Any) -> None:
    """Results are best first: what rises is a distance, and written as its negative; all else stands as it is."""

    def scores(given: list[float]) -> list[float | None]:
        return [chunk.score for chunk in read(container(make(score) for score in given))]

    assert scores(RISING) == [-score for score in RISING]
    assert scores(FALLING) == FALLING
    assert scores([0.1, 0.9, 0.5]) == [0.1, 0.9, 0.5]
    assert scores([0.5]) == [0.5]
    assert scores([0.5, 0.5]) == [0.5, 0.5]


def test_numbers_with_a_name_keep_it() -> None:
    """A score that rises is a score, a distance that falls a distance; a list may be in any order."""
    assert [chunk.score for chunk in read([{"id": "a", "score": 0.1}, {"id": "b", "score": 0.9}])] == [0.1, 0.9]
    assert [chunk.score for chunk in read([{"id": "a", "distance": 0.9}, {"id": "b", "distance": 0.1}])] == [
        -0.9,
        -0.1,
    ]


def test_integers_in_rows_are_no_distances() -> None:
    """Ids rise as well."""
    assert [chunk.score for chunk in read([("a", 1), ("b", 2)])] == [1.0, 2.0]
    assert [chunk.score for chunk in read([("a", np.int64(1)), ("b", np.int64(2))])] == [1.0, 2.0]


def test_gaps_in_rows() -> None:
    """A missing number says nothing about the order, and stays missing."""
    assert [chunk.score for chunk in read([("a", 0.1), ("b", None), ("c", 0.9)])] == [-0.1, None, -0.9]
    assert [chunk.score for chunk in read([("a", 0.1), ("b", NAN), ("c", 0.9)])] == [-0.1, None, -0.9]
    assert [chunk.chunk_id for chunk in read([("a", 0.1), ("b",)])] == ["a", "b"]


def test_points_of_a_distance() -> None:
    """Qdrant's scores of a Euclidean collection rise; with one point the order says nothing."""
    points = [point(0.0, 1), point(2.0, 2)]
    assert [chunk.score for chunk in read(points)] == [0.0, -2.0]
    assert [chunk.score for chunk in read(points[1:])] == [2.0]
    assert [chunk.score for chunk in read(points[::-1])] == [2.0, 0.0]
