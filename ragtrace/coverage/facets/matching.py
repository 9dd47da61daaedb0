"""Does a candidate meet a facet? Typed and graded in [0, 1]: intervals, versions, quantities, places, names.

A field of the candidate's metadata that states the matter (`effective_from`, `jurisdiction`, `version`) is
authoritative: a text that merely mentions last year's edition does not make the chunk last year's. Without such a
field the text decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property, lru_cache
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

_STATED_VERSION: Final = re.compile(
    r"""(?:\b(?:versions?|editions?|releases?|revisions?|v\.?)\s*|(?<![\w.])(?=\d+\.\d))
        v?(\d+(?:\.\d+)*(?:[-+.]?(?:a|b|rc|dev|post)\d*)?)""",
    re.IGNORECASE | re.VERBOSE,
)


def facet_matrix(facets: Sequence[Facet], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """match(f, c) for every facet and candidate: shape (n_facets, n_candidates), in [0, 1].

    Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §3.
    """
    matrix = np.zeros((len(facets), len(candidates)))
    if not facets:
        return matrix
    for column, candidate in enumerate(candidates):
        given = _Given(candidate.metadata, candidate.text or "")
        for row, facet in enumerate(facets):
            matrix[row, column] = _MATCHERS[facet.kind](facet, given)
    return matrix


def facet_in_text(facet: Facet, text: str) -> bool:
    """Whether `text` (a query) states the facet, fully or for the greater part."""
    return _MATCHERS[facet.kind](facet, _Given({}, text)) >= 0.5


class _Given:
    """What one candidate states, each read on first use: by its metadata where they speak of it, else by its text."""

    def __init__(self, metadata: Mapping[str, Any], text: str) -> None:
        self._metadata = metadata
        self.text = text

    @cached_property
    def dates(self) -> Sequence[DateRange]:
        first, last = self._first_date(_FROM), self._first_date(_TO)
        if first or last:
            return (DateRange(first.first if first else date.min, last.last if last else date.max),)
        return [found for value in self._stated(_AT) for found in date_ranges(value)] or date_ranges(self.text)

    @cached_property
    def places(self) -> frozenset[str]:
        stated = {code for value in self._stated(_PLACE) if (code := place_code(value))}
        return frozenset(stated or {code for _, _, code in places_in(self.text)})

    @cached_property
    def versions(self) -> frozenset[Version]:
        stated = [version for value in self._stated(_VERSION) for version in _versions_of(value)]
        return frozenset(stated or _versions_in(self.text))

    @cached_property
    def phrases(self) -> frozenset[str]:
        return frozenset(_phrase(value) for value in self._stated(tuple(self._metadata)))

    @cached_property
    def padded(self) -> str:
        return f" {_phrase(self.text)} "

    def _first_date(self, names: Sequence[str]) -> DateRange | None:
        return next((dates for value in self._stated(names) for dates in date_ranges(value)), None)

    def _stated(self, names: Sequence[str]) -> Iterator[str]:
        for name in names:
            value = self._metadata.get(name)
            if isinstance(value, (list, tuple)):
                yield from (str(item) for item in value)
            elif value is not None:
                yield str(value)


def _time(facet: Facet, given: _Given) -> float:
    return best_overlap([dates for form in _forms(facet) for dates in date_ranges(form)], given.dates)


def _jurisdiction(facet: Facet, given: _Given) -> float:
    wanted = {code for form in _forms(facet) if (code := place_code(form))}
    if not wanted:
        return _entity(facet, given)
    if wanted & given.places:
        return 1.0
    return 0.5 if {code[:2] for code in wanted} & {code[:2] for code in given.places} else 0.0


def _version(facet: Facet, given: _Given) -> float:
    wanted = {version for form in _forms(facet) for version in _versions_of(form)}
    return float(bool(wanted & given.versions)) if wanted else _entity(facet, given)


def _quantity(facet: Facet, given: _Given) -> float:
    wanted = [value for form in _forms(facet) if (value := parse_quantity(form))]
    return float(any(same_value(one, other) for one in wanted for other in values(given.text)))


def _entity(facet: Facet, given: _Given) -> float:
    forms = [_phrase(form) for form in _forms(facet)]
    return float(any(form in given.phrases or f" {form} " in given.padded for form in forms if form))


@lru_cache(maxsize=16384)
def _versions_of(text: str) -> tuple[Version, ...]:
    found = []
    for match in _NUMERIC.finditer(text):
        try:
            found.append(Version(match.group()))
        except InvalidVersion:
            continue
    return tuple(found)


def _versions_in(text: str) -> list[Version]:
    """Versions that a text states: with a dot, or behind "version", "edition" or a v; "page 2" is none."""
    return [version for match in _STATED_VERSION.finditer(text) for version in _versions_of(match.group(1))]


@lru_cache(maxsize=16384)
def _phrase(text: str) -> str:
    return " ".join(stem(word) for word in words(text))


def _forms(facet: Facet) -> tuple[str, ...]:
    return (facet.value, *facet.aliases)


_MATCHERS: Final[dict[str, Callable[[Facet, _Given], float]]] = {
    "time": _time,
    "jurisdiction": _jurisdiction,
    "version": _version,
    "quantity": _quantity,
    "entity": _entity,
    "custom": _entity,
}
