"""Facets read from a question when the host names none: times, places, versions, quantities, names and codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Final, TypeAlias

from ragtrace.coverage.facets.abbreviations import with_long_forms
from ragtrace.coverage.facets.amounts import amounts_in
from ragtrace.coverage.facets.entities import codes_in, names_in
from ragtrace.coverage.facets.places import is_adjective, place_of, places_in
from ragtrace.coverage.facets.times import relative_times
from ragtrace.coverage.values import DateRange, values
from ragtrace.coverage.values.versions import constraint_of, constraints_in
from ragtrace.types import Facet, FacetKind, replace

__all__ = ["ReadEntities", "extract_facets", "resolve_times"]

ReadEntities: TypeAlias = Callable[[str], Iterable[tuple[int, int, str]]]
"""Takes a text, gives (start, end, label) of its entities, such as `ragtrace.engines.entities.EntityReader`."""

MOST: Final = 32  # facets of one question; a text with more is no question
READ: Final = 20_000  # characters of a question that are read
WEIGHTS: Final = {"relative time": 0.5, "quantity": 0.25}  # others weigh 1

_BEHIND_NAME: Final = re.compile(
    r"""\s(?:versions?\s+)?(?=(?:(?:from|before|prior\s+to|since|after|until|below|above|up\s+to|(?:older|newer|later)\s+than)\s+)?
        v?\d)""",
    re.IGNORECASE | re.VERBOSE,
)
_NO_VERSION: Final = re.compile(r"[\w%]|\.\d|\s?[%$€£]")
_REACH: Final = 60  # characters behind a name that are read for its version
_PLACES: Final = frozenset(("GPE", "LOC", "NORP"))
_NO_NAMES: Final = frozenset("DATE TIME PERCENT MONEY QUANTITY ORDINAL CARDINAL LANGUAGE".split())
_ARTICLE: Final = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)
_GOVERNED: Final = re.compile(
    r"""(?:(?P<own>Constitution|Parliament|(?:Supreme|High)\s+Court|Ministry|Laws?)
        |Government|Republic|State|Commonwealth|Kingdom|President|Prime\s+Minister)\s+of\s+(?:the\s+)?""",
    re.VERBOSE,
)
_REDACTED: Final = re.compile(r"\[[A-Z][A-Z0-9_-]*\]")  # what redaction put in the place of a text
_ANY_DAY: Final = date(2000, 1, 1)
_NO_CLOCK: Final = "no clock"
Span = tuple[int, int]


def extract_facets(
    question: str, *, today: date | None = None, entities: ReadEntities | None = None
) -> tuple[Facet, ...]:
    """Facets of `question` in order of appearance, with `source="query"`, span, weight and why each was read.

    today: the request's clock, without which "last year" is no facet. entities: a model that reads names; what it
    overlooks is still read by capitals. Each stretch of the question gives one facet at most.
    """
    text = _REDACTED.sub(lambda match: " " * len(match[0]), question[:READ])
    found: list[Facet] = [] if today else _without_clock(text)
    read = [
        _codes(text), _times(text, today), _versions(text), _places(text),
        _entities(text, entities) if entities else (), _names(text), _quantities(text),
    ]  # fmt: skip
    for facets in read:
        for facet in facets:
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


def _codes(text: str) -> Iterator[Facet]:
    for start, end, why in codes_in(text):
        yield _facet("entity", text, (start, end), why)


def _times(text: str, today: date | None) -> Iterator[Facet]:
    for each in relative_times(text, today) if today else ():
        facet = _facet("time", text, (each.start, each.end), "relative time")
        yield replace(facet, aliases=(_written(each.dates),))
    for value in values(text):
        if value.kind == "date":
            yield _facet("time", text, (value.start, value.end), "time bound" if value.bounds else "date")


def _versions(text: str) -> Iterator[Facet]:
    for found in constraints_in(text):
        why = "version" if found.allowed is None else "version constraint"
        yield _facet("version", text, (found.start, found.end), why)
    for _, end, _ in (*names_in(text), *codes_in(text)):
        if match := _BEHIND_NAME.match(text, end):
            yield from _version_behind(text, match.end())


def _version_behind(text: str, start: int) -> Iterator[Facet]:
    """A version directly behind a name: with a point, or as a bound ("Android 12+")."""
    found = constraint_of(text[start : start + _REACH])
    if found is None or found.start:
        return
    end = start + found.end
    plain = "." not in text[start:end] and not text[start:end].endswith("+")
    if not (plain or _NO_VERSION.match(text, end) or _unit_behind(text, end)):
        yield _facet("version", text, (start, end), "number behind a name" if found.exact else "version constraint")


def _unit_behind(text: str, end: int) -> bool:
    return any(value.kind == "quantity" and value.start < end < value.end for value in values(text))


def _places(text: str) -> Iterator[Facet]:
    names = names_in(text)
    for start, end, _ in places_in(text):
        name = next((span for span in names if span[0] <= start and end <= span[1]), None)
        if name is None or _stands_alone(text, name[:2], (start, end)):
            yield _facet("jurisdiction", text, (start, end), "place")


def _stands_alone(text: str, name: Span, place: Span) -> bool:
    """Whether a place is all of a name or says where the rest of it belongs ("Irish Home", "Constitution of Kenya")."""
    before, behind = text[name[0] : place[0]], text[place[1] : name[1]]
    if not before.strip():
        return not behind.strip() or is_adjective(text[slice(*place)])
    return not behind.strip() and bool(_GOVERNED.fullmatch(before))


def _entities(text: str, entities: ReadEntities) -> Iterator[Facet]:
    """What a model names, without an article; a place where the gazetteer knows it, no dates and amounts."""
    for start, end, label in entities(text):
        if label not in _NO_NAMES:
            article = _ARTICLE.match(text, start, end)
            start = article.end() if article else start
            kind: FacetKind = "jurisdiction" if label in _PLACES and place_of(text[start:end]) else "entity"
            yield _facet(kind, text, (start, end), f"named entity ({label})")


def _names(text: str) -> Iterator[Facet]:
    """Names, without a place or demonym that stands before them ("Irish Home Plus") or says of what they are."""
    places = {start: end for start, end, _ in places_in(text)}
    for start, end, why in names_in(text):
        behind = places.get(start)
        if behind is not None and behind < end and is_adjective(text[start:behind]):
            start = behind + len(text[behind:end]) - len(text[behind:end].lstrip())
        head = _GOVERNED.match(text, start, end)
        if head and places.get(head.end()) == end:
            end = head.end("own") if head.group("own") else start
        if start < end:
            yield _facet("entity", text, (start, end), why)


def _quantities(text: str) -> Iterator[Facet]:
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
