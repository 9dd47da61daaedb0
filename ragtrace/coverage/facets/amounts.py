"""Quantities that are asked for: one amount, or a bound on it ("at least 5 GB", "under $500", "between 3 and 5 km")."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ragtrace.coverage.values.comparison import same_kind, same_value
from ragtrace.coverage.values.model import Value
from ragtrace.coverage.values.reading import values
from ragtrace.coverage.values.units import base

__all__ = ["AmountWanted", "amount_match", "amount_wanted", "amounts_in"]

_LOW: Final = re.compile(
    r"\b(?:at\s+least|more\s+than|over|above|minimum(?:\s+of)?|from|exceed(?:s|ing)?)\s*$|[>≥]\s*=?\s*$", re.IGNORECASE
)
_HIGH: Final = re.compile(
    r"\b(?:at\s+most|up\s+to|less\s+than|under|below|maximum(?:\s+of)?|within)\s*$|[<≤]\s*=?\s*$", re.IGNORECASE
)
_FROM: Final = re.compile(r"(?:\b(?:between|from)\s+)?(?<![\w.,-])\d[\d.,]*\s*(?:-|–|to|and)\s*$", re.IGNORECASE)
_OR_MORE: Final = re.compile(r"\s*(?:\+|(?:or|and)\s+(?:more|above|over))", re.IGNORECASE)
_OR_LESS: Final = re.compile(r"\s*(?:or|and)\s+(?:less|below|under|fewer)", re.IGNORECASE)
_LEAD: Final = 16


@dataclass(frozen=True, slots=True)
class AmountWanted:
    """An amount that is asked for; with `low` or `high` any amount between them, in the amount's own unit."""

    value: Value
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_bound(self) -> bool:
        """Whether a range is asked for."""
        return self.low > -math.inf or self.high < math.inf


def amounts_in(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of the quantities of `text`, each with the words that make it a bound."""
    for value in values(text):
        if value.kind == "quantity":
            lead = text[max(0, value.start - _LEAD) : value.start]
            bound = _FROM.search(lead) or _LOW.search(lead) or _HIGH.search(lead)
            rest = _OR_MORE.match(text, value.end) or _OR_LESS.match(text, value.end)
            yield value.start - len(lead) + bound.start() if bound else value.start, rest.end() if rest else value.end


@lru_cache(maxsize=4096)
def amount_wanted(text: str) -> AmountWanted | None:
    """What `text` asks for; None without a number."""
    found = [value for value in values(text) if value.kind in ("quantity", "number")]
    if not found:
        return None
    value = found[0]
    if len(found) > 1 and re.fullmatch(r"\s*(?:-|–|to|and)\s*", text[value.end : found[1].start]):
        last = found[1]
        if not value.unit or value.unit == last.unit:
            return AmountWanted(last, *sorted((value.number, last.number)))
    before, behind = text[max(0, value.start - _LEAD) : value.start], text[value.end :]
    if _LOW.search(before) or _OR_MORE.match(behind):
        return AmountWanted(value, low=value.number)
    if _HIGH.search(before) or _OR_LESS.match(behind):
        return AmountWanted(value, high=value.number)
    return AmountWanted(value)


def amount_match(wanted: AmountWanted, given: Value) -> float:
    """1 where the amount, converted, is the one asked for or within the bounds; else 0."""
    if not wanted.is_bound:
        return float(same_value(wanted.value, given))
    if not same_kind(wanted.value, given):
        return 0.0
    _, scale, offset = base(wanted.value.unit)
    _, given_scale, given_offset = base(given.unit)
    number = (given.number * given_scale + given_offset - offset) / scale
    slack = 1e-9 * max(1.0, abs(number))
    return float(wanted.low - slack <= number <= wanted.high + slack)
