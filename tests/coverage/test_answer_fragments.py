"""Answers of a word or two, judged together with their question."""

from __future__ import annotations

import pytest

from ragtrace.coverage import judge_claims
from ragtrace.types import Claim, PackedChunk

POLICY = "The home policy covers the walls and the garage. The roof is not covered by the home policy."
LEAVE = "Unused leave of employees can be carried over into the next year."
HALDEN = "The bridge at Halden was opened in 2017. The tunnel was opened in 2019."
NORVIK = "The head office of Norvik is in Bergen. Its plant is in Oslo."
HALL = "The hall has 310 seats. The gallery has 45 seats."
ROOF, CARRIED = "Is the roof covered by the home policy?", "Can employees carry over unused leave into the next year?"
OPENED, OFFICE = "In which year was the bridge at Halden opened?", "In which city is the head office of Norvik?"


def judged(answer: str, question: str, *chunks: str) -> Claim:
    """The only claim of an answer."""
    packed = [PackedChunk(chunk_id=str(at), position=at, text=text) for at, text in enumerate(chunks, 1)]
    (claim,) = judge_claims(answer, packed, query=question)[0]
    return claim


@pytest.mark.parametrize(
    ("question", "evidence", "right", "wrong"),
    [
        (ROOF, POLICY, "No.", "Yes."),
        (CARRIED, LEAVE, "Yes", "No"),
        ("Can I return the shoes after 40 days?", "Shoes can be returned within 30 days.", "No.", "Yes."),
        ("Is it true that the museum opens at nine on Sundays?", "The museum opens at nine on Sundays.", "Correct.",
         "Wrong."),
        (OPENED, HALDEN, "2017", "2019"),
        (OFFICE, NORVIK, "Bergen.", "Oslo."),
        ("How many seats does the hall have?", HALL, "310 seats.", "45 seats."),
    ],
)  # fmt: skip
def test_a_fragment_says_what_the_question_makes_of_it(question: str, evidence: str, right: str, wrong: str) -> None:
    """Yes and no, and a value or name that stands elsewhere in the evidence."""
    assert judged(right, question, evidence).contradiction == 0.0
    claim = judged(wrong, question, evidence)
    assert (claim.contradiction or 0.0) >= 0.5
    assert claim.best_chunk == "1"
    assert claim.reason


@pytest.mark.parametrize(
    ("answer", "question", "evidence"),
    [
        ("No.", CARRIED, "Unused leave of employees can be carried over into the next year only with consent."),
        ("Yes.", "Is the roof or the garage covered by the home policy?", POLICY),
        ("Yes.", "Who covers the roof?", POLICY),
        ("No.", "Does the canteen serve soup?", POLICY),
    ],
)
def test_yes_and_no_claim_nothing_where_the_evidence_does_not_decide(answer: str, question: str, evidence: str) -> None:
    """It sets a condition, the question has alternatives or asks something else, or nothing speaks of it."""
    assert not judged(answer, question, evidence).factual


def test_a_value_that_two_sentences_give_together_is_in_its_place() -> None:
    """The second goes on with what the first names."""
    evidence = "The hall of Norvik was built in 1990 and has a stage. It has 310 seats."
    assert judged("310", "How many seats does the hall of Norvik have?", evidence).contradiction == 0.0
