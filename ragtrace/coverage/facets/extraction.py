"""Facets read from a question when the host names none: times, places, versions, quantities, names and codes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from ragtrace.coverage.facets.abbreviations import with_long_forms
from ragtrace.coverage.facets.amounts import amounts_in
from ragtrace.coverage.facets.entities import codes_in, names_in
from ragtrace.coverage.facets.places import is_adjective, places_in
from ragtrace.coverage.facets.times import relative_times
from ragtrace.coverage.values import DateRange, values
from ragtrace.coverage.values.versions import constraints_in
from ragtrace.types import Facet, FacetKind, replace

__all__ = ["extract_facets", "resolve_times"]

MOST: Final = 32  # facets of one question; a text with more is no question
READ: Final = 20_000  # characters of a question that are read
WEIGHTS: Final = {"relative time": 0.5, "quantity": 0.25}  # others weigh 1

_BEHIND_NAME: Final = re.compile(r"\s(\d+\.\d+(?:\.\d+)*)(?![\w%.]|\s?[%$€£])")
_ANY_DAY: Final = date(2000, 1, 1)
_NO_CLOCK: Final = "no clock"
Span = tuple[int, int]


def extract_facets(question: str, *, today: date | None = None) -> tuple[Facet, ...]:
    """Facets of `question` in order of appearance, with `source="query"`, span, weight and why each was read.

    today: the request's clock, without which "last year" is no facet. Each stretch of the question gives one facet
    at most.
    """
    text = question[:READ]
    found: list[Facet] = [] if today else _without_clock(text)
    for extractor in (_codes, _times, _versions, _places, _names, _quantities):
        for facet in extractor(text, today):
            if not any(_overlaps(facet, other) for other in found):
                found.append(facet)
    kept = [facet for facet in _distinct(found) if facet.why != _NO_CLOCK]
    ordered = sorted(kept, key=lambda facet: facet.start or 0)
    return tuple(with_long_forms(ordered, text)[:MOST])


def _without_clock(text: str) -> list[Facet]:
    """Relative times that cannot be resolved: kept from being read as amounts ("3 weeks ago")."""
    found = relative_times(text, _ANY_DAY)
    return [_facet("time", text, (each.start, each.end), _NO_CLOCK) for each in found]


def resolve_times(facets: Sequence[Facet], today: date | None) -> tuple[Facet, ...]:
    """`facets` with the days of relative times ("last year") as aliases: matching needs no clock then."""
    return tuple(_resolved(facet, today) if today and facet.kind == "time" else facet for facet in facets)


def _resolved(facet: Facet, today: date) -> Facet:
    found = relative_times(facet.value, today)
    return replace(facet, aliases=(*facet.aliases, *(_written(each.dates) for each in found))) if found else facet


def _written(dates: DateRange) -> str:
    return f"{dates.first.isoformat()}/{dates.last.isoformat()}"


def _codes(text: str, today: date | None) -> Iterator[Facet]:
    for start, end, why in codes_in(text):
        yield _facet("entity", text, (start, end), why)


def _times(text: str, today: date | None) -> Iterator[Facet]:
    for each in relative_times(text, today) if today else ():
        facet = _facet("time", text, (each.start, each.end), "relative time")
        yield replace(facet, aliases=(_written(each.dates),))
    for value in values(text):
        if value.kind == "date":
            yield _facet("time", text, (value.start, value.end), "time bound" if value.bounds else "date")


def _versions(text: str, today: date | None) -> Iterator[Facet]:
    for found in constraints_in(text):
        why = "version" if found.allowed is None else "version constraint"
        yield _facet("version", text, (found.start, found.end), why)
    for _, end, _ in names_in(text):
        match = _BEHIND_NAME.match(text, end)
        if match and not _unit_behind(text, match.end(1)):
            yield _facet("version", text, match.span(1), "number behind a name")


def _unit_behind(text: str, end: int) -> bool:
    return any(value.kind == "quantity" and value.start < end < value.end for value in values(text))


def _places(text: str, today: date | None) -> Iterator[Facet]:
    names = names_in(text)
    for start, end, _ in places_in(text):
        name = next((span for span in names if span[0] <= start and end <= span[1]), None)
        whole = name is None or not (text[name[0] : start].strip() or text[end : name[1]].strip())
        if whole or (name is not None and name[0] == start and is_adjective(text[start:end])):
            yield _facet("jurisdiction", text, (start, end), "place")


def _names(text: str, today: date | None) -> Iterator[Facet]:
    """Names, without a place or demonym that stands before them ("Irish Home Plus")."""
    places = {start: end for start, end, _ in places_in(text)}
    for start, end, why in names_in(text):
        behind = places.get(start)
        if behind is not None and behind < end and is_adjective(text[start:behind]):
            start = behind + len(text[behind:end]) - len(text[behind:end].lstrip())
        if start < end:
            yield _facet("entity", text, (start, end), why)


def _quantities(text: str, today: date | None) -> Iterator[Facet]:
    for span in amounts_in(text):
        yield _facet("quantity", text, span, "quantity")


def _facet(kind: FacetKind, text: str, span: Span, why: str) -> Facet:
    return Facet(kind=kind, value=text[slice(*span)], weight=WEIGHTS.get(why, 1.0), source="query",
                 start=span[0], end=span[1], why=why)  # fmt: skip


def _overlaps(one: Facet, other: Facet) -> bool:
    return (one.start or 0) < (other.end or 0) and (other.start or 0) < (one.end or 0)


def _distinct(facets: Sequence[Facet]) -> list[Facet]:
    """Of facets of one kind and value the first: what is asked twice weighs no more."""
    first: dict[tuple[str, str], Facet] = {}
    for facet in facets:
        first.setdefault((facet.kind, facet.value.casefold()), facet)
    return list(first.values())
