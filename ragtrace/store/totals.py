"""Owns the totals: series that only grow, advanced in the transaction that writes what they count, under the names that
the budgets of labels leave, until somebody has them forgotten.

Histograms are kept the way Prometheus shows them, as cumulative buckets, a sum and a count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from ragtrace.store import audit, label_budget
from ragtrace.store.bulk import chunks
from ragtrace.store.database import insert
from ragtrace.store.rows import Delta, Exemplar, Labels, Total
from ragtrace.store.surrounding_tables import release, source, source_report
from ragtrace.store.tables import exposed, success, total
from ragtrace.store.text import clean

__all__ = [
    "FORGOTTEN",
    "Key",
    "add",
    "bound",
    "delete",
    "forget",
    "forget_service",
    "histogram_deltas",
    "keys",
    "totals",
]

FORGOTTEN: Final = "totals forget"
"""The action as which it is written down that somebody had the totals of a service forgotten."""

Key: TypeAlias = tuple[str, str]
"""The name of a series and its labels, as they are written."""

_KEY: Final = (total.c.name, total.c.labels)
_EXEMPLAR: Final = ("exemplar_trace_id", "exemplar_value", "exemplar_at")


def bound(value: float) -> str:
    """A bucket's bound as the label `le` writes it."""
    return "+Inf" if value == inf else repr(float(value))


def histogram_deltas(
    name: str,
    labels: Iterable[tuple[str, str]],
    value: float,
    buckets: Sequence[float],
    exemplar: Exemplar | None = None,
) -> tuple[Delta, ...]:
    """One observation of a histogram, as deltas of its series.

    Every bucket is named, those that the value is above with 0, so that all exist from the first observation on. The
    exemplar goes to the smallest bucket that holds the value.

    Args:
        buckets: increasing upper bounds, without +Inf.
    """
    fixed = tuple(labels)
    bounds = (*buckets, inf)
    first = next(index for index, upper in enumerate(bounds) if value <= upper)
    series = [
        Delta(
            f"{name}_bucket",
            (*fixed, ("le", bound(upper))),
            1.0 if index >= first else 0.0,
            exemplar if index == first else None,
        )
        for index, upper in enumerate(bounds)
    ]
    return (*series, Delta(f"{name}_sum", fixed, value), Delta(f"{name}_count", fixed, 1.0))


def add(connection: sa.Connection, deltas: Iterable[Delta]) -> None:
    """Advance the totals by `deltas`, once in a transaction. Rows are taken in one order, so that two writers never
    wait for each other."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    written: dict[Labels, str] = {}  # most deltas of a batch have the same labels
    now = time.time()
    for delta in label_budget.named(connection, tuple(deltas)):
        labels = written.get(delta.labels) or written.setdefault(delta.labels, _written(delta.labels))
        key = (delta.name, labels)
        new = {"name": key[0], "labels": key[1], "value": 0.0, "first_at": now, **dict.fromkeys(_EXEMPLAR)}
        row = sums.setdefault(key, new)
        row["value"] += delta.value
        if delta.exemplar is not None:
            shown = (delta.exemplar.trace_id, delta.exemplar.value, delta.exemplar.at)
            row.update(zip(_EXEMPLAR, shown, strict=True))
    if sums:
        connection.execute(_upsert(connection), [sums[key] for key in sorted(sums)])


def _upsert(connection: sa.Connection) -> sa.Insert:
    statement = insert(connection, total)
    new = statement.excluded
    latest = {name: sa.case((new.exemplar_trace_id.is_not(None), new[name]), else_=total.c[name]) for name in _EXEMPLAR}
    return statement.on_conflict_do_update(
        index_elements=["name", "labels"], set_={"value": total.c.value + new.value, **latest}
    )


def totals(connection: sa.Connection) -> list[Total]:
    """Every series in the order of its first appearance (then by name and labels), so that the order never changes:
    what an exporter cuts off at a limit stays cut off."""
    rows = connection.execute(sa.select(total).order_by(total.c.first_at, total.c.name, total.c.labels))
    return [
        Total(
            row.name,
            _read(row.labels),
            row.value,
            None
            if row.exemplar_trace_id is None
            else Exemplar(row.exemplar_trace_id, row.exemplar_value, row.exemplar_at),
        )
        for row in rows
    ]


def forget(connection: sa.Connection, service: str, segment: str | None) -> int:
    """Delete the series of a service, or of one segment of it; returns how many. They are locked as writers do."""
    return delete(connection, keys(connection, *_of(service, segment), lock=True))


def keys(connection: sa.Connection, *chosen: sa.ColumnElement[bool], lock: bool) -> list[Key]:
    """The series that these conditions choose, in the order in which writers lock them; lock: locked."""
    query = sa.select(*_KEY).where(*chosen)
    python = connection.dialect.name == "sqlite"  # writers sort as Python does
    ordered = query.order_by(*[column if python else column.collate("C") for column in _KEY])
    return [(row.name, row.labels) for row in connection.execute(ordered.with_for_update() if lock else ordered)]


def delete(connection: sa.Connection, series: Sequence[Key]) -> int:
    """Delete these series, which are locked; returns how many."""
    for some in chunks(series):
        connection.execute(sa.delete(total).where(sa.tuple_(*_KEY).in_(some)))
    return len(series)


def forget_service(connection: sa.Connection, service: str, segment: str | None, now_ns: int) -> dict[str, int]:
    """Delete all that is exported under a service's name, or the series of one segment, and give their places back.

    Requests, their analyses and what was counted of them stay: nothing of them counts again. Returns how many rows of
    each table; it is written down in the audit unless there were none. Releases and reports of sources go first, as
    writers hold these before they take a place.
    """
    gone: dict[str, int] = {}
    if segment is None:
        for table in (release, source_report, source):
            gone[table.name] = connection.execute(sa.delete(table).where(table.c.service == clean(service))).rowcount
    gone[exposed.name] = label_budget.forget(connection, service, segment)
    gone[total.name] = forget(connection, service, segment)
    if segment is None:
        gone[success.name] = connection.execute(sa.delete(success).where(success.c.service == clean(service))).rowcount
    audit.Entry(FORGOTTEN, {"service": service, "segment": segment}, now_ns).save(connection, gone)
    return {name: rows for name, rows in gone.items() if rows}


def _of(service: str, segment: str | None) -> list[sa.ColumnElement[bool]]:
    """The series with these labels: a quotation mark inside of a value is written with a backslash before it."""
    wanted = {"service": service} if segment is None else {"service": service, "segment": segment}
    pairs = (json.dumps([label, value], separators=(",", ":")) for label, value in wanted.items())
    return [total.c.labels.contains(pair, autoescape=True) for pair in pairs]


def _written(labels: Labels) -> str:
    return json.dumps(sorted(labels), ensure_ascii=True, separators=(",", ":"))


def _read(labels: str) -> Labels:
    return tuple((name, value) for name, value in json.loads(labels))
