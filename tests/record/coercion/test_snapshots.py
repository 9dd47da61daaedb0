"""What is taken by reference, what is copied, and what must be read at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ragtrace.record.coercion import Frozen, SnapshotColumns, freeze, read_chunks

TEXT = "the text of a chunk"


@dataclass
class Hit:
    """A dataclass of a host."""

    chunk_id: str
    text: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("id", "score", "text")

    def __init__(self, id: str, text: str, score: float) -> None:
        self.id, self.text, self.score = id, text, score


class Found(SimpleNamespace):
    """A namespace of its own: how a type is taken is decided by the first of it that is met."""


TAKEN: list[list[Any]] = [
    [{"id": "a", "text": TEXT, "score": 0.5}, {"id": "b", "text": TEXT, "score": 0.25}],
    [{"text": TEXT, "_id": 7, "similarity": 1}],
    [{"id": "a", "text": TEXT, "score": None}, {"id": None, "text": TEXT, "score": float("nan")}],
    [{"id": "a", "text": TEXT, "metadata": {"year": 2024, "tags": ["x", {"deep": True}]}, "lang": "de"}],
    [Hit("a", TEXT, 0.5, {"n": 1}), Hit("b", TEXT, 0.25)],
    [Slotted("a", TEXT, 0.5), Slotted("b", TEXT, 0.25)],
    [Found(id="a", content=TEXT, distance=0.5)],
    [("a", TEXT, 0.5), ("b", TEXT, 1)],
    ["a", TEXT],
    [],
]


@pytest.mark.parametrize("items", TAKEN)
def test_what_is_taken_reads_as_the_items_did(items: list[Any]) -> None:
    """Reading can wait: it gives what reading at once gives."""
    taken = freeze(items)
    assert taken is not None
    assert taken.chunks() == read_chunks(items)


READ_AT_ONCE: list[list[Any]] = [
    [{"id": "a", "text": TEXT}, {"id": "b", "text": TEXT, "more": 1}],
    [{"id": "a", "text": TEXT, "more": 1}, {"id": "b", "text": TEXT}],
    [{"id": "a", "text": TEXT, "made": object()}],
    [{"id": "a", "text": bytearray(b"text")}],
    [{"id": "a", "text": TEXT, "embedding": [0.5] * 1000}],
    [SimpleNamespace(id="a", text=TEXT), SimpleNamespace(id="b", text=TEXT, score=0.5)],
    [Hit("a", TEXT, 0.5), Slotted("b", TEXT, 0.5)],
    [("a", [TEXT])],
    ["a", ("b", 0.5)],
    [object()],
]


@pytest.mark.parametrize("items", READ_AT_ONCE)
def test_what_could_change_or_differ_is_not_taken(items: list[Any]) -> None:
    """Items of several shapes, and values that are neither texts nor numbers nor plain metadata."""
    assert freeze(items) is None


def test_texts_are_taken_by_reference_and_metadata_as_copies() -> None:
    """No text is copied, and no metadata shared."""
    items = [{"id": "a", "text": TEXT, "metadata": {"tags": ["x"]}}]
    taken = freeze(items)
    assert isinstance(taken, SnapshotColumns)
    items[0]["metadata"]["tags"].append("y")  # type: ignore[index]
    items[0]["text"] = "changed"
    (found,) = taken.items()
    assert found["text"] is TEXT
    assert found["metadata"] == {"tags": ["x"]}


def test_a_list_that_is_cleared_stays_as_it_was() -> None:
    """The list itself is the host's."""
    items = ["a", "b"]
    taken = freeze(items)
    items.clear()
    assert taken == Frozen(["a", "b"], 2)


def test_the_weight_is_mostly_the_texts() -> None:
    """Fifty texts of 600 characters weigh at least what they are."""
    taken = freeze([{"id": f"c{number}", "text": "x" * 600} for number in range(50)])
    assert taken is not None
    assert 30_000 <= taken.weight <= 60_000
