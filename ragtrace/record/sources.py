"""What ingestion jobs say of the sources of documents."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from math import isfinite
from operator import index
from typing import Any, Final

from ragtrace.controls import plain_label
from ragtrace.errors import ConfigurationError
from ragtrace.privacy import without_login
from ragtrace.record.recorder import active
from ragtrace.record.sampling import new_request_id
from ragtrace.types import SourceReport

__all__ = ["read_report", "source_report"]

_LOG: Final = logging.getLogger("ragtrace")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000_000
_AHEAD: Final = 300 * _SECOND  # clocks of two machines may differ by that
_LONGEST: Final = 200  # characters of a name
_MOST: Final = 2**63 - 1


def source_report(
    source: str,
    *,
    documents: int | None = None,
    newest: datetime | float | None = None,
    delay_seconds: float | None = None,
    at: datetime | float | None = None,
    service: str | None = None,
) -> None:
    """Say what an ingestion job has done to one source of documents, after each of its runs, also after one that found
    nothing new. It is on disk when this returns. What cannot be used is counted and shown by `ragtrace doctor`.

    Args:
        source: what the job reads, one of a few: `wiki`, `tickets`.
        documents: how many documents of the source the index holds now.
        newest: when the newest of them changed, as a datetime with its zone or in Unix seconds.
        delay_seconds: from a change in the source until it could be found.
        at: when the job ended; by default now.
        service: who searches in the index; by default the service of `configure()`.
    """
    recorder = active()
    if recorder is None:
        _LOG.warning("the report on source %s is lost: call ragtrace.configure() first", source)
        return
    try:
        report = read_report(
            recorder.config.service if service is None else service,
            source,
            documents=documents,
            newest_at=_nanoseconds("newest", newest),
            delay_seconds=delay_seconds,
            reported_at=_nanoseconds("at", at),
            report_id=new_request_id(),
        )
        recorder.sink.submit(report, durable=True)
    except BaseException as error:
        recorder.guard.caught("source_report", error)


def read_report(
    service: str,
    source: str,
    *,
    documents: Any = None,
    newest_at: int | None = None,
    delay_seconds: Any = None,
    reported_at: int | None = None,
    report_id: str = "",
) -> SourceReport:
    """A report whose values can be used. Times are nanoseconds since the epoch; `reported_at` is now where it is None.

    Raises: ConfigurationError for a value that cannot.
    """
    now = time.time_ns()
    return SourceReport(
        service=_name("service", service),
        source=_name("source", source),
        reported_at=now if reported_at is None else _passed("at", reported_at, now),
        documents=None if documents is None else _count(documents),
        newest_at=None if newest_at is None else _passed("newest", newest_at, now),
        delay_seconds=None if delay_seconds is None else _delay(delay_seconds),
        report_id=report_id,
    )


def _name(field: str, given: Any) -> str:
    text = plain_label(without_login(given)).strip() if isinstance(given, str) else ""
    if not text or len(text) > _LONGEST:
        raise ConfigurationError.of(field, given, f"a name of 1 to {_LONGEST} characters")
    return text


def _count(given: Any) -> int:
    try:
        number = -1 if isinstance(given, bool) else index(given)
    except TypeError:
        number = -1
    if not 0 <= number <= _MOST:
        raise ConfigurationError.of("documents", given, "how many there are, 0 or more")
    return number


def _delay(given: Any) -> float:
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = -1.0
    if not (isfinite(seconds) and seconds >= 0.0):
        raise ConfigurationError.of("delay_seconds", given, "seconds, 0 or more")
    return seconds


def _passed(field: str, at: int, now: int) -> int:
    if not -_MOST <= at <= now + _AHEAD:
        raise ConfigurationError.of(field, _EPOCH + timedelta(microseconds=at // 1_000), "a time that has passed")
    return at


def _nanoseconds(field: str, given: Any) -> int | None:
    """A datetime with its zone, or Unix seconds."""
    if given is None:
        return None
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ConfigurationError.of(field, given, "a datetime with its zone (tzinfo=UTC)")
        return (given - _EPOCH) // timedelta(microseconds=1) * 1_000
    try:
        seconds = float("nan") if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        seconds = float("nan")
    if not abs(seconds) < _MOST / _SECOND:
        raise ConfigurationError.of(field, given, "a datetime with its zone, or Unix seconds")
    return round(seconds * _SECOND)
