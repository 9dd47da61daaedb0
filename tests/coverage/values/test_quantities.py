"""Numbers and units as they are written, and their comparison after conversion."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragtrace.coverage.values import quantities, same_value, values
from tests.coverage.values.quantities import quantity_of


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("EUR 2.500", 2500.0, "EUR"),
        ("2.500 €", 2500.0, "EUR"),
        ("€2.500,50", 2500.5, "EUR"),
        ("2.5 km", 2.5, "km"),
        ("2.500 km", 2.5, "km"),
        ("Der Weg ist 2.500 km lang und nicht mehr", 2500.0, "km"),
        ("CHF 1’250.00", 1250.0, "CHF"),
        ("$5m", 5e6, "USD"),
        ("5 m", 5.0, "m"),
        ("90 km/h", 90.0, "km/h"),
        ("120 mg/dl", 120.0, "mg/dl"),
        ("30 mL/min", 30.0, "ml/min"),
        ("15 ppb", 15.0, "ppb"),
        ("60 calls a minute", 60.0, ""),
        ("24.88 p per kWh", 24.88, ""),
        ("5 pages per minute", 5.0, "page"),
        ("20 per cent of it", 20.0, "%"),
        ("900 m2 of floor", 900.0, "sqm"),
        ("900 sq m of floor", 900.0, "sqm"),
        ("40 sq ft", 40.0, "square foot"),
        ("30 m3 of gas", 30.0, "cbm"),
    ],
)
def test_marks_are_read_as_they_are_meant(text: str, number: float, unit: str) -> None:
    """Thousands or decimals: by the number's own shape, else by money and language."""
    quantity = quantity_of(text)
    assert (quantity.number, quantity.unit) == (number, unit)


@pytest.mark.parametrize("text", ["$300 next month", "$5 million a year", "EUR 20 per day"])
def test_an_amount_of_money_ends_before_another_unit(text: str) -> None:
    """ "Next month" is a time of its own."""
    found = quantity_of(text)
    assert text[found.start : found.end] in ("$300", "$5 million", "EUR 20")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1 GB", "1,000 MB", True),
        ("1 GiB", "1024 MiB", True),
        ("20 °C", "68 °F", True),
        ("20 °C", "20 °F", False),
        ("1 kWh", "3600 kJ", True),
        ("5 users", "5 employees", False),
        ("1 year", "12 months", True),
        ("one mile", "1.609 km", True),
        ("1 GPa", "1000 MPa", True),
        ("1 L/h", "1000 mL/h", True),
    ],
)
def test_units_convert(one: str, other: str, same: bool) -> None:
    """By pint: sizes, energies, lengths, temperatures with their offset; counted things are no units."""
    left, right = quantity_of(one), quantity_of(other)
    assert same_value(left, right) is same


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("$5.10–5.15 bn", [(5.1e9, "USD"), (5.15e9, "USD")]),
        ("€5-10 million", [(5e6, "EUR"), (1e7, "EUR")]),
        ("$900 - 1.2 million", [(900.0, "USD"), (1.2e6, "USD")]),
        ("3 to 4 thousand", [(3e3, ""), (4e3, "")]),
        ("won 3–1", [(3.0, ""), (1.0, "")]),
        ("5 kg to 10 lb", [(5.0, "kg"), (10.0, "lb")]),
    ],
)
def test_both_ends_of_a_range_have_its_currency_and_scale(text: str, ends: list[tuple[float, str]]) -> None:
    """Written once, at one end or the other, as long as the lower end stays below."""
    found = values(text)
    assert [value.number for value in found] == pytest.approx([number for number, _ in ends])
    assert [value.unit for value in found] == [unit for _, unit in ends]


def test_a_unit_has_one_name() -> None:
    """However it is abbreviated."""
    written = ("20 min", "20 mins", "20 minutes", "3 hrs", "3 hours", "2 yrs", "2 years")
    assert [values(each)[0].unit for each in written] == ["minute"] * 3 + ["hour"] * 2 + ["year"] * 2


PIECES = st.sampled_from(
    ["EUR ", "eur", "$", "€ ", "-", "−", " ", "\n", "\u00a0", "5", "1,000", "2.500", "two", "Twenty-one", "twofold",
     "stone", ".", ",", "a", "X", "é", "%", " million", " to ", "per cent", "days", "_", "٣"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=24).map("".join))
def test_numbers_are_found_where_a_search_of_the_whole_text_finds_them(text: str) -> None:
    """They are sought from right before each digit and each word for a number on, whatever stands there."""
    found = [match.span() for match in quantities._numbers_of(text)]
    assert found == [match.span() for match in quantities._NUMBER.finditer(text)]


@pytest.mark.parametrize(
    "text", ["From May 2023 to 3/4/2025, EUR 500 at 14:30", "a,b,2023\n1,5,2024\n2,6,2025\n", "FY24 and 30 days", ""]
)
def test_dates_are_those_among_all_values(text: str) -> None:
    """Found by themselves, in prose and in tables."""
    assert quantities.dates_in(text) == [value for value in values(text) if value.kind == "date"]
