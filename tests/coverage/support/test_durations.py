"""How long it is from one date to another, how old somebody was, and the date that follows from another one."""

from __future__ import annotations

import pytest

from ragtrace.coverage.support.figures import Figures, Origin
from ragtrace.coverage.support.readings import Reading
from ragtrace.coverage.values import Value, values

MILL = (
    "The mill was founded in 1238 and pulled down in 1611. Its last miller, Ada Brook, was born in 1570. The fire of "
    "9 March 1580 led to the founding of the watch two years later."
)
LEASE = (
    "The lease began on 1 April 2024. Notice must be given four weeks ahead of its end. "
    "The bill of 3 May 2024 is due within 14 days."
)


def figures(evidence: str, question: str = "") -> Figures:
    """Those of some evidence."""
    return Figures([Reading(evidence)], question)


def origin(claim: str, evidence: str, question: str = "") -> Origin:
    """Of the first figure of a claim."""
    figure = next(value for value in values(claim) if not value.dates)
    return figures(evidence, question).origin(figure, claim, claim)


def date_in(claim: str) -> Value:
    """The first date of a claim."""
    return next(value for value in values(claim) if value.dates)


@pytest.mark.parametrize(
    ("claim", "question"),
    [
        ("For 373 years, from 1238 to 1611.", "How long did the mill stand?"),
        ("It stood 373 years.", "How long did the mill stand before it was pulled down?"),
        ("She was 41 when the mill was pulled down.", "How old was Ada Brook, the last miller, then?"),
        ("40 or 41 years old.", "How old was Ada Brook, the last miller, when the mill was pulled down?"),
        (
            "In 1582 the founding of the watch followed, two years after the fire of 1580.",
            "When was the watch founded?",
        ),
        ("In 1582.", "When was the watch founded that the fire led to?"),
    ],
)
def test_a_length_of_time_follows_from_two_years(claim: str, question: str) -> None:
    """That both are named is not needed where the claim or the question asks how long it was."""
    assert origin(claim, MILL, question) == "computed"


@pytest.mark.parametrize(
    ("claim", "question"),
    [
        ("For 383 years, from 1238 to 1611.", "How long did the mill stand?"),
        ("She was 51 when the mill was pulled down.", "How old was Ada Brook, the last miller, then?"),
        (
            "In 1592 the founding of the watch followed, two years after the fire of 1580.",
            "When was the watch founded?",
        ),
        ("It had 373 years.", ""),
    ],
)
def test_another_length_does_not_follow(claim: str, question: str) -> None:
    """Nor does a right one of which nobody asks."""
    assert origin(claim, MILL, question) == "unknown"


@pytest.mark.parametrize(
    ("claim", "follows"),
    [
        ("It has to be paid by 17 May 2024.", True),
        ("It has to be paid by 27 May 2024.", False),
        ("For 1 June 2024 give notice by 4 May 2024.", True),
    ],
)
def test_a_date_follows_from_another_and_a_length_of_time(claim: str, follows: bool) -> None:
    """Of the evidence, or of the claim; give or take the day that counts or does not."""
    asked = "When is the bill due, and when must notice be given?"
    wanted = [value for value in values(claim) if value.dates][-1]
    assert figures(LEASE, asked).gives_date(wanted, claim, claim) is follows


def test_working_days_give_no_date() -> None:
    """How many days those are is not known."""
    evidence = LEASE.replace("14 days", "14 working days")
    claim = "It has to be paid by 17 May 2024."
    assert not figures(evidence, "When is the bill due?").gives_date(date_in(claim), claim, claim)
    assert figures(LEASE, "When is the bill due?").gives_date(date_in(claim), claim, claim)


def test_the_first_and_last_days_of_the_calendar_are_no_fault() -> None:
    """What would lie before or after them follows from nothing."""
    claim = "It was 9999 years ago, on 1 January 2000."
    assert not figures("It was 9000 years before 5 May 1999.", "").gives_date(date_in(claim), claim, claim)
