"""Typed values in a text: dates as intervals, quantities with units, money, plain numbers, versions.

A value knows its kind, so that "30 days" is compared with "90 days" and not with "30 %".
"""

from __future__ import annotations

from ragtrace.coverage.values.comparison import covers, same_kind, same_value, says
from ragtrace.coverage.values.dates import date_ranges
from ragtrace.coverage.values.model import DateRange, Value, overlap
from ragtrace.coverage.values.quantities import NUMBER_WORDS
from ragtrace.coverage.values.reading import parse_quantity, values
from ragtrace.coverage.values.references import head_of, is_reference
from ragtrace.coverage.values.tables import Figure, figures_in

__all__ = [
    "NUMBER_WORDS",
    "DateRange",
    "Figure",
    "Value",
    "covers",
    "date_ranges",
    "figures_in",
    "head_of",
    "is_reference",
    "overlap",
    "parse_quantity",
    "same_kind",
    "same_value",
    "says",
    "values",
]
