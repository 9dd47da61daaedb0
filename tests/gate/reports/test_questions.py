"""Texts of questions in reports: side by side, cut, and unable to break the report that they stand in."""

from __future__ import annotations

import re

import msgspec
import pytest

from ragtrace.gate.question_pairs import question_pair
from ragtrace.gate.reports import Format, render
from ragtrace.gate.reports.questions import stage_questions
from ragtrace.gate.types import CellChanges, ChangedPair, GateReport, LostEvidence
from tests.gate.asked import judged
from tests.gate.reported import cell, failed, report

EVIL = (
    "<script>alert(1)</script> \x1b[2J\x9b1m \u202eevil\u2066 | [a](http://b) `c` @everyone\r\n# head\n</p></article>"
)


def _report(before: str = "Theft is covered.", after: str = "Never.", question: str = "Is it?") -> GateReport:
    """One question got worse over all requests and in a segment; its evidence was lost."""
    cells = [failed("answer_coverage"), failed("answer_coverage", "claims-de"), cell("candidate_recall")]
    pair = ChangedPair(baseline="a", candidate="b", before=1.0, after=0.0)
    changes = [
        CellChanges(metric="answer_coverage", stage="generation", segment=name, pairs=(pair,))
        for name in (None, "claims-de")
    ]
    found = question_pair(
        judged("a", before, question=question),
        judged("b", after, ("c2",), question=question, broken="generation", support=0.0, segment=question),
    )
    lost = LostEvidence(chunk_id=question, where="rerank", rank_before=1, rank_after=9, reason=question, text=before)
    found = msgspec.structs.replace(found, lost=(lost,))
    return report("block", cells, changes=tuple(changes), questions=(found,))


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_what_broke_old_against_new(form: Format) -> None:
    """The question once, both answers, the lost chunk with its ranks and words, and the sentence that nothing bears."""
    text = re.sub(r"\s+", " ", render(_report("Theft is covered up to 500 EUR by all plans."), form))
    assert text.count("Theft is covered up to 500 EUR by all plans.") == 2  # the old answer, the lost chunk
    for piece in (
        "Questions that got worse",
        "lost in rerank, rank 1 → 9",
        "generation sound → broken; answer coverage 1 → 0",
        "ragtrace show b",
    ):
        assert piece.casefold() in text.casefold()
    assert len(re.findall(r"(?:weakly supported|not supported)\W+Never\.", re.sub("<[^>]+>", " ", text))) == 1


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_hostile_texts(form: Format) -> None:
    """No control of a terminal, no mark of direction, no element, no link and no cell of their own."""
    text = render(_report(EVIL, EVIL + " indeed", EVIL), form)
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text) is None
    if form == "html":
        assert "<script" not in text
        assert text.count("<article") == text.count("</article>") == 1
    if form == "markdown":
        assert re.search(r"(?<!\\)<|(?<!\\)\]\(|@everyone", text) is None
        (row,) = [line for line in text.splitlines() if line.startswith("| ") and "indeed" in line]
        assert len(re.findall(r"(?<!\\)\|", row)) == 3
        assert not [line for line in text.splitlines() if line.startswith("# head")]


def test_a_terminal_of_80_columns() -> None:
    """No line is wider, whatever the texts are."""
    found = _report("word " * 300, "x" * 500, "y" * 500)
    assert max(map(len, render(found, "text", width=80).splitlines())) <= 80


def test_the_first_of_every_cell_before_the_second_of_any() -> None:
    """And each question once, at the first stage that names it."""

    def pairs(*names: str) -> tuple[ChangedPair, ...]:
        return tuple(ChangedPair(baseline="a", candidate=name, before=1.0, after=0.0) for name in names)

    changes = (
        CellChanges(metric="answer_coverage", stage="generation", segment=None, pairs=pairs("p", "q")),
        CellChanges(metric="contradiction_rate", stage="generation", segment="s", pairs=pairs("r", "p")),
        CellChanges(metric="citation_coverage", stage="citation", segment=None, pairs=pairs("q", "t")),
    )
    questions = tuple(question_pair(None, judged(name)) for name in "pqrt")
    cells = [failed("answer_coverage"), failed("contradiction_rate", "s"), failed("citation_coverage")]
    found = stage_questions(report("block", cells, changes=changes, questions=questions))
    names = {stage: [each.pair.candidate.request_id for each in own] for stage, own in found.items()}
    assert names == {"generation": ["p", "r", "q"], "citation": ["t"]}
    assert list(found["generation"][0].metrics) == ["answer_coverage", "contradiction_rate"]


def test_texts_that_are_not_stored() -> None:
    """It is said so, and not that they are the same."""
    changes = (
        CellChanges(
            metric="answer_coverage",
            stage="generation",
            segment=None,
            pairs=(ChangedPair(baseline="", candidate="b", before=None, after=0.0),),
        ),
    )
    found = report("block", [failed()], changes=changes, questions=(question_pair(None, judged("b", None)),))
    for form in ("text", "markdown", "html"):
        text = render(found, form)
        assert "no text is stored" in text
        assert "before" not in text.partition("Is theft covered?")[2].partition("ragtrace show")[0]


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_slower_question_says_how_slow_and_shows_its_answer_once(form: Format) -> None:
    """Where the answer did not change, it is no pair of sides to compare."""
    pair = ChangedPair(baseline="a", candidate="b", before=0.169, after=0.236)
    change = CellChanges(metric="latency", stage=None, segment=None, pairs=(pair,))
    found = question_pair(judged("a", "Theft is covered."), judged("b", "Theft is covered."))
    slow = report("pass", [failed("latency", action="warn")], changes=(change,), questions=(found,))
    text = re.sub(r"\s+", " ", render(slow, form))
    assert "latency 0.169 s → 0.236 s" in text
    assert text.count("Theft is covered.") == 1
    assert "the same answer before and after" in text
