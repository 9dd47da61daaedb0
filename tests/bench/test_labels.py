"""What people said of real answers, read and judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.labels import Labeled, Mark, labeled_claims, main, read_expertqa, read_ragtruth, record_of
from ragtrace.analyze import analyze_record
from ragtrace.coverage import SUPPORTED
from ragtrace.engines.verifier_examples import is_held_out

PASSAGES = "passage 1:The ferry to Anholt leaves at 9.\n\npassage 2:Bicycles travel free of charge."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One question of RAGTruth that is held out, one that is not, and three answers of ExpertQA."""
    held_out = next(number for number in range(100) if is_held_out(str(number)))
    other = next(number for number in range(100) if not is_held_out(str(number)))
    responses = [
        {"response": "It leaves at 9.", "labels": []},
        {
            "response": "It leaves at 9 from pier 4.",
            "labels": [{"label_type": "Subtle Baseless Info", "start": 17, "end": 27}],
        },
        {
            "response": "It leaves at 7.",
            "labels": [
                {"label_type": "Evident Conflict", "start": 12, "end": 13},
                {"label_type": "Subtle Conflict", "start": 12, "end": 13},
            ],
        },
    ]
    source = {"question": "when does the ferry leave", "passages": PASSAGES}
    rows = [{"source_id": number, "source": source, "responses": responses} for number in (held_out, other)]
    claims: list[list[tuple[str, list[str]]]] = [
        [("Complete", ["[1] one"])],
        [("Complete", ["[1] one"]), ("Missing", [])],
        [("Missing", [])],
    ]
    answers = [
        {
            "question": "q",
            "answer": "Yes [1].",
            "claims": [{"support": said, "evidence": found, "claim_string": "Yes [1]."} for said, found in each],
        }
        for each in claims
    ]
    for name, written in (("ragtruth/qa.jsonl", rows), ("expertqa/claims.jsonl", answers)):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text("".join(json.dumps(row) + "\n" for row in written), encoding="utf-8")
    return tmp_path


def test_answers_have_what_people_said_of_them(data: Path) -> None:
    """The worst label of an answer counts; the half that was fitted on and answers without evidence do not."""
    found = list(read_ragtruth(data))
    assert [case.label for case in found] == ["no span", "subtle", "evident"]
    assert found[0].passages == ("The ferry to Anholt leaves at 9.", "Bicycles travel free of charge.")
    assert [(case.label, case.answer) for case in read_expertqa(data)] == [("complete", "Yes."), ("missing", "Yes.")]


def test_a_case_is_a_request_whose_generation_is_judged() -> None:
    """All passages are in the prompt, so that ranking is sound."""
    case = Labeled("x", "no span", "When does the ferry leave?", ("The ferry leaves at 9.",), "The ferry leaves at 9.")
    states = {found.stage: found.state for found in analyze_record(record_of(case)).diagnosis.stages}
    assert states["ranking"] == states["generation"] == "sound"
    assert "citation" not in states


def test_the_table_has_a_row_for_each_label(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how many answers there are."""
    monkeypatch.setattr("sys.argv", ["labels.py", "--data", str(data)])
    main()
    answers, _, claims = capsys.readouterr().out.partition("\n\n")
    assert [line.split()[:4] for line in answers.splitlines()[-3:]] == [
        ["ragtruth:", "evident", "1", "0.0"],
        ["ragtruth:", "no", "span", "1"],
        ["ragtruth:", "subtle", "1", "0.0"],
    ]
    assert "ragtruth: all            n     3  unsupported by label 0.667" in claims
    assert "(no span 1, span 2)" in claims


def test_a_claim_has_the_label_of_what_covers_it() -> None:
    """A claim that no mark touches has the answer's own label, and none at all where it is unknown."""
    answer = "The ferry leaves at 9. Bicycles travel free of charge."
    case = Labeled("x", "", "When?", ("The ferry leaves at 9.",), answer, (Mark(20, 21, "span"),), default="no span")
    assert [claim.label for claim in labeled_claims(case)] == ["span", "no span"]
    judged = case._replace(marks=(Mark(0, 22, "Complete"), Mark(23, 54, "N/A")), default="")
    (claim,) = labeled_claims(judged)
    assert (claim.label, claim.support >= SUPPORTED) == ("Complete", True)


def test_data_that_is_absent_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And how to give it."""
    monkeypatch.setattr("sys.argv", ["labels.py", "--data", str(tmp_path)])
    main()
    assert "qa.jsonl: missing; give --data or RAGTRACE_BENCH_DATA" in capsys.readouterr().err
