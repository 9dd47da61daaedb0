"""Facets read from a question when the host names none: dates, places, versions, quantities and names."""

from __future__ import annotations

import re
from typing import Final

from ragtrace.coverage.facets.places import places_in
from ragtrace.coverage.text import is_english
from ragtrace.coverage.values import Value, values
from ragtrace.types import Facet, FacetKind

__all__ = ["extract_facets"]

_NAME: Final = re.compile(r"(?<![\w.?!])(?!^)[A-Z][\w&-]*(?:\s+(?:of\s+|the\s+)?[A-Z][\w&-]*)*")
_NO_NAME: Final = frozenset("I I'm I've OK PM AM Q1 Q2 Q3 Q4".split())


def extract_facets(question: str) -> tuple[Facet, ...]:
    """Facets of `question` in order of appearance, with `source="query"` and their spans; overlaps are given once."""
    found = [_of_value(value, question) for value in values(question) if value.kind != "number"]
    found += [_facet("jurisdiction", question, start, end) for start, end, _ in places_in(question)]
    for match in _NAME.finditer(question) if is_english(question) else ():  # German writes every noun with a capital
        if match.group() not in _NO_NAME and not any(_overlaps(facet, match.start(), match.end()) for facet in found):
            found.append(_facet("entity", question, match.start(), match.end()))
    return tuple(sorted(found, key=lambda facet: facet.start or 0))


def _of_value(value: Value, question: str) -> Facet:
    kinds: dict[str, FacetKind] = {"date": "time", "quantity": "quantity", "version": "version"}
    return _facet(kinds[value.kind], question, value.start, value.end)


def _facet(kind: FacetKind, question: str, start: int, end: int) -> Facet:
    return Facet(kind=kind, value=question[start:end], source="query", start=start, end=end)


def _overlaps(facet: Facet, start: int, end: int) -> bool:
    return (facet.start or 0) < end and start < (facet.end or 0)
