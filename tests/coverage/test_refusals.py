"""Answers that decline, with what they say beside it, and answers that look alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ragtrace.coverage import abstains_somewhere, is_abstention, split_claims

ANSWERS: dict[str, dict[str, list[str]]] = yaml.safe_load(
    (Path(__file__).parent / "answers" / "declining.yaml").read_text(encoding="utf-8")
)


def written(kind: str) -> list[Any]:
    """The answers of one kind, those that the rules were made on and those set aside."""
    return [answer for part in ANSWERS.values() for answer in part[kind]]


@pytest.mark.parametrize("answer", written("declines"))
def test_a_refusal_may_say_why_and_where_else_to_ask(answer: str) -> None:
    """What the texts are about instead, what they leave out, and advice do not make an answer of a refusal."""
    assert is_abstention(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "The report doesn't name any customers. It only says how many there were.",
        "That isn't known. The report only says that the fee was not made public.",
        "Unfortunately, it is not stated. The clause refers to another annex.",
    ],
)
def test_a_report_that_does_not_name_it_is_silent(answer: str) -> None:
    """So that such an answer has nothing to cite."""
    assert abstains_somewhere(answer)


@pytest.mark.parametrize("answer", written("answers"))
def test_a_negative_fact_is_an_answer(answer: str) -> None:
    """That something is not covered, allowed or known is a statement."""
    assert not is_abstention(answer)


@pytest.mark.parametrize(
    ("answer", "factual"),
    [
        ("The passages do not give the fee. They concern another branch.", [False, False]),
        ("The fee is 30 euros, but the passages do not say when it is due.", [True]),
        ("The context does not mention a limit, but section 3 says that every loan ends after 28 days.", [True]),
        ("The passages describe cats, and I could not find anything on ferrets in them.", [False]),
        ("Loans end after 28 days. The passages do not say who decides on more.", [True, False]),
    ],
)
def test_what_stands_beside_a_refusal_is_a_claim_where_it_answers(answer: str, factual: list[bool]) -> None:
    """A clause that states something is judged; what explains a refusal is not."""
    assert [claim.factual for claim in split_claims(answer)] == factual


@pytest.mark.parametrize(
    ("answer", "is_hedged"),
    [
        ("The rules that I have deal with berths, keys and fuel; none of them mentions kites.", True),
        ("There are rules of three harbors. None of these says what a kite costs.", True),
        ("Berths, keys and fuel have their prices. I therefore can't give you one for kites.", True),
        ("There are four berths; none of them has electricity.", False),
        ("Three policies are sold, and none of them covers theft.", False),
    ],
)
def test_what_none_of_several_texts_says_is_silence(answer: str, is_hedged: bool) -> None:
    """What none of several things has or covers is a fact."""
    assert abstains_somewhere(answer) is is_hedged


def test_half_an_answer_is_hedged_and_no_abstention() -> None:
    """It says somewhere that the evidence is silent, and states something."""
    answer = "The plan includes 5 GB. The passages do not say what happens beyond that."
    assert abstains_somewhere(answer)
    assert not is_abstention(answer)
