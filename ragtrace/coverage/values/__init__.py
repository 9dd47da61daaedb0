"""Typed values in a text: dates as intervals, quantities with units, money, plain numbers, versions.

A value knows its kind, so that "30 days" is compared with "90 days" and not with "30 %".
"""

from __future__ import annotations

from ragtrace.coverage.values.dates import date_ranges
from ragtrace.coverage.values.quantities import (
    NUMBER_WORDS,
    Figure,
    counted,
    figures_in,
    head_of,
    is_example,
    is_reference,
    values,
)
from ragtrace.coverage.values.value import (
    DateRange,
    StatedValues,
    Value,
    covers,
    overlap,
    same_kind,
    same_value,
    says,
)

__all__ = [
    "NUMBER_WORDS",
    "DateRange",
    "Figure",
    "StatedValues",
    "Value",
    "counted",
    "covers",
    "date_ranges",
    "figures_in",
    "head_of",
    "is_example",
    "is_reference",
    "overlap",
    "same_kind",
    "same_value",
    "says",
    "values",
]
