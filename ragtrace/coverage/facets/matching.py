"""Does a candidate meet a facet? Typed and graded in [0, 1]: intervals, versions, quantities, places, names.

A field of the candidate's metadata that states the matter (`effective_from`, `jurisdiction`, `version`) is
authoritative: a text that merely mentions last year's edition does not make the chunk last year's. Without such a
field the text decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from packaging.version import InvalidVersion, Version

from ragtrace.coverage.facets.places import place_code, places_in
from ragtrace.coverage.text import stem, words
from ragtrace.coverage.values import DateRange, best_overlap, date_ranges, parse_quantity, same_value, values
from ragtrace.types import Candidate, Facet

__all__ = ["facet_in_text", "facet_matrix"]

_FROM: Final = ("effective_from", "valid_from", "effective_date", "start_date", "from_date")
_TO: Final = ("effective_to", "valid_to", "valid_until", "end_date", "to_date", "expires")
_AT: Final = ("date", "published", "published_at", "year", "fiscal_year", "period")
_PLACE: Final = ("jurisdiction", "country", "region", "state", "territory")
_VERSION: Final = ("version", "edition", "revision", "release")
_NUMERIC: Final = re.compile(r"\d+(?:\.\d+)*(?:[-+.]?(?:a|b|rc|dev|post)\d*)?")


def facet_matrix(facets: Sequence[Facet], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """match(f, c) for every facet and candidate: shape (n_facets, n_candidates), in [0, 1].

    Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §3.
    """
    matrix = np.zeros((len(facets), len(candidates)))
    for row, facet in enumerate(facets):
        match = _MATCHERS[facet.kind]
        for column, candidate in enumerate(candidates):
            matrix[row, column] = match(facet, candidate.metadata, candidate.text or "")
    return matrix


def facet_in_text(facet: Facet, text: str) -> bool:
    """Whether `text` (a query) states the facet, fully or for the greater part."""
    return _MATCHERS[facet.kind](facet, {}, text) >= 0.5


def _time(facet: Facet, metadata: Mapping[str, Any], text: str) -> float:
    wanted = [dates for form in _forms(facet) for dates in date_ranges(form)]
    stated = list(_stated_dates(metadata))
    return best_overlap(wanted, stated or date_ranges(text))


def _stated_dates(metadata: Mapping[str, Any]) -> Iterator[DateRange]:
    first = _first_date(metadata, _FROM)
    last = _first_date(metadata, _TO)
    if first or last:
        yield DateRange(first.first if first else date.min, last.last if last else date.max)
        return
    for name in _AT:
        yield from _dates_of(metadata.get(name))


def _first_date(metadata: Mapping[str, Any], names: Sequence[str]) -> DateRange | None:
    return next((dates for name in names for dates in _dates_of(metadata.get(name))), None)


def _dates_of(value: Any) -> list[DateRange]:
    return [] if value is None else date_ranges(str(value))


def _jurisdiction(facet: Facet, metadata: Mapping[str, Any], text: str) -> float:
    wanted = {code for form in _forms(facet) if (code := place_code(form))}
    if not wanted:
        return _entity(facet, metadata, text)
    stated = {code for value in _stated(metadata, _PLACE) if (code := place_code(value))}
    given = stated or {code for _, _, code in places_in(text)}
    if wanted & given:
        return 1.0
    return 0.5 if {code[:2] for code in wanted} & {code[:2] for code in given} else 0.0


def _version(facet: Facet, metadata: Mapping[str, Any], text: str) -> float:
    wanted = [version for form in _forms(facet) for version in _versions_of(form)]
    given = [version for value in _stated(metadata, _VERSION) for version in _versions_of(value)]
    if not wanted:
        return _entity(facet, metadata, text)
    return 1.0 if set(wanted) & set(given or _versions_of(text)) else 0.0


@lru_cache(maxsize=16384)
def _versions_of(text: str) -> tuple[Version, ...]:
    found = []
    for match in _NUMERIC.finditer(text):
        try:
            found.append(Version(match.group()))
        except InvalidVersion:
            continue
    return tuple(found)


def _quantity(facet: Facet, metadata: Mapping[str, Any], text: str) -> float:
    wanted = [value for form in _forms(facet) if (value := parse_quantity(form))]
    return float(any(same_value(one, other) for one in wanted for other in values(text)))


def _entity(facet: Facet, metadata: Mapping[str, Any], text: str) -> float:
    forms = [_phrase(form) for form in _forms(facet)]
    stated = {_phrase(value) for value in _all_values(metadata)}
    if any(form in stated for form in forms):
        return 1.0
    padded = f" {_phrase(text)} "
    return float(any(f" {form} " in padded for form in forms if form))


@lru_cache(maxsize=16384)
def _phrase(text: str) -> str:
    return " ".join(stem(word) for word in words(text))


def _forms(facet: Facet) -> tuple[str, ...]:
    return (facet.value, *facet.aliases)


def _stated(metadata: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        value = metadata.get(name)
        if isinstance(value, (list, tuple)):
            yield from (str(item) for item in value)
        elif value is not None:
            yield str(value)


def _all_values(metadata: Mapping[str, Any]) -> Iterator[str]:
    yield from _stated(metadata, tuple(metadata))


_MATCHERS: Final[dict[str, Callable[[Facet, Mapping[str, Any], str], float]]] = {
    "time": _time,
    "jurisdiction": _jurisdiction,
    "version": _version,
    "quantity": _quantity,
    "entity": _entity,
    "custom": _entity,
}
