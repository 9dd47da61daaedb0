"""Chunks, read once: what is found sooner than by looking at each window is the same."""

from __future__ import annotations

import pytest

from ragtrace.coverage.support.readings import Evidence, Statement
from ragtrace.types import Claim

TEXTS = [
    "",
    "One sentence about a deductible of EUR 500.",
    "Claims are paid within 30 days. A deductible of EUR 500 applies from 2024. All is said.\nNo claim, no fee.",
    "| Item | Fee |\n|---|---|\n| claim | 20 |\n| notice | 1.5 million |",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_windows_share_with_some_words(text: str) -> None:
    """Of each sentence, and of every two that follow each other, with the heading; whatever was asked before."""
    reading = Evidence.read("c", text).reading
    for asked in (frozenset(("claim", "deduct", "fee", "elsewher")), frozenset(("claim", "limit"))):
        found = reading.shared(asked)
        assert found.windows == [asked & (reading.heading | window.words) for window in reading.windows]
        assert found.distinct == set(found.windows)
    assert list(reading.window_sizes) == [len(window.words) for window in reading.windows]


@pytest.mark.parametrize("text", TEXTS)
def test_the_values_of_windows(text: str) -> None:
    """Without building the windows of two sentences."""
    reading = Evidence.read("c", text).reading
    assert [reading.window_values(at) for at in range(len(reading.windows))] == [
        window.values for window in reading.windows
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_numbers_are_those_of_the_figures(text: str) -> None:
    """In the whole chunk and in each of its windows, wherever a table has them."""
    reading = Evidence.read("c", text).reading
    assert reading.numbers == tuple(figure.value for figure in reading.figures)
    for window in reading.windows:
        assert window.numbers == tuple(figure.value for figure in window.figures)


def test_values_are_asked_for_by_what_they_say() -> None:
    """As they are written, or in another unit; of dates the date that is named."""
    stated = Evidence.read("c", "It costs EUR 500, and takes 48 hours from May 2024.").reading.stated
    held = [
        stated.holds(value) for value in Evidence.read("q", "EUR 500, 2 days, May 2024, USD 500, 2023").reading.values
    ]
    assert held == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("claim", "names"),
    [
        ("The concierge works from 18:00, and not on Sundays.", []),
        ("We are open daily except Mondays.", []),
        ("The concierge works on Sundays.", ["Sundays"]),
        ("The tour does not start on a Sunday.", ["Sunday"]),
    ],
)
def test_a_day_that_is_left_out_is_no_name(claim: str, names: list[str]) -> None:
    """ "Monday to Saturday" says that Sundays are not among them without naming them."""
    assert [
        name.written
        for name in Statement.read(Claim(text=claim, start=0, end=len(claim))).names
        if name.written.endswith(("day", "days"))
    ] == names


def test_only_the_parts_of_a_compound_with_a_capital_are_names() -> None:
    """ "VAT-inclusive" names nothing that must stand in the evidence, and "Larch-Peak" does."""
    claim = "The fare is VAT-inclusive, and the Larch-Peak line is Oslo-based."
    read = Statement.read(Claim(text=claim, start=0, end=len(claim)))
    assert [name.stem for name in read.names] == ["larch", "peak", "oslo"]
