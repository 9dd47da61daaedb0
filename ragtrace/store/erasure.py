"""Finds and deletes all that a store holds of a tenant, a session or single requests, at once.

Requests go page by page, each page in a transaction that no writer of records is beside. It remembers what it deletes,
so that nothing brings it back, and condemns the texts. What a run that was killed has left is finished by the next one.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from ragtrace.store import addenda, attempts, condemned, dependents, erased, outcomes, space, spans
from ragtrace.store.alone import Alone
from ragtrace.store.bulk import chunks
from ragtrace.store.database import Database
from ragtrace.store.tables import addendum, content, counted, fault, feedback, job, request, total, trace
from ragtrace.store.text import clean

__all__ = ["Erased", "Subject", "erase", "find"]

_PAGE: Final = 100
_Key: TypeAlias = tuple[str, str]
_SHOWN: Final = 10
_TRACE: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose data: a tenant's, a session's (of that tenant, where both are given), or those of requests by id."""

    tenant: str | None = None
    session: str | None = None
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Erased:
    """What was found, or erased: how many requests, the ids of the first ones, rows by table.

    The texts that no other request uses are known, as rows of `content`, after the erasure only. exemplars: totals that
    pointed to an erased trace. rewritten: whether a SQLite file was written anew; None for PostgreSQL.
    """

    requests: int = 0
    first: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    exemplars: int = 0
    rewritten: bool | None = None


def find(database: Database, subject: Subject) -> Erased:
    """What `erase` would delete."""
    rows: Counter[str] = Counter()
    found = _Found()
    exemplars = 0
    with database.read() as connection:
        waiting = _waiting(connection, subject)
        for table, ids in waiting.items():
            rows[table.name] += len(ids)
        unassembled = _unassembled(connection, subject)
        rows[trace.name] += len(_stored(connection, unassembled))
    for page in _pages(database, subject):
        with database.read() as connection:
            rows.update(dependents.count(connection, [row.request_id for row in page]))
            keys = _own_traces(connection, page)
            rows[trace.name] += len(_stored(connection, keys - unassembled))
            exemplars += len(_exemplars(connection, keys))
        found.add(page)
    return Erased(found.number, tuple(found.first), _some(rows), exemplars)


def erase(database: Database, subject: Subject, *, rewrite: bool) -> Erased:
    """Delete it. rewrite: write a SQLite file anew, since copies of deleted rows stay in its pages.

    Raises: StoreUnavailable before anything is deleted where the disk has no room for that.
    """
    rows: Counter[str] = Counter()
    found = _Found()
    exemplars = 0
    if rewrite:
        space.refuse_full(database)
    with Alone(database, "ragtrace db erase") as alone:
        for page in _pages(database, subject):
            with database.write() as connection:
                _begin(connection, alone)
                exemplars += _erase(connection, page, rows)
            found.add(page)
        with database.write() as connection:
            _begin(connection, alone)
            _erase_waiting(connection, subject, rows)
            _erase_traces(connection, _unassembled(connection, subject), rows)
        rows[content.name] = condemned.delete(database, alone, lambda connection: _begin(connection, alone))
    if database.address.is_sqlite:
        if rewrite:
            space.compact(database)
        space.empty_log(database)
    rewritten = rewrite if database.address.is_sqlite else None
    return Erased(found.number, tuple(found.first), _some(rows), exemplars, rewritten)


@dataclass(slots=True)
class _Found:
    number: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, page: Sequence[sa.Row[Any]]) -> None:
        self.number += len(page)
        self.first += [row.request_id for row in page[: _SHOWN - len(self.first)]]


def _some(rows: Counter[str]) -> dict[str, int]:
    return {name: number for name, number in sorted(rows.items()) if number}


def _begin(connection: sa.Connection, alone: Alone) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    alone.hold(connection)
    addenda.wait_for_turn(connection, alone=True)


def _pages(database: Database, subject: Subject) -> Iterator[Sequence[sa.Row[Any]]]:
    columns = [request.c[name] for name in ("request_id", "started_at", "tenant_id", "trace_id")]
    for chosen in _chosen(subject):
        query = sa.select(*columns).where(*chosen).order_by(request.c.request_id).limit(_PAGE)
        last: str | None = None
        while True:
            with database.read() as connection:
                rows = connection.execute(query if last is None else query.where(request.c.request_id > last)).all()
            if rows:
                yield rows
                last = rows[-1].request_id
            if len(rows) < _PAGE:
                break


def _chosen(subject: Subject) -> Iterator[list[sa.ColumnElement[bool]]]:
    whose = {"tenant_id": subject.tenant, "session_id": subject.session}
    owners = [request.c[name] == clean(value) for name, value in whose.items() if value is not None]
    if owners:
        yield owners
    for given in dict.fromkeys(map(clean, subject.requests)):
        attempt = f"{given}~"  # the host may have given the id to several
        same = sa.func.substr(request.c.request_id, 1, len(attempt)) == attempt
        yield [sa.or_(request.c.request_id == given, same)]


def _erase(connection: sa.Connection, page: Sequence[sa.Row[Any]], rows: Counter[str]) -> int:
    """Delete requests with all that belongs to them; returns how many exemplars pointed to them."""
    ids = [row.request_id for row in page]
    jobs = sa.select(job.c.id).where(job.c.request_id.in_(ids))
    connection.execute(jobs.order_by(job.c.id).with_for_update())  # as whoever finishes one
    locked = sa.select(request.c.request_id).where(request.c.request_id.in_(ids))
    connection.execute(locked.order_by(request.c.request_id).with_for_update())
    condemned.condemn(connection, ids)
    keys = _own_traces(connection, page)
    _remember(connection, page)
    rows[counted.name] += _uncount(connection, ids)
    rows.update(dependents.delete(connection, ids))
    _blank_faults(connection, ids)
    exemplars = _exemplars(connection, keys, lock=True)
    for some in chunks(exemplars):
        shown = sa.tuple_(total.c.name, total.c.labels).in_(some)
        nothing = {"exemplar_trace_id": None, "exemplar_value": None, "exemplar_at": None}
        connection.execute(sa.update(total).where(shown).values(**nothing))
    _erase_traces(connection, keys, rows)
    return len(exemplars)


def _uncount(connection: sa.Connection, request_ids: Sequence[str]) -> int:
    """Forget that these requests and their feedback were counted: they cannot come again."""
    own = sa.select(feedback.c.feedback_id).where(feedback.c.request_id.in_(request_ids))
    judged = counted.c.kind == outcomes.COUNTED, counted.c.request_id.in_(own)
    chosen = (judged, (counted.c.request_id.in_(request_ids),))
    return sum(connection.execute(sa.delete(counted).where(*each)).rowcount for each in chosen)


def _own_traces(connection: sa.Connection, page: Iterable[sa.Row[Any]]) -> set[_Key]:
    """The traces, by tenant and id, in which these requests are the only ones."""
    of = {row.request_id: row.trace_id for row in page if row.trace_id}
    shared: set[str] = set()
    for some in chunks(sorted(set(of.values()))):
        others = sa.select(request.c.trace_id, request.c.request_id).where(request.c.trace_id.in_(some))
        shared.update(row.trace_id for row in connection.execute(others) if row.request_id not in of)
    keys: set[_Key] = set()
    for row in page:
        if row.trace_id and row.trace_id not in shared:
            tenant = row.tenant_id or ""
            keys.add((tenant, row.trace_id))
            if not row.request_id.startswith(f"{tenant}:"):
                keys.add(("", row.trace_id))
    return keys


def _stored(connection: sa.Connection, keys: Iterable[_Key], *, lock: bool = False) -> set[_Key]:
    """Those of these traces that are stored. They are locked before their parts, as `spans.forget` does."""
    found: set[_Key] = set()
    for some in chunks(sorted(keys)):
        query = sa.select(trace.c.tenant, trace.c.trace_id).where(sa.tuple_(trace.c.tenant, trace.c.trace_id).in_(some))
        if lock:
            query = query.order_by(trace.c.tenant, trace.c.trace_id).with_for_update()
        found.update((row.tenant, row.trace_id) for row in connection.execute(query))
    return found


def _unassembled(connection: sa.Connection, subject: Subject) -> set[_Key]:
    """The traces that a tenant sent, and those whose request would have an id that was asked for, assembled or not.
    Whose session one belongs to is not known before."""
    keys: set[_Key] = set()
    if subject.tenant is not None and subject.session is None:
        query = sa.select(trace.c.tenant, trace.c.trace_id).where(trace.c.tenant == clean(subject.tenant))
        keys.update((row.tenant, row.trace_id) for row in connection.execute(query))
    for given in map(clean, subject.requests):
        tenant, _, trace_id = given.rpartition(":")
        if _TRACE.fullmatch(trace_id):
            keys.add((tenant, trace_id))
    return keys


def _erase_traces(connection: sa.Connection, keys: set[_Key], rows: Counter[str]) -> None:
    rows[trace.name] += len(_stored(connection, keys, lock=True))
    spans.drop(connection, keys)
    digests = {digest for tenant, trace_id in keys for digest in _names_of_trace(tenant, trace_id)}
    erased.add(connection, digests, time.time())


def _names_of_trace(tenant: str, trace_id: str) -> Iterator[str]:
    """A trace, and the id under which judgements wait for its request."""
    yield erased.of_trace(tenant, trace_id)
    yield erased.of_id(f"{tenant}:{trace_id}" if tenant else trace_id)


def _remember(connection: sa.Connection, page: Iterable[sa.Row[Any]]) -> None:
    digests: set[str] = set()
    for row in page:
        given = attempts.given_id(row.request_id, row.started_at)
        digests |= {erased.of_record(given, row.started_at), erased.of_id(given), erased.of_id(row.request_id)}
    erased.add(connection, digests, time.time())


def _exemplars(connection: sa.Connection, keys: Iterable[_Key], *, lock: bool = False) -> list[_Key]:
    """The totals whose exemplar is one of these traces, in the order in which writers lock them."""
    found: list[_Key] = []
    for some in chunks(sorted({trace_id for _, trace_id in keys})):
        query = sa.select(total.c.name, total.c.labels).where(total.c.exemplar_trace_id.in_(some))
        ordered = query.order_by(total.c.name, total.c.labels)
        if lock:
            ordered = ordered.with_for_update()
        found += [(row.name, row.labels) for row in connection.execute(ordered)]
    return found


def _blank_faults(connection: sa.Connection, request_ids: Sequence[str]) -> None:
    """Faults stay, as counts; a message that names one of the requests does not."""
    named = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, request_ids))})(?!\w)")
    for row in connection.execute(sa.select(fault)).mappings().all():
        if named.search(row["message"]):
            same = [column == row[column.name] for column in fault.primary_key]
            connection.execute(sa.update(fault).where(*same).values(message="(erased)"))


def _waiting(connection: sa.Connection, subject: Subject) -> dict[sa.Table, list[str]]:
    """What waits for requests that are not stored: of the ids that were asked for, and of a tenant's traces."""
    waiting: dict[sa.Table, list[str]] = {}
    for table in (addendum, feedback):
        (key,) = table.primary_key
        there = sa.exists().where(request.c.request_id == table.c.request_id)
        query = sa.select(key, table.c.request_id).where(sa.not_(there))
        rows: list[Any] = []
        for ids in chunks(sorted(map(clean, subject.requests))):
            rows += connection.execute(query.where(table.c.request_id.in_(ids))).all()
        if subject.tenant is not None and subject.session is None:
            prefix = f"{clean(subject.tenant)}:"
            begins = sa.func.substr(table.c.request_id, 1, len(prefix)) == prefix
            own = connection.execute(query.where(begins)).all()
            rows += [row for row in own if _TRACE.fullmatch(row.request_id.removeprefix(prefix))]
        waiting[table] = sorted({row[0] for row in rows})
    return waiting


def _erase_waiting(connection: sa.Connection, subject: Subject, rows: Counter[str]) -> None:
    for table, ids in _waiting(connection, subject).items():
        (key,) = table.primary_key
        for some in chunks(ids):
            if table is addendum:
                bodies = sa.select(addendum.c.request_id).where(key.in_(some)).distinct()
                condemned.condemn(connection, connection.scalars(bodies).all())
            rows[table.name] += connection.execute(sa.delete(table).where(key.in_(some))).rowcount
    erased.add(connection, {erased.of_id(each) for each in subject.requests}, time.time())
