"""Typed values: dates as intervals, quantities after unit conversion, money, versions."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, strategies as st

from ragtrace.coverage.values import (
    DateRange,
    StatedValues,
    date_ranges,
    overlap,
    same_kind,
    same_value,
    says,
    values,
)
from tests.coverage.values.quantities import quantity_of


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2024", date(2024, 1, 1), date(2024, 12, 31)),
        ("on 2024-02-29", date(2024, 2, 29), date(2024, 2, 29)),
        ("2024-02", date(2024, 2, 1), date(2024, 2, 29)),
        ("1st March 2024", date(2024, 3, 1), date(2024, 3, 1)),
        ("March 3, 2024", date(2024, 3, 3), date(2024, 3, 3)),
        ("Dec 2023", date(2023, 12, 1), date(2023, 12, 31)),
        ("Q4 2023", date(2023, 10, 1), date(2023, 12, 31)),
        ("2022-2024", date(2022, 1, 1), date(2024, 12, 31)),
        ("2022 to 2024", date(2022, 1, 1), date(2024, 12, 31)),
    ],
)
def test_dates_are_intervals(text: str, first: date, last: date) -> None:
    """Each shape of a date stands for all the days it covers."""
    assert date_ranges(text) == (DateRange(first, last),)


@pytest.mark.parametrize("text", ["31 February 2024", "2024-13-01", "€2,024", "20245", "v2024"])
def test_what_is_no_date_is_none(text: str) -> None:
    """Impossible days and other numbers are not read as dates."""
    assert date_ranges(text) == ()


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("€1,000.50", 1000.5, "EUR"),
        ("EUR 5,000", 5000, "EUR"),
        ("3.5 million euros", 3.5e6, "EUR"),
        ("250 USD", 250, "USD"),
        ("30 consecutive days", 30, "day"),
        ("a 30-day limit", 30, "day"),
        ("six weeks", 6, "week"),
        ("eighty-four days", 84, "day"),
        ("a twenty-day limit", 20, "day"),
        ("15 %", 15, "%"),
        ("15 per cent", 15, "%"),
        ("80 km", 80, "km"),
    ],
)
def test_quantities_have_number_and_unit(text: str, number: float, unit: str) -> None:
    """Currency before or after, number words, scales and units of one or more words on."""
    quantity = quantity_of(text)
    assert (quantity.kind, quantity.number, quantity.unit) == ("quantity", number, unit)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("two weeks", "14 days", True),
        ("1 km", "1,000 m", True),
        ("30 days", "90 days", False),
        ("€30", "$30", False),
        ("30 %", "30 days", False),
        ("five", "5", True),
        ("375 degrees", "375 °F", True),
        ("30 °C", "30 °F", False),
    ],
)
def test_quantities_compare_after_conversion(one: str, other: str, same: bool) -> None:
    """Equal amounts are the same whatever the unit they are given in; currencies are never converted."""
    left, right = quantity_of(one), quantity_of(other)
    assert same_value(left, right) is same


@pytest.mark.parametrize(
    ("one", "other", "same"), [("v2.1", "v2.1", True), ("v2.1", "v2.10", False), ("v2.1", "2.1", True)]
)
def test_versions_compare_as_they_are_written(one: str, other: str, same: bool) -> None:
    """2.10 is another version than 2.1, though the same number."""
    (left,), (right,) = values(one), values(other)
    assert same_value(left, right) is same


def test_a_value_stands_in_the_place_of_its_own_kind_only() -> None:
    """Days can contradict weeks, not percent; a date can contradict a date only."""
    days, weeks, percent = values("30 days"), values("two weeks"), values("3 %")
    assert same_kind(days[0], weeks[0])
    assert not same_kind(days[0], percent[0])
    assert not same_kind(values("2024")[0], days[0])


@pytest.mark.parametrize(
    ("claimed", "given", "said"),
    [
        ("2011", "since 1990", False),
        ("before 2023", "2021", False),
        ("before 2023", "before 2023", True),
        ("before 2023", "since 2023", False),
        ("2023", "14 May 2023", True),
        ("from 1994 to 2009", "from 2005 to 2009", False),
        ("between 2005 and 2009", "2005-2009", True),
        ("the 1990s", "1994", True),
        ("31 August 2026", "2026/27", False),
        ("May 4, 2024", "May 2024", False),
        ("May 2024", "Q2 2024", False),
        ("July 21 of 1861", "July 21 , 1861", True),
        ("two weeks", "14 days", True),
    ],
)
def test_evidence_states_a_date_only_where_it_names_it(claimed: str, given: str, said: bool) -> None:
    """A bound holds every later date and states none of them; spans of years must agree at both ends."""
    assert says(values(claimed)[0], values(given)[0]) is said


def test_a_number_does_not_take_the_unit_of_the_next() -> None:
    """Eight to ten minutes are not eight minutes."""
    assert [(value.number, value.unit) for value in values("eight to ten minutes")] == [(8.0, ""), (10.0, "minute")]


def test_versions_are_no_decimal_numbers() -> None:
    """v1.10 and 1.10.2 are versions."""
    assert [value.raw for value in values("from v1.10 to 1.10.2")] == ["1.10", "1.10.2"]


@given(st.dates(), st.dates(), st.dates(), st.dates())
def test_overlap_is_a_symmetric_share(a: date, b: date, c: date, d: date) -> None:
    """In [0, 1], the same both ways, 1 for an interval inside another."""
    one, other = DateRange(min(a, b), max(a, b)), DateRange(min(c, d), max(c, d))
    assert 0 <= overlap(one, other) == overlap(other, one) <= 1
    assert overlap(one, one) == 1


@given(st.text(max_size=200))
def test_any_text_has_values_inside_it(text: str) -> None:
    """Never an error; spans lie in the text, in order."""
    found = values(text)
    assert all(0 <= value.start < value.end <= len(text) for value in found)


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("seven square metres of floor", 7, "sqm"),
        ("7 m² of floor", 7, "sqm"),
        ("three cubic metres of oak", 3, "cbm"),
        ("3 m³ of oak", 3, "cbm"),
    ],
)
def test_areas_and_volumes_are_no_lengths(text: str, number: float, unit: str) -> None:
    """In words and in signs."""
    (value,) = values(text)
    assert (value.number, value.unit) == (number, unit)


def test_a_count_does_not_take_the_currency_of_the_next_amount() -> None:
    """The euros are those of 45."""
    assert [(value.number, value.unit) for value in values("Three pallets mean EUR 45.")] == [(3, ""), (45, "EUR")]
    assert [(value.number, value.unit) for value in values("It costs 20 Swiss francs.")] == [(20, "CHF")]


SAID = """5 days | 120 hours | 5 | five days | EUR 5 | $5 | 5 m | 500 cm | 20 degrees | 20 °C | version 2.1 | 2023
    | version 2.1.0 | May 2023 | since 2019 | 3/4/2025 | 1.500 | EUR 1.500 | 1,500""".replace("\n    ", " ").split(
    " | "
)


@pytest.mark.parametrize("one", SAID)
def test_one_of_several_values_is_said_as_each_alone(one: str) -> None:
    """Of any kind: numbers of one unit, those that are converted, dates, versions."""
    (value,) = values(one)
    others = [other for text in SAID for other in values(text)]
    assert [StatedValues([other]).says(value) for other in others] == [says(value, other) for other in others]
    assert StatedValues(others).says(value)
    assert not StatedValues([other for other in others if not says(value, other)]).says(value)
