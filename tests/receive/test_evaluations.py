"""Evaluation sets of other tools, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtrace.errors import RecordError
from ragtrace.receive.evaluations import EvaluationRow, read_evaluations, rows_of

RAGAS = {
    "user_input": "What is the tariff of 2024?",
    "retrieved_contexts": ["The tariff of 2024 is 4.5 percent.", "Cork has a port."],
    "response": "It is 4.5 percent.",
    "reference_contexts": ["The tariff of 2024 is 4.5 percent."],
}
RAGCHECKER = {
    "query_id": "q1",
    "query": "Who won?",
    "gt_answer": "Ann",
    "response": "Ann won.",
    "retrieved_context": [{"doc_id": "d1", "text": "Ann won the race."}, {"doc_id": "d2", "text": "Bob lost."}],
}


def rows(tmp_path: Path, name: str, body: str, **given: Any) -> list[EvaluationRow]:
    """The rows of a file with this body."""
    path = tmp_path / name
    path.write_text(body, encoding="utf-8")
    return list(read_evaluations(path, "assistant", **given))


def test_ragas(tmp_path: Path) -> None:
    """Contexts are candidates and packed chunks; reference contexts are the gold evidence, by the same ids."""
    ((record, gold),) = rows(tmp_path, "set.jsonl", json.dumps(RAGAS) + "\n")

    assert record.query.original == RAGAS["user_input"]
    assert [each.text for each in record.candidates] == RAGAS["retrieved_contexts"]
    assert record.packing is not None
    assert [each.chunk_id for each in record.packing.chunks] == [each.chunk_id for each in record.candidates]
    assert record.generation is not None
    assert record.generation.answer == RAGAS["response"]
    assert gold is not None
    assert gold.chunk_ids == (record.candidates[0].chunk_id,)


def test_ragchecker(tmp_path: Path) -> None:
    """The results of a run, in one object; documents have ids of their own."""
    ((record, gold),) = rows(tmp_path, "set.json", json.dumps({"results": [RAGCHECKER]}))

    assert [each.doc_id or each.chunk_id for each in record.candidates] == ["d1", "d2"]
    assert gold is None


@pytest.mark.parametrize("contexts", ['["Ann won.", "Bob lost."]', "['Ann won.', 'Bob lost.']"])
def test_table(tmp_path: Path, contexts: str) -> None:
    """A spreadsheet, with its own names and a list as text in JSON or in Python."""
    quoted = contexts.replace('"', '""')
    columns = {"question": "frage", "contexts": "texte", "answer": "antwort"}
    body = f'frage,texte,antwort\nWho won?,"{quoted}",Ann.\n'
    ((record, _),) = rows(tmp_path, "set.csv", body, columns=columns)

    assert [each.text for each in record.candidates] == ["Ann won.", "Bob lost."]


def test_same_row_same_request(tmp_path: Path) -> None:
    """A row has one id, wherever it stands; another answer makes another request."""
    one, again, other = rows(tmp_path, "set.json", json.dumps([RAGAS, RAGAS, {**RAGAS, "response": "No."}]))

    assert one.record.request_id == again.record.request_id != other.record.request_id


def test_repeated_context(tmp_path: Path) -> None:
    """A context that stands there twice is one candidate, at its first place."""
    ((record, _),) = rows(tmp_path, "set.json", json.dumps([{**RAGAS, "retrieved_contexts": ["a b", "c d", "a b"]}]))

    assert [(each.text, each.rank) for each in record.candidates] == [("a b", 1), ("c d", 2)]


def test_time(tmp_path: Path) -> None:
    """The time that is given, else the file's."""
    ((given, _),) = rows(tmp_path, "set.json", json.dumps([RAGAS]), at=5)
    ((found, _),) = rows(tmp_path, "set.json", json.dumps([RAGAS]))

    assert given.started_at == 5
    assert found.started_at == (tmp_path / "set.json").stat().st_mtime_ns


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"response": "No."}, r"row 1 has no question; name the column \(--column question=NAME\); it has response"),
        ({"question": "", "answer": "No."}, "row 1 has no question; column 'question' is empty"),
        ({"question": "Who?", "answer": ""}, "row 1 has neither contexts nor an answer; column 'answer' is empty"),
        ({"question": "Who?"}, "row 1 has neither contexts nor an answer"),
        ({"question": 5, "answer": "No."}, "row 1 has no question; column 'question' holds none; fill it in"),
        ({"question": "Who?", "contexts": "[]"}, "neither contexts nor an answer; column 'contexts' holds none; fill"),
        (
            {"question": "Who?", "contexts": [5]},
            "row 1 has .* (cannot be read|of type int)",
        ),
        ([], "holds list, where rows should be objects"),
    ],
)
def test_bad_rows(tmp_path: Path, row: Any, reason: str) -> None:
    """The row and the remedy are named."""
    with pytest.raises(RecordError, match=reason):
        rows(tmp_path, "set.json", json.dumps([row]))


def test_bad_columns(tmp_path: Path) -> None:
    """A column that is none, and one that the file has not."""
    with pytest.raises(RecordError, match="'reply' is none that is read; there are id, question"):
        rows(tmp_path, "set.json", json.dumps([RAGAS]), columns={"reply": "x"})
    with pytest.raises(RecordError, match="row 1 has no column 'x'; it has user_input"):
        rows(tmp_path, "set.json", json.dumps([RAGAS]), columns={"answer": "x"})


def test_no_json(tmp_path: Path) -> None:
    """A file that is none of the kinds."""
    with pytest.raises(RecordError, match=r"set\.json is neither JSON nor JSON lines"):
        rows(tmp_path, "set.json", "{")


def test_nan_is_nothing(tmp_path: Path) -> None:
    """pandas writes NaN where a cell is empty."""
    row = {**RAGAS, "reference_contexts": float("nan"), "segment": float("nan"), "contexts": float("nan")}
    ((record, gold),) = rows(tmp_path, "set.jsonl", json.dumps(row) + "\n")

    assert gold is None
    assert len(record.candidates) == 2
    assert record.segment == "default"


def test_another_encoding(tmp_path: Path) -> None:
    """A table that is not in UTF-8 is refused with the remedy."""
    path = tmp_path / "set.csv"
    path.write_bytes("question,answer\nWas ist ein Zoll?,Eine Gebühr\n".encode("latin-1"))

    with pytest.raises(RecordError, match="UTF-8"):
        list(read_evaluations(path, "assistant"))


def test_several_turns(tmp_path: Path) -> None:
    """The question of a conversation is its last message by a person."""
    turns = [{"type": "human", "content": "Which tariff?"}, {"type": "ai", "content": "Of which year?"}]
    row = {**RAGAS, "user_input": [*turns, {"type": "human", "content": "2024."}, {"type": "ai", "content": "4.5 %"}]}
    ((record, _),) = rows(tmp_path, "set.jsonl", json.dumps(row) + "\n")

    assert record.query.original == "2024."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"question": "a"}\n\n{"question": "c\n', "rows.jsonl, line 3 is no JSON: Unterminated string"),
        ('[{"question": "a"},\n{"question": }]', "rows.jsonl is neither JSON nor JSON lines: .* line 2 column 14"),
    ],
)
def test_where_json_breaks_off(body: str, message: str, tmp_path: Path) -> None:
    """The line is named: of JSON lines the one that is none, of a document the place within it."""
    path = tmp_path / "rows.jsonl"
    path.write_text(body)
    with pytest.raises(RecordError, match=message):
        list(rows_of(path))
