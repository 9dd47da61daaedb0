"""Gold sets out of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtrace.errors import RecordError
from ragtrace.receive.evaluations import read_golds
from ragtrace.types import Facet, Gold


def golds(tmp_path: Path, name: str, body: str, **given: Any) -> list[Gold]:
    """The gold sets of a file with this body."""
    path = tmp_path / name
    path.write_text(body, encoding="utf-8")
    return list(read_golds(path, "assistant", **given))


def test_rows(tmp_path: Path) -> None:
    """Ids, class, and facets as a list or by kind."""
    facet = {"kind": "time", "value": "2024", "weight": 2.0, "aliases": ["FY24"]}
    body = json.dumps([{"question": "Who?", "chunk_ids": ["a", 7], "query_class": "people", "facets": [facet]}])
    by_kind = json.dumps([{"query": "Who?", "facets": {"time": ["2024"], "entity": "Ann"}}])

    assert golds(tmp_path, "a.json", body) == [
        Gold(
            service="assistant",
            question="Who?",
            chunk_ids=("a", "7"),
            query_class="people",
            facets=(Facet(kind="time", value="2024", weight=2.0, aliases=("FY24",), source="gold"),),
        )
    ]
    assert [(each.kind, each.value, each.source) for each in golds(tmp_path, "b.json", by_kind)[0].facets] == [
        ("time", "2024", "gold"),
        ("entity", "Ann", "gold"),
    ]


def test_table(tmp_path: Path) -> None:
    """Ids in a cell: a list as text, or separated by white space."""
    body = 'question,ids\nWho?,"[""a"", ""b""]"\nWhat?,c d\n'
    found = golds(tmp_path, "a.csv", body, columns={"chunk_ids": "ids"})

    assert [each.chunk_ids for each in found] == [("a", "b"), ("c", "d")]


def test_an_empty_list_says_that_no_chunk_answers(tmp_path: Path) -> None:
    """In JSON and in a cell; with facets, or with ids, it says nothing of the kind."""
    rows = [
        {"question": "Who?", "chunk_ids": []},
        {"question": "Who?", "chunk_ids": [], "facets": {"time": "2024"}},
        {"question": "Who?", "chunk_ids": ["a"]},
    ]
    found = golds(tmp_path, "a.json", json.dumps(rows))
    assert [one.is_unanswerable for one in found] == [True, False, False]
    (cell,) = golds(tmp_path, "a.csv", "question,chunk_ids\nWho?,[]\n")
    assert (cell.is_unanswerable, cell.chunk_ids) == (True, ())


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"chunk_ids": ["a"]}, r"row 1 has no question; name .*; it has chunk_ids"),
        ({"chunk_ids": ["a"], "question": ""}, "row 1 has no question: 'question' is empty"),
        ({"question": "Who?", "ids": "a"}, "row 1 has neither chunk ids nor facets; name .*; it has question, ids"),
        (
            {"question": "Who?", "facets": [{"kind": "color", "value": "red"}]},
            "row 1 has a facet .* kinds are entity",
        ),
        ({"question": "Who?", "facets": ["red"]}, "row 1 has a facet that cannot be read"),
        ({"question": "Who?", "chunk_ids": [["a"]]}, r"row 1 has a chunk id \['a'\]"),
    ],
)
def test_bad_rows(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    """The row and what is allowed are named."""
    with pytest.raises(RecordError, match=reason):
        golds(tmp_path, "a.json", json.dumps([row]))


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    """The name that was given, and those that there are."""
    with pytest.raises(RecordError, match=r"row 1 has no column 'idz'; it has question, ids$"):
        golds(tmp_path, "a.csv", "question,ids\nWho?,a\n", columns={"chunk_ids": "idz"})

    rows = [{"question": "Who?", "ids": ["a"], "kind": "x"}, {"question": "What?", "ids": ["b"]}]
    columns = {"chunk_ids": "ids", "query_class": "kind"}
    assert [each.query_class for each in golds(tmp_path, "a.json", json.dumps(rows), columns=columns)] == ["x", None]
