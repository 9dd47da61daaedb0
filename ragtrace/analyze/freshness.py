"""How old the evidence is that a request found: the age of the best candidate of each source that states a date."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from math import isfinite
from typing import Any, Final
from urllib.parse import urlsplit

from ragtrace.coverage.values import date_ranges
from ragtrace.types import Candidate, RequestRecord

__all__ = ["DATES", "UNKNOWN", "candidate_ages"]

DATES: Final = (
    "updated_at", "last_updated", "updated", "last_modified", "last_modified_date", "modified_at", "modified",
    "published_at", "published", "published_date", "created_at", "creation_date", "date",
)  # fmt: skip
"""Keys of a candidate's metadata that state when its document changed; the first that can be read counts."""
UNKNOWN: Final = "unknown"
"""The source of candidates that name none."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = 86_400.0
_MONTH: Final = 31  # days; a date that is less precise says nothing of an age
_SCALES: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))  # numbers from there on are nano-, micro-, milliseconds


def candidate_ages(record: RequestRecord) -> Iterator[tuple[str, float]]:
    """Each source with the age in seconds, at the request's start, of its best-ranked candidate that states a date;
    nothing for a request that was kept for a flag alone.

    A date up to a day ahead is an age of 0 (zones, clocks); one further ahead says nothing of the past.
    """
    if not record.head_sampled:
        return
    seen: set[str] = set()
    for candidate in record.candidates:
        source = _source(candidate)
        if source in seen:
            continue
        changed = _changed(candidate)
        if changed is None:
            continue
        age = record.started_at / 1e9 - changed
        if age >= -_DAY:
            seen.add(source)
            yield source, max(0.0, age)


def _source(candidate: Candidate) -> str:
    """The source by name; a URL counts as its host, since each document has another."""
    name = (candidate.source or "").strip()
    if "://" in name:
        try:
            name = urlsplit(name).hostname or name
        except ValueError:
            return UNKNOWN
    return name or UNKNOWN


def _changed(candidate: Candidate) -> float | None:
    """When the candidate's document changed, in Unix seconds."""
    found = (_seconds(candidate.metadata.get(key)) for key in DATES)
    return next((each for each in found if each is not None), None)


def _seconds(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _of_number(float(value))
    return _of_text(value) if isinstance(value, str) else None


def _of_number(number: float) -> float | None:
    """Seconds, milliseconds, microseconds or nanoseconds since the epoch; not a year, nor a day of some calendar."""
    if not isfinite(number) or number < 1e8:
        return None
    return next((number / divisor for least, divisor in _SCALES if number >= least), number)


def _of_text(text: str) -> float | None:
    """A time in ISO 8601, in UTC where it names no zone; else the last day of the one date that the text states."""
    try:
        at = datetime.fromisoformat(text.strip()) if len(text) > len("2026-11-21") else None
    except ValueError:
        at = None
    if at is None:
        dates = date_ranges(text)
        if len(dates) != 1 or dates[0].days > _MONTH:
            return None
        at = datetime.combine(dates[0].last, time.min, UTC)
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) / timedelta(seconds=1)
