"""Which columns of an evaluation file are read: numbered ones in their order, and what was left out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragtrace.errors import RecordError
from ragtrace.receive.evaluations import EvaluationRow, Evaluations, read_evaluations

FACTS = [f"Fact {number} of the handbook says something of its own." for number in range(1, 13)]


def table(names: Sequence[str], *lines: Sequence[str], delimiter: str = ",") -> str:
    """A CSV file as a spreadsheet writes it."""
    output = io.StringIO()
    csv.writer(output, delimiter=delimiter).writerows([names, *lines])
    return output.getvalue()


def read(
    tmp_path: Path, name: str, body: str, columns: dict[str, str] | None = None
) -> tuple[list[EvaluationRow], Evaluations]:
    """The rows of a file with this body, and what is known of its columns behind the last row."""
    path = tmp_path / name
    path.write_text(body, encoding="utf-8")
    found = read_evaluations(path, "assistant", columns)
    return list(found), found


def contexts(row: EvaluationRow) -> list[str | None]:
    """The texts of a request's candidates, by rank."""
    return [candidate.text for candidate in row.record.candidates]


@pytest.mark.parametrize(
    "pattern",
    [
        "Context_{}",
        "context {}",
        "Context{}",
        "Document{}",
        "ctx_{}",
        "retrieved_contexts[{}]",
        "Retrieved Chunk {}",
        "retrievedDocument{}",
        "passage-{}",
        "doc_{}_text",
        "outputs.documents.{}.page_content",
    ],
)
def test_numbered_columns_are_contexts_in_the_order_of_their_numbers(tmp_path: Path, pattern: str) -> None:
    """10 behind 9, wherever the columns stand, from 0 or from 1; beside a score, which is left out."""
    order = [10, 1, 11, 2, 3, 4, 5, 6, 7, 8, 9, 12]
    names = ["Question", *(pattern.format(number) for number in order), "Answer", "faithfulness"]
    line = ["Who?", *(FACTS[number - 1] for number in order), "Fact 1 says something of its own.", "0.9"]
    (row,), found = read(tmp_path, "wide.csv", table(names, line))

    assert contexts(row) == FACTS
    assert row.record.generation is not None
    assert row.record.generation.answer == "Fact 1 says something of its own."
    assert found.read["contexts"] == [pattern.format(number) for number in range(1, 13)]
    assert found.left_out == ["faithfulness"]


def test_counting_from_zero_and_with_leading_zeros(tmp_path: Path) -> None:
    """Numbers are numbers."""
    (row,), _ = read(tmp_path, "zero.csv", table(["question", "ctx_0", "ctx_01", "ctx_2"], ["Who?", *FACTS[:3]]))
    assert contexts(row) == FACTS[:3]


def test_empty_cells_are_skipped(tmp_path: Path) -> None:
    """White space and what pandas and spreadsheets write for nothing, too; an empty line is no row."""
    names = ["question", *(f"Context_{number}" for number in range(1, 7)), "answer"]
    body = table(names, ["Who?", FACTS[0], "", "  ", "nan", "None", FACTS[5], "He."], [""] * 8)
    (row,), _ = read(tmp_path, "gaps.csv", body)
    assert contexts(row) == [FACTS[0], FACTS[5]]


def test_ids_and_scores_beside_the_texts_belong_to_them(tmp_path: Path) -> None:
    """`doc_1_id` and `doc_1_score` are of the same chunk as `doc_1_text`."""
    names = ["question", "doc_1_text", "doc_1_id", "doc_1_score", "doc_1_url", "doc_2_text", "doc_2_id"]
    body = table(names, ["Who?", FACTS[0], "a#1", "0.75", "https://a.example", FACTS[1], "b#4"])
    (row,), found = read(tmp_path, "parts.csv", body)
    assert [(each.chunk_id, each.score) for each in row.record.candidates] == [("a#1", 0.75), ("b#4", None)]
    assert found.left_out == ["doc_1_url"]


def test_json_lines_of_any_width(tmp_path: Path) -> None:
    """Each row has its own number of contexts; a context may be an object."""
    lines = [
        {"query": "Who?", "context_1": FACTS[0], "context_2": {"id": "x", "text": FACTS[1]}, "response": "He."},
        {"query": "Where?", "context_10": FACTS[2], "context_9": FACTS[1], "context_1": FACTS[0], "response": "There."},
    ]
    (first, second), _ = read(tmp_path, "wide.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    assert [each.chunk_id for each in first.record.candidates][1] == "x"
    assert contexts(second) == FACTS[:3]


def test_a_later_row_may_lack_the_columns_of_a_star(tmp_path: Path) -> None:
    """Its retriever found nothing; a first row without them is an error in the name."""
    lines = [{"question": "Who?", "Beleg 1": FACTS[0], "answer": "He."}, {"question": "Where?", "answer": "Nowhere."}]
    bodies = ["".join(f"{json.dumps(line)}\n" for line in order) for order in (lines, lines[::-1])]
    (first, second), _ = read(tmp_path, "star.jsonl", bodies[0], {"contexts": "Beleg *"})
    assert (contexts(first), contexts(second)) == (FACTS[:1], [])
    with pytest.raises(RecordError, match=r"row 1 has no column 'Beleg \*'; it has question, answer"):
        read(tmp_path, "star.jsonl", bodies[1], {"contexts": "Beleg *"})


def test_scores_alone_are_no_contexts(tmp_path: Path) -> None:
    """Nor is a numbered address."""
    names = ["question", "context_1_score", "context_2_score", "doc_1_url", "answer"]
    (row,), found = read(tmp_path, "scores.csv", table(names, ["Who?", "0.4", "0.3", "https://a.example/long", "He."]))
    assert contexts(row) == []
    assert found.left_out == ["context_1_score", "context_2_score", "doc_1_url"]


def test_ragas_as_pandas_writes_it(tmp_path: Path) -> None:
    """A list in one cell goes before numbered columns; lists of Python and of numpy, which has no commas."""
    for cell in (str(FACTS[:3]), "\n ".join(map(repr, FACTS[:3])).join("[]"), json.dumps(FACTS[:3])):
        names = ["", "user_input", "retrieved_contexts", "response", "reference", "faithfulness", "chunk_1"]
        (row,), found = read(tmp_path, "ragas.csv", table(names, ["0", "Who?", cell, "He.", "He.", "1.0", "file.pdf"]))
        assert contexts(row) == FACTS[:3]
        assert found.left_out == ["(a column without a name)", "reference", "faithfulness", "chunk_1"]


def test_trulens_records_with_contexts_beside_them(tmp_path: Path) -> None:
    """`input`, `output` and scores as TruLens' table of records has them, its contexts spread over columns."""
    names = ["app_name", "record_id", "input", "output", "Groundedness", "Context 1", "Context 2", "Context 10"]
    body = table(names, ["faq", "r1", "Who?", "He.", "0.5", FACTS[0], FACTS[1], FACTS[2]])
    (row,), found = read(tmp_path, "trulens.csv", body)
    assert row.record.query.original == "Who?"
    assert contexts(row) == FACTS[:3]
    assert found.left_out == ["app_name", "record_id", "Groundedness"]


@pytest.mark.parametrize("is_table", [True, False])
def test_langsmith_results(tmp_path: Path, is_table: bool) -> None:
    """What goes in and comes out stands below `inputs` and `outputs`, with dots in a table, nested in JSON lines."""
    if is_table:
        names = ["inputs.question", "outputs.contexts", "outputs.answer", "reference.answer", "feedback.correct", "id"]
        body, name = table(names, ["Who?", str(FACTS[:2]), "He.", "She.", "1", "run-1"]), "langsmith.csv"
    else:
        row: dict[str, Any] = {
            "inputs": {"question": "Who?"},
            "outputs": {"answer": "He.", "contexts": [{"page_content": text, "metadata": {}} for text in FACTS[:2]]},
            "reference_outputs": {"answer": "She."},
        }
        body, name = json.dumps(row) + "\n", "langsmith.jsonl"
    (found,), columns = read(tmp_path, name, body)
    assert found.record.query.original == "Who?"
    assert contexts(found) == FACTS[:2]
    assert found.record.generation is not None
    assert found.record.generation.answer == "He."
    assert columns.read["answer"] == ["outputs.answer"]
    assert set(columns.left_out) <= {"reference.answer", "feedback.correct", "reference_outputs"}


def test_columns_of_one_name_are_all_read(tmp_path: Path) -> None:
    """A spreadsheet lets three columns be called `context`; pandas numbers them `context`, `context.1`, `context.2`."""
    for names in (
        ["question", *["context"] * 3, "answer"],
        ["question", "context", "context.1", "context.2", "answer"],
    ):
        (row,), _ = read(tmp_path, "same.csv", table(names, ["Who?", *FACTS[:3], "He."]))
        assert contexts(row) == FACTS[:3]


def test_a_spreadsheet_of_another_country(tmp_path: Path) -> None:
    """Semicolons between cells, a line that says so, and names of its own with a star for the numbers."""
    names = ["Frage", *(f"Textstelle {number}" for number in (1, 2, 10)), "Antwort"]
    columns = {"question": "Frage", "contexts": "Textstelle *", "answer": "Antwort"}
    for head in ("", "sep=;\n", "\ufeff"):
        body = head + table(names, ["Wer?", FACTS[0], "mit Komma, und mehr", FACTS[2], "Er."], delimiter=";")
        (row,), found = read(tmp_path, "excel.csv", body, columns)
        assert contexts(row) == [FACTS[0], "mit Komma, und mehr", FACTS[2]]
        assert found.left_out == []


def test_a_name_without_a_star_is_one_column(tmp_path: Path) -> None:
    """`Context_1` is not `Context_10`; a star stands for the number whatever parts it from the name."""
    names = ["question", "Context_1", "Context_10", "answer"]
    body = table(names, ["Who?", FACTS[0], FACTS[9], "He."])
    (row,), found = read(tmp_path, "one.csv", body, {"contexts": "Context_1"})
    assert contexts(row) == [FACTS[0]]
    assert found.left_out == ["Context_10"]
    (row,), _ = read(tmp_path, "star.csv", body, {"contexts": "Context*"})
    assert contexts(row) == [FACTS[0], FACTS[9]]


def test_the_columns_with_most_text_are_the_contexts(tmp_path: Path) -> None:
    """File names beside one long context are none."""
    names = ["question", "context", "doc_1", "doc_2", "answer"]
    (row,), found = read(tmp_path, "names.csv", table(names, ["Who?", FACTS[0] * 3, "a.pdf", "b.pdf", "He."]))
    assert contexts(row) == [FACTS[0] * 3]
    assert found.left_out == ["doc_1", "doc_2"]


def test_gold_evidence_may_be_wide_as_well(tmp_path: Path) -> None:
    """`reference_context_1` and its like are the gold evidence, and no contexts."""
    names = ["question", "reference_context_2", "reference_context_1", "context_1", "context_2"]
    (row,), _ = read(tmp_path, "gold.csv", table(names, ["Who?", FACTS[1], FACTS[0], FACTS[0], FACTS[1]]))
    assert row.gold is not None
    assert row.gold.chunk_ids == tuple(each.chunk_id for each in row.record.candidates)


def rows_with(counts: Sequence[int]) -> str:
    """A file whose rows have so many contexts."""
    names = ["question", *(f"Context_{number}" for number in range(1, 10)), "answer"]
    lines = [[f"Who {at}?", *FACTS[:count], *[""] * (9 - count), "He."] for at, count in enumerate(counts)]
    return table(names, *lines)


def test_a_row_with_fewer_contexts_than_usual_is_named(tmp_path: Path) -> None:
    """Where most rows have the same number; none where every row has its own, or more than that."""
    _, found = read(tmp_path, "few.csv", rows_with([9, 9, 3, 9, 9, 9, 0]))
    assert found.warnings == ["row 3 has 3 contexts, row 7 has none, where 5 of 7 rows have 9"]
    _, found = read(tmp_path, "own.csv", rows_with([9, 8, 3, 7, 2, 9]))
    assert found.warnings == []
    _, found = read(tmp_path, "two.csv", rows_with([9, 3]))
    assert found.warnings == []
    _, found = read(tmp_path, "more.csv", rows_with([5, 5, 5, 9]))
    assert found.warnings == []


def test_a_file_without_contexts_says_how_to_name_them(tmp_path: Path) -> None:
    """Numbered columns of another name are shown as what they could be."""
    names = ["question", "Beleg 2", "Beleg 1", "answer"]
    _, found = read(tmp_path, "none.csv", table(names, ["Who?", *FACTS[:2], "He."]))
    assert found.warnings == [
        "no row has contexts; if they stand in Beleg 1 … Beleg 2, give --column 'contexts=Beleg *'"
    ]


@pytest.mark.parametrize(
    ("name", "body", "columns", "reason"),
    [
        (
            "n.jsonl",
            '{"question": "Who?", "Context_1": "a b", "Context_2": 5}\n',
            None,
            r"row 1, column 'Context_2' holds 5; a context is a text, or an object with an id or a text; mend",
        ),
        (
            "c.csv",
            "question,context_1,answer\nWho?,Ann, who ran, won.,Ann.\n",
            None,
            r"row 1 has 5 cells where the header names 3; put texts that hold a comma in quotation marks",
        ),
        (
            "star.csv",
            "question,context_1,answer\nWho?,Ann.,Ann.\n",
            {"contexts": "Passage *"},
            r"row 1 has no column 'Passage \*'; it has question, context_1, answer",
        ),
        (
            "star.csv",
            "question,context_1,answer\nWho?,Ann.,Ann.\n",
            {"answer": "ans*"},
            r"column 'ans\*' of answer has a star; only contexts and reference_contexts may have several columns",
        ),
    ],
)
def test_bad_files(tmp_path: Path, name: str, body: str, columns: dict[str, str] | None, reason: str) -> None:
    """The place, the value, what is allowed, and the remedy."""
    with pytest.raises(RecordError, match=reason):
        read(tmp_path, name, body, columns)
