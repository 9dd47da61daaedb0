"""Do two values say the same, and could one stand in the other's place?"""

from __future__ import annotations

from datetime import date
from typing import Final

from ragtrace.coverage.values.model import DateRange, Value, overlap
from ragtrace.coverage.values.units import CODES, base

__all__ = ["covers", "same_kind", "same_value", "says"]

_CALENDAR: Final = frozenset(("month", "year"))  # a month is 28 to 31 days
_SAME: Final = 0.5  # share of the shorter interval from which two dates are the same
_SAME_SPAN: Final = 0.9  # share of the longer of two spans of years
_YEAR: Final = 366
_AS_EXACT: Final = 2.5  # times as long may the time be that states another: "in May" does not say May 4
_DEGREES: Final = frozenset(("degree", "°c", "°f", "celsius", "fahrenheit"))


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
    if one.unit == other.unit or not one.unit or not other.unit or _degrees(one, other):
        return _close(one.number, other.number, 1e-9)
    return _converts(one, other)


def says(value: Value, given: Value) -> bool:
    """Whether evidence that states `given` states `value`: as `same_value`, but a date is the date that is named, not
    every one within a bound, and as exact. That it holds since 1990 does not say 2011, nor does "in 2026" say May 4."""
    if value.dates and given.dates:
        return _names_date(value, given) and not is_coarse(given, value)
    return same_value(value, given)


def covers(given: Value, value: Value) -> bool:
    """Whether `given` is a longer time, such as a year, that holds the date `value`."""
    return is_coarse(given, value) and _names_date(value, given)


def is_coarse(given: Value, value: Value) -> bool:
    """Whether a date is much less exact than another."""
    return bool(value.dates and given.dates) and all(
        one.days > _AS_EXACT * other.days for one in given.readings for other in value.readings
    )


def _names_date(value: Value, given: Value) -> bool:
    opposed = value.bounds and given.bounds and (value.bounds.first == date.min) != (given.bounds.first == date.min)
    return not opposed and _alike_any(value, given)


def same_kind(one: Value, other: Value) -> bool:
    """Whether two values could stand in each other's place: both dates, or the same (convertible) unit."""
    if one.dates or other.dates:
        return bool(one.dates and other.dates)
    if one.kind != other.kind:
        return False
    if one.unit == other.unit or _degrees(one, other):
        return True
    return bool(one.unit and other.unit) and base(one.unit)[0] == base(other.unit)[0]


def _degrees(one: Value, other: Value) -> bool:
    """Whether one says degrees without a scale and the other says of which."""
    return {one.unit, other.unit} <= _DEGREES and "degree" in (one.unit, other.unit)


def _same_dates(one: Value, other: Value) -> bool:
    if one.bounds and other.bounds:
        if (one.bounds.first == date.min) != (other.bounds.first == date.min):
            return False
        return _alike_any(one, other)
    bounds, value = (one.bounds, other) if one.bounds else (other.bounds, one)
    if bounds:
        return any(_within(reading, bounds) for reading in value.readings)
    return _alike_any(one, other)


def _alike_any(one: Value, other: Value) -> bool:
    return any(_alike(own, given) for own in one.readings for given in other.readings)


def _alike(one: DateRange, other: DateRange) -> bool:
    """Whether two dates name the same time; two spans of years ("from 1994 to 2009") do so nearly to the day."""
    shared = overlap(one, other)
    if shared < _SAME or min(one.days, other.days) <= _YEAR:
        return shared >= _SAME
    return shared * min(one.days, other.days) >= _SAME_SPAN * max(one.days, other.days)


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
