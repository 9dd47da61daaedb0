"""Owns spans that arrived and are not yet a record: parts of traces, each once, and when a trace is to be assembled.

A trace is due a grace period after its root has ended, else some time after its first span. Whoever assembles it takes
it for a while; if a part comes meanwhile, what was assembled is written nevertheless, and the trace is due again.
Times are Unix seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from ragtrace.store.bulk import chunks
from ragtrace.store.compression import compress
from ragtrace.store.database import insert
from ragtrace.store.span_rows import DueTrace, SpanPart
from ragtrace.store.suspects import leased_together
from ragtrace.store.tables import span_part, trace
from ragtrace.store.text import clean

__all__ = ["ATTEMPTS", "Packed", "add", "claim", "drop", "fail", "forget", "of_traces", "packed", "settle", "waiting"]

ATTEMPTS: Final = 5
_RETRY: Final = 30.0  # seconds


class Packed(NamedTuple):
    """A part as it is stored. Its digest is that of the compressed bytes, which are a fifth as many."""

    part: SpanPart
    digest: str
    body: bytes


def packed(parts: Iterable[SpanPart]) -> list[Packed]:
    """The parts made ready, before the write lock is taken."""
    bodies = [(each, compress(each.body)) for each in parts]
    return [Packed(each, hashlib.blake2b(body, digest_size=16).hexdigest(), body) for each, body in bodies]


def add(connection: sa.Connection, parts: Sequence[Packed], now: float, grace: float, ttl: float) -> int:
    """Store the parts that are new, and say when their traces are due. Returns how many were new."""
    rows = {(clean(each.part.tenant), each.part.trace_id, each.digest): each for each in parts}
    if not rows:
        return 0
    names = ("tenant", "trace_id", "digest")
    statement = insert(connection, span_part).on_conflict_do_nothing().returning(*(span_part.c[name] for name in names))
    values = [dict(zip(names, key, strict=True)) | {"body": rows[key].body} for key in sorted(rows)]
    new = [tuple(row) for row in connection.execute(statement, values)]
    due: dict[tuple[str, str], list[SpanPart]] = {}
    for key in new:
        due.setdefault(key[:2], []).append(rows[key].part)
    if due:
        _touch(connection, due, now, grace, ttl)
    return len(new)


def _touch(
    connection: sa.Connection, due: dict[tuple[str, str], list[SpanPart]], now: float, grace: float, ttl: float
) -> None:
    statement = insert(connection, trace)
    new = statement.excluded
    # A late span of a trace that was assembled, or whose root has ended, waits for the grace period only.
    soon = sa.func.coalesce(trace.c.due_at, now + grace)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["tenant", "trace_id"],
            set_={
                "parts": trace.c.parts + new.parts,
                "bytes": trace.c.bytes + new.bytes,
                "last_at": new.last_at,
                "due_at": sa.case((soon < new.due_at, soon), else_=new.due_at),
                "attempts": 0,
                "error": None,
            },
        ),
        [
            {
                "tenant": tenant,
                "trace_id": trace_id,
                "parts": len(parts),
                "bytes": sum(len(each.body) for each in parts),
                "last_at": now,
                "due_at": now + (grace if any(each.ended for each in parts) else ttl),
                "attempts": 0,
            }
            for (tenant, trace_id), parts in sorted(due.items())
        ],
    )


def claim(connection: sa.Connection, limit: int, lease_seconds: float, now: float) -> list[DueTrace]:
    """Take up to `limit` traces that are due, the longest waiting first; they are due again when the lease runs out.

    One that was taken several times in vain goes alone. At the cap it is set aside.
    """
    _bury(connection, now)
    rows = connection.execute(
        sa.select(trace.c.tenant, trace.c.trace_id, trace.c.parts, trace.c.attempts, trace.c.bytes)
        .where(trace.c.due_at.is_not(None), trace.c.due_at <= now)
        .order_by(trace.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    found = [DueTrace(*row) for row in rows]
    found = found[: leased_together([each.attempts for each in found])]
    for same in of_traces(trace, ((each.tenant, each.trace_id) for each in found)):
        leased = sa.update(trace).where(same)
        connection.execute(leased.values(due_at=now + lease_seconds, attempts=trace.c.attempts + 1))
    return found


def _bury(connection: sa.Connection, now: float) -> None:
    spent = (trace.c.due_at.is_not(None), trace.c.due_at <= now, trace.c.attempts >= ATTEMPTS)
    error = sa.func.coalesce(trace.c.error, f"whoever assembled it ended {ATTEMPTS} times before it was done")
    keys = connection.execute(
        sa.select(trace.c.tenant, trace.c.trace_id).where(*spent).with_for_update(skip_locked=True)
    )
    for same in of_traces(trace, ((row.tenant, row.trace_id) for row in keys)):
        connection.execute(sa.update(trace).where(same).values(due_at=None, error=error))


def settle(connection: sa.Connection, traces: Iterable[DueTrace]) -> set[tuple[str, str]]:
    """These traces are assembled; one to which a part has come since stays due. Returns the others, by tenant and trace
    id; they are locked."""
    statement = sa.update(trace).where(
        trace.c.tenant == sa.bindparam("of_tenant"),
        trace.c.trace_id == sa.bindparam("of_trace"),
        trace.c.parts == sa.bindparam("of_parts"),
    )
    ordered = sorted(traces, key=lambda each: (each.tenant, each.trace_id))  # as `_touch` takes them
    rows = [{"of_tenant": each.tenant, "of_trace": each.trace_id, "of_parts": each.parts} for each in ordered]
    if rows:
        connection.execute(statement.values(due_at=None, error=None), rows)
    parts = {(each.tenant, each.trace_id): each.parts for each in ordered}
    settled: set[tuple[str, str]] = set()
    for same in of_traces(trace, parts):
        found = connection.execute(sa.select(trace.c.tenant, trace.c.trace_id, trace.c.parts).where(same))
        settled.update((row.tenant, row.trace_id) for row in found if row.parts == parts[row.tenant, row.trace_id])
    return settled


def fail(connection: sa.Connection, failed: DueTrace, error: str, now: float) -> None:
    """Put a trace back for later; at the cap of attempts it waits for another span."""
    again: dict[str, Any] = {"due_at": None if failed.attempts + 1 >= ATTEMPTS else now + _RETRY}
    same = (trace.c.tenant == failed.tenant, trace.c.trace_id == failed.trace_id, trace.c.parts == failed.parts)
    connection.execute(sa.update(trace).where(*same).values(error=clean(error), **again))


def forget(connection: sa.Connection, before: float, limit: int) -> int:
    """Delete up to `limit` assembled traces to which nothing has come since `before`. Returns how many. One that could
    not be assembled stays, with its error: its spans are nowhere else."""
    settled = (trace.c.due_at.is_(None), trace.c.error.is_(None), trace.c.last_at < before)
    old = sa.select(trace.c.tenant, trace.c.trace_id).where(*settled)
    keys = [
        (row.tenant, row.trace_id)
        for row in connection.execute(old.order_by(trace.c.last_at).limit(limit).with_for_update(skip_locked=True))
    ]
    drop(connection, keys)
    return len(keys)


def drop(connection: sa.Connection, keys: Iterable[tuple[str, str]]) -> None:
    """Delete traces, by tenant and trace id, with their parts."""
    given = list(keys)
    for table in (span_part, trace):
        for same in of_traces(table, given):
            connection.execute(sa.delete(table).where(same))


def of_traces(table: sa.Table, keys: Iterable[tuple[str, str]]) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions on `tenant` and `trace_id` that choose these traces in their order, by tenant: for pairs in one IN,
    SQLite would look through the whole table."""
    for tenant, own in groupby(sorted(keys), key=lambda key: key[0]):
        for some in chunks(trace_id for _, trace_id in own):
            yield sa.and_(table.c.tenant == tenant, table.c.trace_id.in_(some))


def waiting(connection: sa.Connection) -> tuple[int, float | None]:
    """How many traces are to be assembled, and when the first of them is due; for one that was taken already, when its
    last span came: a lease moves what is due."""
    due = sa.case((trace.c.attempts > 0, trace.c.last_at), else_=trace.c.due_at)
    row = connection.execute(sa.select(sa.func.count(), sa.func.min(due)).where(trace.c.due_at.is_not(None)))
    count, first = row.one()
    return count, first
