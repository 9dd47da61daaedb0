"""Chunks that a later stage hands on are recognized among the candidates."""

from __future__ import annotations

import pytest

from ragtrace.record.coercion import Known, read_chunks, told_apart
from ragtrace.record.coercion.recognition import read_moves

TEXTS = ("The tariff of 2023 was 3.9 percent of the value.", "The tariff of 2024 is 4.5 percent of the value.")


@pytest.fixture
def known() -> Known:
    """Two texts that came under one id."""
    chunks = read_chunks([{"id": "file", "text": text, "score": 0.5} for text in TEXTS])
    return Known(chunk.candidate(rank) for rank, chunk in told_apart(chunks.ranked))


@pytest.mark.parametrize(
    ("body", "place"), [(TEXTS[0], 0), (TEXTS[1], 1), (TEXTS[1][:30], 1), ("changed", 0), (None, 0)]
)
def test_an_id_that_several_have(known: Known, body: str | None, place: int) -> None:
    """A chunk with this id is the one with its text, or with more of it; the first where none fits."""
    ((_, chunk),) = read_chunks([{"id": "file", "text": body}]).ranked

    assert known.identify(chunk) == list(known.by_id)[place]


def test_the_same_text_twice() -> None:
    """It is one chunk, and keeps its id; chunks without a text cannot be told apart."""
    chunks = [{"id": "a", "text": TEXTS[0]}, {"id": "a", "text": TEXTS[0]}, {"id": "a"}, {"id": "b", "text": TEXTS[0]}]

    assert [chunk.chunk_id for _, chunk in told_apart(read_chunks(chunks).ranked)] == ["a", "a", "a", "b"]


def test_moves_of_chunks_that_went_in_twice() -> None:
    """The better rank counts, and what fell out stands in the order in which it went in."""
    ranked = read_chunks([{"id": "c", "score": 0.5}, {"id": "new"}]).ranked

    ids, kept, lost = read_moves(ranked, ["b", "a", "b", "c", "d", "c"], Known(()))

    assert ids == ["c", "new"]
    assert [(move.chunk_id, move.rank_before, move.rank_after) for move in kept] == [("c", 4, 1), ("new", None, 2)]
    assert [(move.chunk_id, move.rank_before) for move in lost] == [("b", 1), ("a", 2), ("d", 5)]
