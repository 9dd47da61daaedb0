"""Answer relevance: whether an answer speaks of what was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from ragtrace.coverage import answer_relevance, why_no_relevance
from ragtrace.coverage._query import expected_answer

FERRIES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "answers" / "ferries.yaml").read_text(encoding="utf-8")
)


def relevance(question: str, answer: str, **more: Any) -> float:
    """A relevance that is defined."""
    found = answer_relevance(question, answer, **more)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("question", "answer", "beside"),
    [
        ("How long is a reservation kept?", "Seven days.", "Reservations are made at the desk."),
        (
            "How long is a book reserved?",
            "A book is reserved for seven days.",
            "A book is reserved with a slip.",
        ),
        ("How many chairs does Hall 2 have?", "Hall 2 has forty chairs.", "The chairs of Hall 2 have arms."),
        ("May I bring a dog?", "Yes, guests may bring a dog.", "Guests who bring a dog have a leash."),
        ("When does the bakery open on Mondays?", "At 6:30.", "The bakery sells bread and cakes."),
        ("How much does a parking permit cost?", "A parking permit costs 90 crowns.", "Permits are blue."),
        (
            "What percentage of the rent is paid back?",
            "40 % of the rent.",
            "The rent is due on the first day.",
        ),
        ("How many chairs are there in Hall 2?", "There are 120 chairs in Hall 2.", "Hall 2 has large windows."),
        ("May I bring my own food?", "Yes, if it is cold.", "The kitchen cooks for 200 guests."),
        ("Why was the bridge closed?", "Because a pillar had sunk.", "A bus runs from the station."),
        (
            "What did the plant earn in 2022?",
            "It earned 3 million euros in 2022.",
            "It earned 4 million euros in 2019.",
        ),
    ],
)
def test_an_answer_of_the_kind_that_is_asked_for_is_more_relevant(question: str, answer: str, beside: str) -> None:
    """A time for a when, an amount for a how much, a yes or no, the year that was asked for."""
    assert relevance(question, answer) > relevance(question, beside)


def test_an_answer_in_the_words_of_the_question_is_more_relevant() -> None:
    """It names what was asked for."""
    question = "What is covered by the basic plan?"
    assert relevance(question, "The basic plan covers theft.") > relevance(question, "Invoices are sent by post.")


def test_rare_words_count_more() -> None:
    """A word that all texts have tells nothing; one that few have tells what is spoken of."""
    question, answer = "Which guests does the policy concern?", "The policy concerns them."
    plain = relevance(question, answer)
    assert relevance(question, answer, weight=lambda word: 9.0 if word.startswith("guest") else 1.0) < plain


def test_truth_is_another_matter() -> None:
    """An answer with a wrong amount speaks of what was asked as the right one does."""
    question = "How much does a parking permit cost?"
    assert relevance(question, "It costs 90 euros.") == relevance(question, "It costs 15 euros.")


def test_every_part_of_a_question_counts() -> None:
    """Who answers one of two parts is less relevant than who answers both."""
    question = "How long does the course take, and how much does it cost?"
    both = relevance(question, "The course takes three weeks and costs 400 euros.")
    assert both > relevance(question, "The course takes three weeks.")


def test_a_cosine_counts_beside_the_words() -> None:
    """The nearer the embeddings, the more relevant."""
    question, answer = "How do I get rid of ants?", "Put out bait where they walk."
    low, high = (relevance(question, answer, cosine=cosine) for cosine in (0.0, 0.8))
    assert low < 0.5 < high


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("How long?", "  ", "no_answer"),
        ("How long is it open?", "I'm sorry, the passages do not say. They are about another shop.", "abstained"),
        ("How long is it open?", "Das Geschäft ist an allen Tagen der Woche von acht bis zehn geöffnet.", "language"),
        ("How long is it open?", '{"hours": "8 to 10"}', "language"),
        ("Thanks, bye!", "You're welcome, have a nice day.", "no_question"),
        ("???", "It is open until ten.", "no_question"),
        ("How long is it open?", "Until ten.", None),
    ],
)
def test_relevance_is_undefined_where_words_tell_nothing(question: str, answer: str, reason: str | None) -> None:
    """The reason is given, and the score is None exactly then."""
    assert why_no_relevance(question, answer) == reason
    assert (answer_relevance(question, answer) is None) == (reason is not None)


@given(st.text(max_size=200), st.text(max_size=300))
def test_relevance_is_a_share(question: str, answer: str) -> None:
    """In [0, 1] or None, whatever is asked and answered."""
    found = answer_relevance(question, answer)
    assert found is None or 0.0 <= found <= 1.0


def test_answers_to_other_questions_are_told_from_right_ones() -> None:
    """In a domain that nothing was fitted on, a right answer is mostly more relevant than one to another question."""
    right = [relevance(each["question"], each["right"]) for each in FERRIES]
    other = [
        relevance(each["question"], FERRIES[(place + 7) % len(FERRIES)]["right"])
        for place, each in enumerate(FERRIES)
    ]  # fmt: skip
    pairs = [(one > another) + 0.5 * (one == another) for one in right for another in other]
    assert sum(pairs) / len(pairs) > 0.75


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How long before departure must I be there?", "duration"),
        ("How many days does it take?", "duration"),
        ("When does it end?", "time"),
        ("Which year was it built in?", "time"),
        ("What does it cost to park?", "money"),
        ("What percentage of the fee is paid back?", "share"),
        ("How many chairs are there?", "number"),
        ("Who signs the form?", "person"),
        ("Someone who is ill: what is covered?", None),
        ("Where is the key?", "place"),
        ("Why is it closed?", "reason"),
        ("How do I pay the fee?", "manner"),
        ("I live in Spain, can I apply?", "verdict"),
        ("Is there a lift?", "verdict"),
        ("What is covered?", None),
    ],
)
def test_the_kind_of_answer_is_read_from_the_question(question: str, kind: str | None) -> None:
    """By what it asks for, not by a "who" or "when" within a statement."""
    assert expected_answer(question) == kind
