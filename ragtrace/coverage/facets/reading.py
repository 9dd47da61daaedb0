"""What one candidate states, each matter read on first use and kept by text, since chunks recur between requests.

A field of the metadata that states the matter (`effective_from`, `jurisdiction`, `version`) is authoritative: a text
that merely mentions last year's edition does not make the chunk last year's. Without such a field the text decides.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from threading import Lock
from typing import Any, Final

from packaging.version import Version

from ragtrace.coverage.facets.naming import Naming, phrase
from ragtrace.coverage.facets.places import Place, places_in, places_of
from ragtrace.coverage.values import DateRange, Value, date_ranges, values
from ragtrace.coverage.values.versions import versions_of, versions_stated

__all__ = ["Given", "TextReading", "read_text"]

FROM: Final = ("effective_from", "valid_from", "effective_date", "start_date", "from_date")
TO: Final = ("effective_to", "valid_to", "valid_until", "end_date", "to_date", "expires")
AT: Final = ("date", "published", "published_at", "year", "fiscal_year", "period")
PLACE: Final = ("jurisdiction", "country", "region", "state", "territory", "city")
VERSION: Final = ("version", "edition", "revision", "release")
READ: Final = 200_000  # characters of one chunk that are read
_KEPT: Final = 16_000_000  # characters of the texts whose readings are kept


class TextReading:
    """What a text states by itself. `kept` is for what others conclude from it alone."""

    def __init__(self, text: str) -> None:
        self._text = text[:READ]
        self.kept: dict[Any, Any] = {}

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """All typed values."""
        return values(self._text)

    @cached_property
    def dates(self) -> tuple[Value, ...]:
        """The dates, each once."""
        distinct = {(value.dates, value.bounds): value for value in self.values if value.kind == "date"}
        return tuple(distinct.values())

    @cached_property
    def amounts(self) -> tuple[Value, ...]:
        """Quantities and numbers, each once."""
        found = (value for value in self.values if value.kind in ("quantity", "number"))
        return tuple({(value.number, value.unit): value for value in found}.values())

    @cached_property
    def places(self) -> frozenset[Place]:
        """The places that are named."""
        return frozenset(place for _, _, place in places_in(self._text))

    @cached_property
    def versions(self) -> tuple[frozenset[Version], frozenset[Version]]:
        """The versions that may be stated, and those that surely are."""
        return versions_stated(self._text)

    @cached_property
    def naming(self) -> Naming:
        """The words, ready to be searched for names."""
        return Naming(self._text)


class _Readings:
    """The latest readings, bounded by the length of their texts; safe for threads."""

    def __init__(self) -> None:
        self._readings: OrderedDict[str, TextReading] = OrderedDict()
        self._characters = 0
        self._lock = Lock()

    def __call__(self, text: str) -> TextReading:
        with self._lock:
            reading = self._readings.get(text)
            if reading is not None:
                self._readings.move_to_end(text)
                return reading
            reading = self._readings[text] = TextReading(text)
            self._characters += len(text)
            while self._characters > _KEPT and len(self._readings) > 1:
                self._characters -= len(self._readings.popitem(last=False)[0])
        return reading


read_text: Final = _Readings()


_NOTHING_STATED: Final = {"stated_dates": (), "stated_places": frozenset(), "stated_versions": frozenset(),
                          "phrases": frozenset()}  # fmt: skip


class Given:
    """What a candidate states: by its metadata where they speak of a matter, else by its text; None is unknown."""

    def __init__(self, metadata: Mapping[str, Any], text: str | None) -> None:
        self._metadata = metadata
        self.is_bare = not metadata
        if self.is_bare:
            self.__dict__.update(_NOTHING_STATED)
        self.text = None if text is None else read_text(text)

    @cached_property
    def stated_dates(self) -> tuple[DateRange, ...]:
        """The time that the metadata state."""
        first, last = self._first_date(FROM), self._first_date(TO)
        if first or last:
            return (DateRange(first.first if first else date.min, last.last if last else date.max),)
        return tuple(found for value in self._stated(AT) for found in date_ranges(value))

    @cached_property
    def stated_places(self) -> frozenset[Place]:
        """The places that the metadata state."""
        return frozenset(place for value in self._stated(PLACE) for place in places_of(value))

    @cached_property
    def stated_versions(self) -> frozenset[Version]:
        """The versions that the metadata state."""
        return frozenset(version for value in self._stated(VERSION) for version in versions_of(value))

    @cached_property
    def phrases(self) -> frozenset[str]:
        """All values of the metadata, as phrases."""
        return frozenset(phrase(value) for value in self._stated(tuple(self._metadata)))

    def _first_date(self, names: Sequence[str]) -> DateRange | None:
        return next((dates for value in self._stated(names) for dates in date_ranges(value)), None)

    def _stated(self, names: Sequence[str]) -> Iterator[str]:
        for name in names:
            value = self._metadata.get(name)
            if isinstance(value, (list, tuple)):
                yield from (str(item)[:1000] for item in value)
            elif value is not None:
                yield str(value)[:1000]
