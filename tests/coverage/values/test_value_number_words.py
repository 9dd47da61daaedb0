"""Numbers in several words, fractions, dozens and halves of a unit are one value each."""

from __future__ import annotations

import pytest

from ragtrace.coverage.values import same_value, values


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("two hundred and fifty euros", 250, "EUR"),
        ("a hundred euros", 100, "EUR"),
        ("one hundred and eighty days", 180, "day"),
        ("a thousand two hundred euros", 1200, "EUR"),
        ("two thousand and twenty-four", 2024, ""),
        ("twelve hundred", 1200, ""),
        ("one and a half years", 1.5, "year"),
        ("2 and a half hours", 2.5, "hour"),
        ("two and a half million euros", 2_500_000, "EUR"),
        ("an hour and a half", 1.5, "hour"),
        ("a month and a half", 1.5, "month"),
        ("1½ hours", 1.5, "hour"),
        ("2 1/2 hours", 2.5, "hour"),
        ("¾ km", 0.75, "km"),
        ("half an hour", 0.5, "hour"),
        ("a quarter of an hour", 0.25, "hour"),
        ("three quarters of an hour", 0.75, "hour"),
        ("half a litre", 0.5, "l"),
        ("half a million euros", 500_000, "EUR"),
        ("two dozen", 24, ""),
        ("a fortnight", 2, "week"),
        ("24h", 24, "hour"),
        ("an hour and ten minutes", 1 + 10 / 60, "hour"),
        ("9 h 48 min", 9.8, "hour"),
        ("two years and six months", 2.5, "year"),
        ("5 euros and 20 cents", 5.2, "EUR"),
        ("six pounds forty", 6.4, "GBP"),
        ("7 euros 25", 7.25, "EUR"),
    ],
)
def test_one_value(text: str, number: float, unit: str) -> None:
    """With its unit, and with the words that it is written in."""
    (value,) = values(text)
    assert (value.unit, value.raw) == (unit, text)
    assert value.number == pytest.approx(number)


@pytest.mark.parametrize("text", ["half the price", "half a page", "the first half and a quarter", "hundreds of us"])
def test_what_counts_nothing(text: str) -> None:
    """A part of something without a unit is no number."""
    assert values(text) == ()


@pytest.mark.parametrize(
    ("text", "units"),
    [("2 hours and 5 euros", ["hour", "EUR"]), ("costs 5 euros 20 weeks", ["EUR", "week"]),
     ("between an hour and ninety minutes", ["minute"]),
     ("a year and three weeks", ["week"]), ("one hour, three days", ["hour", "day"])],
)  # fmt: skip
def test_amounts_beside_each_other_stay_two(text: str, units: list[str]) -> None:
    """The second must be a part of the first's unit, and no end of a range."""
    assert [value.unit for value in values(text)] == units


def test_the_same_in_digits() -> None:
    """As evidence has it."""
    for words, digits in (
        ("half an hour", "30 minutes"),
        ("a fortnight", "14 days"),
        ("an hour and a half", "90 minutes"),
        ("two hundred and fifty euros", "EUR 250"),
        ("one and a half years", "18 months"),
    ):
        (one,), (other,) = values(words), values(digits)
        assert same_value(one, other), words
