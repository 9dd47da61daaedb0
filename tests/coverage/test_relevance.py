"""How far chunks speak of a question."""

from __future__ import annotations

import pytest

from ragtrace.coverage.relevance import Background, Rarity, question_match, spoken_of
from ragtrace.coverage.support import Evidence

HERE = "Building permits of Ostermead become invalid when construction has not started within two years."
THERE = "A deregistration may lapse; you can extend it once."


def matches(question: str, *texts: str) -> list[list[float]]:
    """The match of each part of a question with each chunk."""
    pool = [Evidence.read(str(at), text) for at, text in enumerate(texts)]
    rows: list[list[float]] = question_match(question, pool, Rarity(pool)).tolist()
    return rows


def test_each_part_of_a_question_is_looked_for_by_itself() -> None:
    """The best chunk of one part need not hold the other."""
    found = matches(
        "What is the annual building permit fee, and where is the municipal recycling centre open on Sundays?",
        "The annual building permit fee is EUR 40.",
        "The municipal recycling centre is open on Sundays.",
    )
    assert len(found) == 2
    assert found[0][0] > 0.9 > 0.1 > found[0][1]
    assert found[1][1] > 0.9 > 0.1 > found[1][0]


def test_a_part_of_a_word_or_two_is_looked_for_with_what_is_said_beside_it() -> None:
    """A chunk about anything that lapses and is extended does not answer for the permit."""
    question = "My Ostermead building permit was granted 20 months ago. When does it lapse and can I extend it?"
    (row,) = matches(question, HERE, THERE)
    assert row[0] > row[1]


@pytest.mark.parametrize("question", ["", "?", "the of and"])
def test_a_question_without_words_matches_nothing(question: str) -> None:
    """In any chunk."""
    assert matches(question, HERE, THERE) == [[0.0, 0.0]]


def test_the_words_must_stand_in_one_place_with_the_heading() -> None:
    """Its share is that of the best place; rare words weigh more."""
    chunk = Evidence.read(
        "a", "Ostermead\n\nPermits cost EUR 40. " + "Nothing else is said here. " * 8 + "Dogs are taxed."
    )
    rarity = Rarity([chunk], Background.of([HERE] * 20))
    both = spoken_of(frozenset({"permit", "dog"}), chunk, rarity)
    assert spoken_of(frozenset({"permit"}), chunk, rarity) == pytest.approx(1.0)
    assert 0.5 < both < 1.0, "the rarer one of two words that stand far apart"
    assert spoken_of(frozenset(), chunk, rarity) == 0.0
