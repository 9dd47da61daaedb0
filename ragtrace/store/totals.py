"""Totals: series that only grow, advanced in the transaction that writes what they count, under the names that the
budgets of labels leave, until somebody has them forgotten.

Histograms are kept the way Prometheus shows them, as cumulative buckets, a sum and a count.

What was counted is remembered, so that nothing counts twice: these rows outlive the requests that they are about. Each
has the day on which what it is about began. Days before some day may be forgotten: what began before it counts no more
then, whether it comes again or for the first time. That day is kept in a row without an id and a kind, the first one of
all. It is moved before anything is forgotten, and read after new rows are inserted: so whoever could insert a row
because it was forgotten sees the day."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from math import inf
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from ragtrace.registry.instruments import ANALYSIS_COST, ATTRIBUTION_BUDGET_EXHAUSTED
from ragtrace.store import series_budget
from ragtrace.store.database import Database, chunks, insert, insert_for, pages
from ragtrace.store.rows import ATTRIBUTION, Delta, Exemplar, Labels, Total
from ragtrace.store.tables import counted, spending, total

__all__ = [
    "Key",
    "add",
    "bound",
    "counted_before",
    "counted_pages",
    "day_of",
    "delete",
    "forget_before",
    "histogram_deltas",
    "keys",
    "spend",
    "spent",
    "totals",
    "uncounted",
]


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
    first = next(index for index, upper in enumerate((*buckets, inf)) if value <= upper)
    series = _bucket_deltas(name, fixed, tuple(buckets), first)
    if exemplar is not None:
        series = (*series[:first], replace(series[first], exemplar=exemplar), *series[first + 1 :])
    return (*series, Delta(f"{name}_sum", fixed, value), Delta(f"{name}_count", fixed, 1.0))


@lru_cache(maxsize=8192)  # of a service few observations differ in more than their value
def _bucket_deltas(name: str, labels: Labels, buckets: tuple[float, ...], first: int) -> tuple[Delta, ...]:
    """Of each bucket, +Inf included, 1 from the `first` on that holds an observation, without exemplars."""
    return tuple(
        Delta(f"{name}_bucket", (*labels, ("le", bound(upper))), 1.0 if index >= first else 0.0)
        for index, upper in enumerate((*buckets, inf))
    )


def add(connection: sa.Connection, deltas: Iterable[Delta]) -> None:
    """Advance the totals by `deltas`, once in a transaction. Rows are taken in one order, so that two writers never
    wait for each other."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    written: dict[Labels, str] = {}  # most deltas of a batch have the same labels
    now = time.time()
    for delta in series_budget.named(connection, tuple(deltas)):
        labels = written.get(delta.labels) or written.setdefault(delta.labels, _written(delta.labels))
        key = (delta.name, labels)
        if (row := sums.get(key)) is None:
            row = {"name": key[0], "labels": key[1], "value": 0.0, "first_at": now, **dict.fromkeys(_EXEMPLAR)}
            sums[key] = row
        row["value"] += delta.value
        if delta.exemplar is not None:
            shown = (delta.exemplar.trace_id, delta.exemplar.value, delta.exemplar.at)
            row.update(zip(_EXEMPLAR, shown, strict=True))
    if sums:
        connection.execute(_upsert(connection.dialect.name), [sums[key] for key in sorted(sums)])


@cache
def _upsert(dialect: str) -> sa.Insert:
    statement = insert_for(dialect, total)
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


def _written(labels: Labels) -> str:
    return json.dumps(sorted(labels), ensure_ascii=True, separators=(",", ":"))


def _read(labels: str) -> Labels:
    return tuple((name, value) for name, value in json.loads(labels))


_DAY: Final = 86_400
_DAY_NS: Final = _DAY * 1_000_000_000
_BEFORE: Final = {"request_id": "", "kind": ""}
_FIRST_DAY: Final = sa.select(counted.c.day).filter_by(**_BEFORE)
_PAGE: Final = 2_000


def uncounted(connection: sa.Connection, given: Iterable[tuple[str, str, int]]) -> set[tuple[str, str]]:
    """Those of these (id, kind) that were not counted before, each with its beginning in nanoseconds. From now on they
    are."""
    begun = {(identity, kind): at // _DAY_NS for identity, kind, at in given}
    rows = [{"request_id": key[0], "kind": key[1], "day": begun[key]} for key in sorted(begun)]
    if not rows:
        return set()
    new = {(row.request_id, row.kind) for row in connection.execute(_counting(connection.dialect.name), rows)}
    first = _first_day(connection) if new else 0
    return {key for key in new if begun[key] >= first}


@cache
def _counting(dialect: str) -> Any:
    statement = insert_for(dialect, counted).on_conflict_do_nothing()
    return statement.returning(counted.c.request_id, counted.c.kind)


def _first_day(connection: sa.Connection) -> int:
    """Before which nothing counts."""
    return connection.scalar(_FIRST_DAY) or 0


def day_of(moment: float) -> int:
    """The day of a moment in Unix seconds."""
    return int(moment // _DAY)


def counted_before(day: int) -> sa.Select[tuple[str, str]]:
    """What is forgotten before a day."""
    return sa.select(counted.c.request_id, counted.c.kind).where(counted.c.request_id != "", counted.c.day < day)


def forget_before(connection: sa.Connection, day: int) -> None:
    """Let nothing count any more that began before a day; a later one that was set stays."""
    statement = insert(connection, counted).values(**_BEFORE, day=day)
    later = statement.excluded.day > counted.c.day
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=list(counted.primary_key), set_={"day": statement.excluded.day}, where=later
        )
    )


def counted_pages(database: Database, day: int) -> Iterator[sa.Delete]:
    """What deletes the rows before a day, page by page of all rows, which are read by their key."""
    key = [counted.c.request_id, counted.c.kind]
    place = sa.tuple_(*key)
    for rows in pages(database.read, sa.select(*key, counted.c.day), key, _PAGE):
        if any(row.day < day for row in rows):
            first, last = (sa.tuple_(sa.literal(row.request_id), sa.literal(row.kind)) for row in (rows[0], rows[-1]))
            yield sa.delete(counted).where(place >= first, place <= last, counted.c.day < day)


def spend(connection: sa.Connection, spent: Mapping[str, float], budgets: Mapping[str, float], now: float) -> None:
    """Add seconds by resource to those of the day, and count a budget that they use up, once a day."""
    deltas: list[Delta] = []
    for resource, seconds in sorted(spent.items()):
        labels = (("resource", resource),)
        after = _grown(connection, resource, seconds, now)
        deltas.append(Delta(ANALYSIS_COST.name, (("job_kind", ATTRIBUTION), *labels), seconds))
        crossed = resource in budgets and after - seconds < budgets[resource] <= after
        deltas.append(Delta(ATTRIBUTION_BUDGET_EXHAUSTED.name, labels, float(crossed)))
    add(connection, deltas)


def _grown(connection: sa.Connection, resource: str, seconds: float, now: float) -> float:
    """The day's seconds with these."""
    statement = insert(connection, spending).values(day=_day(now), resource=resource, seconds=seconds)
    grown = statement.on_conflict_do_update(
        index_elements=list(spending.primary_key),
        set_={"seconds": spending.c.seconds + statement.excluded.seconds},
    )
    return float(connection.scalars(grown.returning(spending.c.seconds)).one())


def spent(connection: sa.Connection, now: float) -> dict[str, float]:
    """What was spent on the day of `now`, in seconds by resource."""
    rows = connection.execute(sa.select(spending.c.resource, spending.c.seconds).where(spending.c.day == _day(now)))
    return {row.resource: row.seconds for row in rows}


def _day(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).date().isoformat()
