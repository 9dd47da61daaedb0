"""Do two values say the same, and could one stand in the other's place?"""

from __future__ import annotations

from datetime import date
from typing import Final

from ragtrace.coverage.values.dates import best_overlap, overlap
from ragtrace.coverage.values.model import DateRange, Value
from ragtrace.coverage.values.units import CODES, base

__all__ = ["same_kind", "same_value"]

_CALENDAR: Final = frozenset(("month", "year"))  # a month is 28 to 31 days
_SAME: Final = 0.5  # share of the shorter interval from which two dates are the same


def same_value(one: Value, other: Value) -> bool:
    """Whether two values say the same: dates by overlap of a half or more, quantities after unit conversion.

    A date lies within a bound ("2021", "before 2023"); bounds of different directions are never the same.
    """
    if one.dates and other.dates:
        return _same_dates(one, other)
    if one.dates or other.dates:
        return False
    if one.kind == "version" or other.kind == "version":
        return one.raw == other.raw
    if one.unit == other.unit or not one.unit or not other.unit:
        return _close(one.number, other.number, 1e-9)
    return _converts(one, other)


def same_kind(one: Value, other: Value) -> bool:
    """Whether two values could stand in each other's place: both dates, or the same (convertible) unit."""
    if one.dates or other.dates:
        return bool(one.dates and other.dates)
    if one.kind != other.kind:
        return False
    return one.unit == other.unit or (bool(one.unit and other.unit) and base(one.unit)[0] == base(other.unit)[0])


def _same_dates(one: Value, other: Value) -> bool:
    if one.bounds and other.bounds:
        if (one.bounds.first == date.min) != (other.bounds.first == date.min):
            return False
        return best_overlap(one.readings, other.readings) >= _SAME
    bounds, value = (one.bounds, other) if one.bounds else (other.bounds, one)
    if bounds:
        return any(_within(reading, bounds) for reading in value.readings)
    return best_overlap(one.readings, other.readings) >= _SAME


def _within(dates: DateRange, bounds: DateRange) -> bool:
    return overlap(bounds, dates) >= 1.0


def _close(one: float, other: float, share: float) -> bool:
    return abs(one - other) <= share * max(1e-9 if share > 1e-6 else 1.0, abs(one), abs(other))


def _converts(one: Value, other: Value) -> bool:
    if one.unit in CODES or other.unit in CODES:
        return False
    (dimension, scale, offset), (other_dimension, other_scale, other_offset) = base(one.unit), base(other.unit)
    if dimension != other_dimension:
        return False
    converted = (one.number * scale + offset - other_offset) / other_scale
    return _close(converted, other.number, 0.08 if _CALENDAR & {one.unit, other.unit} else 0.01)
