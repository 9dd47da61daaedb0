"""Results that are wrong, empty or odd: arrays, columns, hits, one list per query."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from ragtrace.record.coercion import Chunk, Unreadable, read_chunks
from tests.record.adapters.examples import TEXT, document, read

NAN = float("nan")
FLOATS = np.array([[0.9, 0.5]], dtype=np.float32)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((FLOATS[0], np.array([1, 2])), [Chunk("1", score=float(FLOATS[0, 0])), Chunk("2", score=0.5)]),
        ((np.array([[1, 2]]), -FLOATS), [Chunk("1", score=float(FLOATS[0, 0])), Chunk("2", score=0.5)]),
        ((np.array([[NAN, 0.5]]), np.array([[1, 2]])), [Chunk("1"), Chunk("2")]),
        ((np.array(0.5), np.array(3)), [Chunk("3")]),
        ((FLOATS, np.array([[-1, -1]])), []),
        ((np.empty((0, 2)), np.empty((0, 2), dtype=int)), []),
        ((np.empty((1, 0)), np.empty((1, 0), dtype=int)), []),
        ((FLOATS, np.array([[0, 9]]), ["a"]), [Chunk("a", score=float(FLOATS[0, 0])), Chunk("9", score=0.5)]),
        ((FLOATS, np.array([[0, 1]]), {"0": "a", 1: {"id": "b", "text": TEXT}}),
         [Chunk("a", score=float(FLOATS[0, 0])), Chunk("b", TEXT, 0.5)]),
        ((FLOATS, np.array([[0, 1]]), [document(), 17]),
         [Chunk("a", TEXT, float(FLOATS[0, 0])), Chunk("17", score=0.5)]),
    ],
    ids=["one row", "hnswlib", "nan", "no dimension", "only empty slots", "no query", "no slot", "short map",
         "mixed map", "map of objects"],
)  # fmt: skip
def test_arrays(value: Any, expected: list[Chunk]) -> None:
    """Arrays of any dimension, in either order, with holes, and id maps with gaps."""
    assert read(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        (FLOATS, np.array([[1, 2, 3]])),
        (np.array([0, 1], dtype=np.uint64), FLOATS[0], np.array([10])),
        (FLOATS, FLOATS, FLOATS, FLOATS),
    ],
    ids=["different sizes", "range search", "four arrays"],
)
def test_arrays_that_say_nothing(value: Any) -> None:
    """They are counted as unread, not guessed."""
    found = read_chunks(value)
    assert found.ranked == []
    assert found.unread == ["ndarray"] * len(value)


def test_an_id_map_keeps_its_chunks() -> None:
    """The score of one search does not stay on what the host's map holds."""
    shared = Chunk("a", TEXT)
    assert read((FLOATS, np.array([[0, 0]]), [shared]))[0].score == float(FLOATS[0, 0])
    assert shared.score is None


HITS: list[Any] = [{"id": "a", "text": TEXT, "score": 0.9}, {"id": "b", "text": f"{TEXT} b", "score": 0.5}]
READ = [Chunk("a", TEXT, 0.9), Chunk("b", f"{TEXT} b", 0.5)]


class Found(NamedTuple):
    """What a function returns by name."""

    hits: list[Any]
    total: int


class Pair(NamedTuple):
    """The same by names that tell nothing."""

    one: list[Any]
    other: int


@pytest.mark.parametrize(
    "value",
    [(HITS, 17), (17, HITS), (HITS, {"took": 3}), (HITS, "page-2"), (HITS, None), (HITS, []), (HITS[:1], HITS[1:]),
     (HITS, [0.9, 0.5]), (HITS, (0.9, 0.5)), ([0.9, 0.5], HITS), (HITS, np.array([0.9, 0.5])), Found(HITS, 17),
     Pair(HITS, 17), (["a", "b"], [TEXT, f"{TEXT} b"], [0.9, 0.5])],
)  # fmt: skip
def test_a_list_and_what_a_function_returns_beside_it(value: Any) -> None:
    """A total, a page token, scores: every chunk of the list is there, once."""
    assert read(value) == READ


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (([], 0), []),
        (([], []), []),
        (([TEXT, f"{TEXT} b"], 17), [Chunk(text=TEXT), Chunk(text=f"{TEXT} b")]),
        ((["a", TEXT, 0.9], ["b", f"{TEXT} b", 0.5]), READ),
        ((["a", "b"], np.array([0.5, 0.9])), [Chunk("a", score=-0.5), Chunk("b", score=-0.9)]),
        (([7, 8], [TEXT, f"{TEXT} b"], [0.9, 0.5]), [Chunk("7", TEXT, 0.9), Chunk("8", f"{TEXT} b", 0.5)]),
        (({"hits": {"total": 1, "hits": [{"_id": "a", "_score": 0.9, "_source": {"text": TEXT}}]}}),
         [Chunk("a", TEXT, 0.9)]),
    ],
    ids=["nothing found", "nothing found in columns", "texts", "rows", "distances", "numbered", "Elasticsearch"],
)  # fmt: skip
def test_what_tuples_hold(value: Any, expected: list[Chunk]) -> None:
    """An empty list is a result without chunks; rows stay rows; columns are judged by their order as rows are."""
    assert read(value) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"ids": [["a", "b"]], "documents": [[TEXT]], "metadatas": None, "distances": [[0.5, None]]},
         [Chunk("a", TEXT, -0.5), Chunk("b")]),
        ({"ids": [["a"], []], "documents": None, "distances": [[np.float32(0.5)], []]}, [Chunk("a", score=-0.5)]),
        ({"ids": [["a"]], "documents": [[None]], "metadatas": [[None]], "distances": [[NAN]]}, [Chunk("a")]),
        ({"ids": [[]], "documents": [[]], "distances": [[]]}, []),
        ({"ids": [], "documents": []}, []),
        ({"ids": ["a"], "documents": [TEXT], "metadatas": [{"source": "s"}]},
         [Chunk("a", TEXT, source="s", metadata={"source": "s"})]),
    ],
    ids=["short columns", "empty query", "nothing known", "no neighbor", "no id", "get"],
)  # fmt: skip
def test_columns(result: dict[str, Any], expected: list[Chunk]) -> None:
    """Chroma's columns may be missing, short or empty."""
    assert read(result) == expected


def test_other_mappings_with_ids_are_not_taken_for_columns() -> None:
    """A host's own result is read as before."""
    assert read({"ids": "x", "documents": [{"id": "a"}]}) == [Chunk("a")]
    with pytest.raises(Unreadable):
        read_chunks({"ids": ["a"]})


def test_hits() -> None:
    """Places of any integer type; a hit with an id of its own is a host's; an odd one is counted."""
    assert read([{"corpus_id": np.int64(2), "score": np.float32(0.5)}]) == [Chunk(score=0.5, index=2)]
    assert read([{"corpus_id": 2, "id": "a"}])[0].chunk_id == "a"
    found = read_chunks([{"corpus_id": 2, "score": 0.5}, {"corpus_id": None}, "b"])
    assert [(rank, chunk.identity) for rank, chunk in found.ranked] == [(1, "2"), (3, "b")]
    assert found.unread == ["dict"]


def test_one_list_per_query() -> None:
    """Merged in turn; a chunk written as a list is none, nor is a list with other things between."""
    queries = [[{"id": "a", "score": 0.9}, {"id": "b"}], [], [{"id": "a", "score": 0.1}, {"id": "c"}, object()]]
    found = read_chunks(queries)
    assert found.ranked == [(1, Chunk("a", score=0.9)), (2, Chunk("b")), (3, Chunk("c"))]
    assert found.unread == ["object"]
    assert read([["a", TEXT, 0.5], ["b", TEXT, 0.4]]) == [Chunk("a", TEXT, 0.5), Chunk("b", TEXT, 0.4)]
    assert read([[("a", 0.1), ("b", 0.2)]]) == [Chunk("a", score=-0.1), Chunk("b", score=-0.2)]
    assert read([[], []]) == []
