"""Retention: deletes old requests, by age and by what they are, in small batches beside writers that do not notice.

With a request goes everything that belongs to it but what was counted. A batch is a transaction of its own that waits
for nobody: requests that somebody works on at the moment are left for the next run. So it may be killed anywhere and
run again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import sqlalchemy as sa

from ragtrace.store import _search as search, _spans as spans, totals
from ragtrace.store._named_leases import UpkeepLease, pause
from ragtrace.store.database import Database, chunks, pages
from ragtrace.store.tables import (
    addendum,
    analysis,
    attribution_share,
    counted,
    diagnosis,
    drawn,
    feedback,
    index_probe,
    job,
    request,
    request_label,
    score,
    search_entry,
    source_report,
    trace,
    trait,
)

__all__ = ["KINDS", "Kept", "Pruned", "count_all", "delete_all", "dry_run", "prune"]


Kept: TypeAlias = Literal["all", "random", "flagged", "feedback", "broken", "replay", "waiting", "counted"]
KINDS: Final[Mapping[Kept, str]] = {
    "all": "every request",
    "random": "requests of the random sample",
    "flagged": "requests that carry a flag",
    "feedback": "requests that somebody judged or labeled",
    "broken": "requests in which a stage broke",
    "replay": "requests of replays, which the gate compares",
    "waiting": "feedback, addenda and spans whose request never came",
    "counted": "what was counted, so that nothing counts twice",
}

_OTHERS: Final[frozenset[Kept]] = frozenset(("waiting", "counted"))  # no requests
_BATCH: Final = 100
_SECOND: Final = 1_000_000_000
_Row: TypeAlias = sa.Row[Any]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted, or would be: rows by table. `busy`: old requests that somebody worked on; they are left."""

    rows: Mapping[str, int] = field(default_factory=dict)
    busy: int = 0


def _member(kind: Kept) -> sa.ColumnElement[bool]:
    said = (sa.exists().where(table.c.request_id == request.c.request_id) for table in (feedback, request_label))
    broken = sa.exists().where(diagnosis.c.request_id == request.c.request_id, diagnosis.c.stage.is_not(None))
    replayed = sa.exists().where(trait.c.request_id == request.c.request_id, trait.c.replay.is_not(None))
    members: dict[str, sa.ColumnElement[bool]] = {
        "all": sa.true(),
        "random": request.c.head_sampled.is_(True),
        "flagged": request.c.flags != "[]",
        "feedback": sa.or_(*said),
        "broken": broken,
        "replay": replayed,
    }
    return members[kind]


def _expired(keep: Mapping[Kept, float], now: float) -> list[sa.ColumnElement[bool]]:
    """What a request must be to be deleted: of a kind that is named, and too old for each such kind that it is of."""
    before = {kind: int((now - seconds) * _SECOND) for kind, seconds in keep.items() if kind not in _OTHERS}
    passed = [sa.or_(request.c.started_at < cut, sa.not_(_member(kind))) for kind, cut in before.items()]
    return [
        request.c.started_at < max(before.values()),
        sa.or_(*map(_member, before)),
        *passed,
    ]


def _pages(database: Database, keep: Mapping[Kept, float], now: float) -> Iterator[Sequence[_Row]]:
    """The requests to delete, oldest first; each page is read once, whatever becomes of it."""
    if not keep.keys() - _OTHERS:
        return
    columns = (request.c.request_id, request.c.started_at, request.c.tenant_id, request.c.trace_id)
    query = sa.select(*columns).where(*_expired(keep, now))
    yield from pages(database.read, query, [request.c.started_at, request.c.request_id], _BATCH)


def dry_run(database: Database, keep: Mapping[Kept, float], reports: int | None, now: float) -> Pruned:
    """What `prune` would delete now."""
    rows: Counter[str] = Counter()
    for page in _pages(database, keep, now):
        with database.read() as connection:
            rows.update(count_all(connection, [row.request_id for row in page]))
    for table, chosen in _others(keep, reports, now):
        with database.read() as connection:
            number = sa.select(sa.func.count()).select_from(chosen.subquery())
            rows[table.name] += connection.scalar(number) or 0
    if "counted" in keep:
        with database.read() as connection:
            forgotten = totals.counted_before(totals.day_of(now - keep["counted"])).subquery()
            rows[counted.name] += connection.scalar(sa.select(sa.func.count()).select_from(forgotten)) or 0
    return Pruned(rows)


def prune(
    database: Database,
    keep: Mapping[Kept, float],
    reports: int | None,
    now: float,
    on_batch: Callable[[Pruned], object] = lambda pruned: None,
) -> Pruned:
    """Delete what is older than `keep` says, in seconds by kind, and all but the newest `reports` of each source."""
    rows: Counter[str] = Counter()
    busy = 0
    with UpkeepLease(database, "ragtrace db prune") as upkeep:
        for page in _pages(database, keep, now):
            began = time.monotonic()
            with database.write() as connection:
                upkeep.hold(connection)
                free = _free(connection, page)
                rows.update(_deleted(connection, free))
            busy += len(page) - len(free)
            on_batch(Pruned(dict(rows), busy))
            pause(began)
        if rows[search_entry.name]:
            search.purge(database, upkeep.hold)
        for table, chosen in _others(keep, reports, now):
            number = _BATCH
            while number == _BATCH:
                began = time.monotonic()
                with database.write() as connection:
                    upkeep.hold(connection)
                    number = _delete(connection, table, chosen)
                rows[table.name] += number
                pause(began)
        if "counted" in keep:
            rows[counted.name] += _forget_counted(database, upkeep, totals.day_of(now - keep["counted"]))
    return Pruned(dict(rows), busy)


def _forget_counted(database: Database, upkeep: UpkeepLease, day: int) -> int:
    """Let nothing count any more that began before a day, and forget what was counted of it; returns how many rows."""
    with database.write() as connection:
        upkeep.hold(connection)
        totals.forget_before(connection, day)
    number = 0
    for delete in totals.counted_pages(database, day):
        began = time.monotonic()
        with database.write() as connection:
            upkeep.hold(connection)
            number += connection.execute(delete).rowcount
        pause(began)
    return number


def _free(connection: sa.Connection, page: Sequence[_Row]) -> list[_Row]:
    """Those of these requests that nobody has in hand, locked with their jobs. The requests come first: a writer locks
    one before it adds a job to it, so that none comes to be meanwhile. Neither lock is waited for."""
    old = sa.select(request.c.request_id).where(request.c.request_id.in_([row.request_id for row in page]))
    mine = set(connection.scalars(old.order_by(request.c.request_id).with_for_update(skip_locked=True)))
    jobs = sa.select(job.c.id, job.c.request_id, job.c.state).where(job.c.request_id.in_(mine))
    skipping = jobs.order_by(job.c.id).with_for_update(skip_locked=True)
    locked = {row.id for row in connection.execute(skipping) if row.state != "leased"}
    held = {row.request_id for row in connection.execute(jobs) if row.id not in locked}
    return [row for row in page if row.request_id in mine - held]


def _deleted(connection: sa.Connection, free: list[_Row]) -> Counter[str]:
    deleted = delete_all(connection, (row.request_id for row in free))
    keys = {(tenant, row.trace_id) for row in free if row.trace_id for tenant in (row.tenant_id or "", "")}
    for same in spans.of_traces(trace, keys):
        settled = sa.select(trace.c.tenant, trace.c.trace_id).where(same, trace.c.due_at.is_(None))
        old = [(row.tenant, row.trace_id) for row in connection.execute(settled.with_for_update(skip_locked=True))]
        deleted[trace.name] += len(old)
        spans.drop(connection, old)
    return deleted


def _others(keep: Mapping[Kept, float], reports: int | None, now: float) -> Iterator[tuple[sa.Table, sa.Select[Any]]]:
    """What else is old: what waits for a request that never came, and the histories of sources."""
    if "waiting" in keep:
        before = now - keep["waiting"]
        for table in (addendum, feedback):
            there = sa.exists().where(request.c.request_id == table.c.request_id)
            old = table.c.created_at < int(before * _SECOND)
            yield table, sa.select(*table.primary_key).where(old, sa.not_(there))
        given_up = (trace.c.due_at.is_(None), trace.c.error.is_not(None), trace.c.last_at < before)
        yield trace, sa.select(*trace.primary_key).where(*given_up)
    if reports is not None:
        yield source_report, _old_reports(reports)


def _old_reports(keep: int) -> sa.Select[Any]:
    """Reports behind the newest `keep` of their source, and behind as many that say the same of it."""
    of_source = (source_report.c.service, source_report.c.source)
    newest = (source_report.c.reported_at.desc(), source_report.c.report_id.desc())
    fields = [source_report.c[name] for name in ("documents", "newest_at", "delay_seconds")]
    place = sa.func.row_number().over(partition_by=of_source, order_by=newest).label("place")
    among = [
        sa.func.row_number().over(partition_by=(*of_source, each.is_not(None)), order_by=newest).label(f"_{each.name}")
        for each in fields
    ]
    placed = sa.select(source_report.c.report_id, *fields, place, *among).subquery()
    behind = [sa.or_(placed.c[each.name].is_(None), placed.c[f"_{each.name}"] > keep) for each in fields]
    return sa.select(placed.c.report_id).where(placed.c.place > keep, *behind)


def _delete(connection: sa.Connection, table: sa.Table, chosen: sa.Select[Any]) -> int:
    """Delete a batch of the chosen rows; returns how many."""
    some = chosen.limit(_BATCH)
    if table is trace:
        some = some.with_for_update(skip_locked=True)
    keys = [tuple(row) for row in connection.execute(some)]
    if keys and table is trace:
        spans.drop(connection, keys)
    elif keys:
        (key,) = table.primary_key
        connection.execute(sa.delete(table).where(key.in_([each[0] for each in keys])))
    return len(keys)


_TABLES: Final = (
    job,
    request,
    addendum,
    trait,
    feedback,
    analysis,
    score,
    diagnosis,
    attribution_share,
    index_probe,
    drawn,
    request_label,
    search_entry,
)


def delete_all(connection: sa.Connection, request_ids: Iterable[str]) -> Counter[str]:
    """Delete these requests with everything that belongs to them; returns the numbers of rows by table."""
    deleted: Counter[str] = Counter()
    for ids in chunks(sorted(request_ids)):
        deleted[search_entry.name] += search.forget(connection, ids)
        for table in _TABLES:
            deleted[table.name] += connection.execute(sa.delete(table).where(table.c.request_id.in_(ids))).rowcount
    return deleted


def count_all(connection: sa.Connection, request_ids: Sequence[str]) -> Counter[str]:
    """What `delete` would delete."""
    counted: Counter[str] = Counter()
    for ids in chunks(request_ids):
        for table in _TABLES:
            rows = sa.select(sa.func.count()).select_from(table).where(table.c.request_id.in_(ids))
            counted[table.name] += connection.scalar(rows) or 0
    return counted
