"""Reports from outside of a request, at any time and from any process: judgments of an answer and flags, and what
ingestion jobs say of the sources of documents.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import isfinite
from operator import index
from typing import Any, Final

from ragtrace.errors import ConfigurationError
from ragtrace.record._recorder import active, new_request_id
from ragtrace.record.coercion.values import label as label_of
from ragtrace.record.guard import guarded
from ragtrace.record.requests import read_flags
from ragtrace.safe_text import plain_label, without_login
from ragtrace.types import Feedback, SourceReport

__all__ = ["feedback", "flag", "read_report", "source_report"]

_LOG: Final = logging.getLogger("ragtrace")
THUMBS_DOWN: Final = "thumbs_down"
_TASK: Final = {True: ("task_success", 1.0), False: ("task_failure", 0.0)}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000_000
_AHEAD: Final = 300 * _SECOND  # clocks of two machines may differ by that
_LONGEST: Final = 200  # characters of a name
_MOST: Final = 2**63 - 1


def feedback(
    request_id: str,
    *,
    score: float | None = None,
    label: str | None = None,
    task_success: bool | None = None,
    source: str = "user",
    comment: str | None = None,
) -> None:
    """Attach a judgment to a request, at once or days later, from any process that writes to the same store.

    A score below 0 or the label `thumbs_down` flags the request with `thumbs_down`. `task_success` is a judgment of
    its own, `task_success` or `task_failure`, and the latter flags it with that. It is on disk when this returns. Each
    judgment counts as an outcome, good or bad, where it can be read; the same of one source counts once
    (docs/how-to/outcomes.md).

    Args:
        score: from -1 or 0 to 1.
        source: who judges: `user`, `verifier` (or a name that begins so), or a name of your own.
    """
    recorder = active()
    if recorder is None:
        _LOG.warning("feedback for %s is lost: call ragtrace.configure() first", request_id)
        return
    with guarded("feedback", recorder.guard):
        for item in _judgments(str(request_id), score, label, task_success, source, comment):
            if item.score is not None and not -1.0 <= item.score <= 1.0:
                recorder.guard.count("feedback", "score", f"a score of {item.score:g} is no outcome: give -1 to 1")
            recorder.sink.submit(item, durable=True)
            if (item.score or 0.0) < 0.0 or item.label == THUMBS_DOWN:
                recorder.flag(item.request_id, (THUMBS_DOWN,))
            elif item.label == _TASK[False][0]:
                recorder.flag(item.request_id, (item.label,))


def flag(request_id: str, name: str) -> None:
    """Keep a request whatever the sample rate, and say why: while it runs, or after its end.

    One that this process has not kept is still there for a while (`recent_seconds`, `recent_bytes`). A request that
    was kept here or elsewhere gets the flag in the store. Either is on disk when this returns.
    """
    recorder = active()
    if recorder is None:
        _LOG.warning("flag %s for %s is lost: call ragtrace.configure() first", name, request_id)
        return
    with guarded("flag", recorder.guard):
        recorder.flag(str(request_id), tuple(read_flags(name)))


def _judgments(
    request_id: str,
    score: float | None,
    label: str | None,
    task_success: bool | None,
    source: str,
    comment: str | None,
) -> Iterator[Feedback]:
    said: list[tuple[str | None, float | None]] = []
    if task_success is not None:
        said.append(_TASK[bool(task_success)])
    if score is not None or label is not None or not said:
        said.append((label, None if score is None else float(score)))
    for name, value in said:
        yield Feedback(
            request_id=request_id,
            score=value,
            label=None if name is None else label_of(name),
            source=label_of(source or "user"),
            comment=None if comment is None else label_of(comment),
            created_at=time.time_ns(),
        )


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
    with guarded("source_report", recorder.guard):
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
