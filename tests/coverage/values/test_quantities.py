"""Numbers and units as they are written, and their comparison after conversion."""

from __future__ import annotations

import pytest

from ragtrace.coverage.values import parse_quantity, same_value


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
    ],
)
def test_marks_are_read_as_they_are_meant(text: str, number: float, unit: str) -> None:
    """Thousands or decimals: by the number's own shape, else by money and language."""
    quantity = parse_quantity(text)
    assert quantity is not None
    assert (quantity.number, quantity.unit) == (number, unit)


@pytest.mark.parametrize("text", ["$300 next month", "$5 million a year", "EUR 20 per day"])
def test_an_amount_of_money_ends_before_another_unit(text: str) -> None:
    """ "Next month" is a time of its own."""
    found = parse_quantity(text)
    assert found is not None
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
    left, right = parse_quantity(one), parse_quantity(other)
    assert left is not None
    assert right is not None
    assert same_value(left, right) is same
