"""All typed values of a text in order; what is part of a date or of a version is no number."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from ragtrace.coverage.values.dates import dates_of
from ragtrace.coverage.values.model import Value
from ragtrace.coverage.values.quantities import quantities_of
from ragtrace.coverage.values.versions import versions_in_values

__all__ = ["is_csv", "parse_quantity", "values"]

_LINES: Final = re.compile(r"(?m)^[^\n,]*(?:,\S[^\n,]*){2,}\n")  # with no space behind their commas
_QUOTED: Final = re.compile(r'"[^"\n]*"|,(?=\S)')
_GROUPED: Final = re.compile(r"(?<!\d)\d{1,3},\d{3}(?!\d)")


@lru_cache(maxsize=16384)
def values(text: str) -> tuple[Value, ...]:
    """All dates, quantities, versions and numbers of `text`, in order; what is part of a date is no number."""
    if is_csv(text):  # 310,295 are two figures there, and "1,577" is one
        text = _QUOTED.sub(lambda match: ";" if match[0] == "," else match[0], text)
    found = dates_of(text)
    for more in (versions_in_values(text), quantities_of(text)):
        found = _merged(found, more)
    return tuple(found)


@lru_cache(maxsize=1024)
def is_csv(text: str) -> bool:
    """Whether a text holds a table in which commas part the cells: a heading, and a line of as many cells below it."""
    for heading in _LINES.finditer(text) if "\n" in text and "," in text else ():
        below = text[heading.end() :].partition("\n")[0]
        commas = sum(match[0] == "," for match in _QUOTED.finditer(below))
        if not _GROUPED.search(heading[0]) and commas == heading[0].count(",") and ", " not in below:
            return True
    return False


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
