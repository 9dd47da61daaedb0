"""Dates as intervals: shapes, bounds, spans, fiscal years, other languages."""

from __future__ import annotations

from datetime import date

import pytest

from ragtrace.coverage.values import DateRange, date_ranges, same_value, values


def days(first: str, last: str) -> DateRange:
    """An interval from ISO dates."""
    return DateRange(date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("H1 2024", "2024-01-01", "2024-06-30"),
        ("the second half of 2024", "2024-07-01", "2024-12-31"),
        ("third quarter of 2023", "2023-07-01", "2023-09-30"),
        ("2024Q2", "2024-04-01", "2024-06-30"),
        ("Q3 FY24", "2024-07-01", "2024-09-30"),
        ("FY2018", "2018-01-01", "2018-12-31"),
        ("FY18", "2018-01-01", "2018-12-31"),
        ("fiscal year 2018", "2018-01-01", "2018-12-31"),
        ("2018/19", "2018-01-01", "2019-12-31"),
        ("1961–70", "1961-01-01", "1970-12-31"),
        ("2011-20", "2011-01-01", "2020-12-31"),
        ("1998–03", "1998-01-01", "2003-12-31"),
        ("the 1990s", "1990-01-01", "1999-12-31"),
        ("January to March 2022", "2022-01-01", "2022-03-31"),
        ("1-15 March 2024", "2024-03-01", "2024-03-15"),
        ("March 1-15, 2024", "2024-03-01", "2024-03-15"),
        ("from 1 March 2023 to 2 June 2024", "2023-03-01", "2024-06-02"),
        ("between 2019 and 2021", "2019-01-01", "2021-12-31"),
        ("2023-01-05/2023-02-01", "2023-01-05", "2023-02-01"),
        ("2024-03-04T10:00:00Z", "2024-03-04", "2024-03-04"),
        ("2H22", "2022-07-01", "2022-12-31"),
        ("1H 2023", "2023-01-01", "2023-06-30"),
        ("3Q23", "2023-07-01", "2023-09-30"),
        ("Q3'22", "2022-07-01", "2022-09-30"),
        ("academic year 2023-24", "2023-01-01", "2024-12-31"),
        ("2011-12", "2011-12-01", "2011-12-31"),
        ("three months ended June 30, 2023", "2023-04-01", "2023-06-30"),
        ("the quarter ending March 31, 2024", "2024-01-01", "2024-03-31"),
        ("the year ended December 31, 2022", "2022-01-01", "2022-12-31"),
        ("nine-month period ended September 28, 2024", "2023-12-29", "2024-09-28"),
    ],
)
def test_shapes_of_dates(text: str, first: str, last: str) -> None:
    """Halves, quarters, fiscal years, decades and spans of days, months and years."""
    assert date_ranges(text) == (days(first, last),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("before 2023", DateRange(date.min, date(2022, 12, 31))),
        ("prior to March 2024", DateRange(date.min, date(2024, 2, 29))),
        ("until the end of 2023", DateRange(date.min, date(2023, 12, 31))),
        ("2020 or earlier", DateRange(date.min, date(2020, 12, 31))),
        ("since May 2024", DateRange(date(2024, 5, 1), date.max)),
        ("after 2021", DateRange(date(2022, 1, 1), date.max)),
        ("2020 onwards", DateRange(date(2020, 1, 1), date.max)),
        ("pre-2023", DateRange(date.min, date(2022, 12, 31))),
    ],
)
def test_a_bound_is_not_the_bare_date(text: str, expected: DateRange) -> None:
    """The words around a date make it the end or the beginning of a time."""
    assert date_ranges(text) == (expected,)


@pytest.mark.parametrize(
    "lead",
    """before | before the start of | Prior to | earlier than | preceding the year | until | till | up to | through
    | by the end of | no later than | not later than | on or before | ending | after | later than | following | post
    | since | starting | starting in | starting on | starting from | beginning | beginning in | as from | effective
    | effective from | in force from | in force since | valid from | on or after | no earlier than | not sooner than
    | (since the beginning of | SINCE""".replace("\n    ", " ").split(" | "),
)
def test_every_word_that_bounds_a_date_is_seen(lead: str) -> None:
    """Whatever stands before it, in any case; what is sought first in the lead leaves none of them out."""
    (value,) = values(f"It is paid, {lead} 2023.")
    assert value.bounds is not None


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("Der Umsatz am 1. März 2024 und nicht mehr", "2024-03-01", "2024-03-01"),
        ("le chiffre d'affaires en mars 2023", "2023-03-01", "2023-03-31"),
        ("el 3 de marzo de 2024 con los precios", "2024-03-03", "2024-03-03"),
        ("выручка за 5 марта 2024", "2024-03-05", "2024-03-05"),
        ("德国2024年3月的税率", "2024-03-01", "2024-03-31"),
        ("2023年の日本", "2023-01-01", "2023-12-31"),
        ("서울의 2021년 3월 1일 임금", "2021-03-01", "2021-03-01"),
        ("ضريبة القيمة المضافة ٢٠٢٣", "2023-01-01", "2023-12-31"),
    ],
)
def test_dates_of_other_languages(text: str, first: str, last: str) -> None:
    """Months by their names in the text's language, years in any script's digits."""
    assert date_ranges(text) == (days(first, last),)


@pytest.mark.parametrize("text", ["CVE-2024-1234", "20245 parts", "between 31 and 32 things", "30 February 2024"])
def test_other_numbers_are_no_dates(text: str) -> None:
    """A number inside a code, an impossible day: nothing is invented."""
    assert date_ranges(text) == ()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("before 2023", "2021", True),
        ("before 2023", "2023", False),
        ("before 2023", "after 2023", False),
        ("by 31 March 2025", "by 15 March 2025", False),
        ("until 2023", "by 2023", True),
    ],
)
def test_bounds_compare_as_bounds(one: str, other: str, same: bool) -> None:
    """A date within a bound agrees with it, bounds of two directions never do."""
    assert same_value(values(one)[0], values(other)[0]) is same


def test_the_middle_of_a_month_is_that_month() -> None:
    """As its beginning and its end are; a hyphen otherwise begins no date."""
    assert [value.raw for value in values("from mid-May 1872 to early June 1873")] == ["May 1872", "June 1873"]
    assert not [value for value in values("order X-May 1872") if value.dates]
