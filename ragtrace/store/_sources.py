"""The sources of documents: the history of the reports on them, and what it says by now."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from ragtrace.store.database import bigint, clean, insert
from ragtrace.store.rows import SourceState
from ragtrace.store.tables import source, source_report
from ragtrace.types import SourceReport, content_hash

__all__ = ["HISTORY", "add", "counts_query", "find", "find_query", "forget"]

HISTORY: Final = 20
"""How many reports before the last one say what is usual."""

_FEWEST: Final = 3  # reports from which something is usual
_FLOOR: Final = 0.1  # a share of the usual number: less is never unusual, however alike the reports were
_DEVIATIONS: Final = 5.0
_NORMAL: Final = 1.4826  # from a median absolute deviation to a standard deviation of the normal distribution
_FIELDS: Final = ("documents", "newest_at", "delay_seconds")


def add(connection: sa.Connection, given: Sequence[SourceReport]) -> None:
    """Store reports, each once."""
    rows = {row["report_id"]: row for row in map(_row, given)}
    if not rows:
        return
    connection.execute(insert(connection, source_report).on_conflict_do_nothing(), [rows[key] for key in sorted(rows)])
    first: dict[tuple[str, str], int] = {}
    for row in rows.values():
        key = (row["service"], row["source"])
        first[key] = min(first.get(key, row["reported_at"]), row["reported_at"])
    connection.execute(
        insert(connection, source).on_conflict_do_nothing(),
        [dict(zip(source.c.keys(), (*key, first[key]), strict=True)) for key in sorted(first)],
    )


def _row(report: SourceReport) -> dict[str, Any]:
    return {
        "report_id": clean(report.report_id) or content_hash(msgspec.json.encode(report).decode()),
        "service": clean(report.service),
        "source": clean(report.source),
        "reported_at": bigint(report.reported_at),
        "documents": None if report.documents is None else bigint(report.documents),
        "newest_at": None if report.newest_at is None else bigint(report.newest_at),
        "delay_seconds": report.delay_seconds,
    }


def find(connection: sa.Connection, service: str | None) -> list[SourceState]:
    """What is reported of each source by now, in the order of their first reports."""
    query = find_query()
    if service is not None:
        query = query.where(source.c.service == clean(service))
    return [_state(connection, row) for row in connection.execute(query).mappings().all()]


def find_query() -> sa.Select[Any]:
    """The query behind `find`. The history's length costs nothing: each value is looked up in an index of its own."""
    columns = [source.c.service, source.c.source, *map(_last, ("reported_at", *_FIELDS))]
    return sa.select(*columns).order_by(source.c.first_reported_at, source.c.service, source.c.source)


def _last(name: str) -> sa.Label[Any]:
    """A field of the last report on a source that has it."""
    found = sa.select(source_report.c[name]).where(*_of(source.c.service, source.c.source))
    if name == "reported_at":
        return found.order_by(source_report.c.reported_at.desc()).limit(1).scalar_subquery().label(name)
    return _newest_first(found.where(source_report.c[name].is_not(None))).limit(1).scalar_subquery().label(name)


def _newest_first(query: sa.Select[Any]) -> sa.Select[Any]:
    return query.order_by(source_report.c.reported_at.desc(), source_report.c.report_id.desc())


def _of(service: Any, name: Any) -> tuple[sa.ColumnElement[bool], ...]:
    return source_report.c.service == service, source_report.c.source == name


def counts_query(service: str, name: str) -> sa.Select[Any]:
    """The documents of the last reports that count them, newest first."""
    query = sa.select(source_report.c.documents).where(*_of(service, name), source_report.c.documents.is_not(None))
    return _newest_first(query).limit(HISTORY + 1)


def _state(connection: sa.Connection, row: sa.RowMapping) -> SourceState:
    counts = list(connection.scalars(counts_query(row["service"], row["source"])))
    if len(counts) <= _FEWEST:
        return SourceState(**row)
    last, before = counts[0], counts[1:]
    return SourceState(**row, usual_documents=float(median(before)), is_unusual=_is_unusual(last, before))


def _is_unusual(last: int, before: Sequence[int]) -> bool:
    """Whether a count is far from those before it, by their median absolute deviation: one bad run among them does not
    make the next bad run usual, as it would by mean and standard deviation."""
    usual = median(before)
    spread = _NORMAL * median(abs(count - usual) for count in before)
    return abs(last - usual) > max(_DEVIATIONS * spread, _FLOOR * usual)


def forget(connection: sa.Connection, service: str, name: str) -> bool:
    """Delete all reports on a source. False when there are none."""
    connection.execute(sa.delete(source_report).where(*_of(clean(service), clean(name))))
    known = sa.delete(source).where(source.c.service == clean(service), source.c.source == clean(name))
    return connection.execute(known).rowcount > 0
