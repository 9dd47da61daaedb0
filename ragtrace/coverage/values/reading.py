"""All typed values of a text in order; what is part of a date or of a version is no number."""

from __future__ import annotations

from functools import lru_cache

from ragtrace.coverage.values.dates import dates_of
from ragtrace.coverage.values.model import Value
from ragtrace.coverage.values.quantities import quantities_of
from ragtrace.coverage.values.versions import versions_in_values

__all__ = ["parse_quantity", "values"]


@lru_cache(maxsize=16384)
def values(text: str) -> tuple[Value, ...]:
    """All dates, quantities, versions and numbers of `text`, in order; what is part of a date is no number."""
    found = dates_of(text)
    for more in (versions_in_values(text), quantities_of(text)):
        found = _merged(found, more)
    return tuple(found)


def parse_quantity(text: str) -> Value | None:
    """The first quantity or number of `text`; None when there is none."""
    return next((value for value in values(text) if value.kind in ("quantity", "number")), None)


def _merged(taken: list[Value], more: list[Value]) -> list[Value]:
    """Both in order of their start, of `more` only what overlaps nothing of `taken`."""
    merged: list[Value] = []
    index = 0
    for value in more:
        while index < len(taken) and taken[index].end <= value.start:
            merged.append(taken[index])
            index += 1
        if index == len(taken) or value.end <= taken[index].start:
            merged.append(value)
    return merged + taken[index:]
