"""Erasure: finds and deletes all that a store holds of a subject (a tenant, a session or single requests) at once, or
the totals of a service; and the audit log of deletions.

Requests go page by page, each page in a transaction that no writer of records is beside. It remembers what it deletes,
so that nothing brings it back, and condemns the texts. What a run that was killed has left is finished by the next one.

The audit says when, who, what of, and how many rows, in the transaction that deletes. An entry outlives what it is
about. So one of an erasure says what kind of subject it was of, and not whose: the name of a person or a tenant would
stand in the store again.
"""

from __future__ import annotations

import getpass
import json
import re
import socket
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from ragtrace.store import (
    _records as records,
    _requests as requests,
    _search as search,
    _space as space,
    _spans as spans,
    retention,
    service_traits,
    totals,
)
from ragtrace.store._feedback import COUNTED
from ragtrace.store._named_leases import UpkeepLease
from ragtrace.store.database import Database, chunks, clean, insert, pages
from ragtrace.store.rows import DeletionRecord
from ragtrace.store.tables import (
    addendum,
    audit,
    background,
    content,
    counted,
    exposed,
    fault,
    feedback,
    job,
    page_judgment,
    release,
    request,
    source,
    source_report,
    success,
    tenant_service,
    total,
    trace,
)

__all__ = ["ERASED", "FORGOTTEN", "Erased", "Subject", "deletions", "erase", "find", "forget_totals"]

_PAGE: Final = 100
_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_LATEST: Final = "99999999T999999.999999999"  # behind each time that tells attempts apart, in every collation
_Key: TypeAlias = tuple[str, str]
"""A trace: the tenant whose token its spans came with, and its id."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose data: a tenant's, a session's (of that tenant, where both are given), or those of requests by id."""

    tenant: str | None = None
    session: str | None = None
    requests: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What it is, without whose: a session is one also where its tenant is given."""
        if self.session is not None:
            return "session"
        return "request" if self.tenant is None else "tenant"


def _pages(database: Database, subject: Subject) -> Iterator[Sequence[sa.Row[Any]]]:
    """Its requests, by id: each with its start, tenant, trace and service."""
    columns = [request.c.request_id, requests.BEGAN_AT, request.c.tenant_id, request.c.trace_id, request.c.service]
    for chosen in _chosen(subject):
        yield from pages(database.read, sa.select(*columns).where(*chosen), [request.c.request_id], _PAGE)


def _chosen(subject: Subject) -> Iterator[list[sa.ColumnElement[bool]]]:
    whose = {"tenant_id": subject.tenant, "session_id": subject.session}
    owners = [request.c[name] == clean(value) for name, value in whose.items() if value is not None]
    if owners:
        yield owners
    for given in dict.fromkeys(map(clean, subject.requests)):
        yield [request.c.request_id == given]
        attempt = f"{given}~"  # the host may have given the id to several
        near = request.c.request_id.between(attempt, f"{attempt}{_LATEST}")  # in the order of its index
        yield [near, sa.func.substr(request.c.request_id, 1, len(attempt)) == attempt]


def _own_traces(connection: sa.Connection, page: Iterable[sa.Row[Any]]) -> set[_Key]:
    """The traces in which these requests are the only ones."""
    of = {row.request_id: _traces(row) for row in page}
    keys = set[_Key]().union(*of.values())
    columns = [request.c[name] for name in ("request_id", "tenant_id", "trace_id")]
    for some in chunks(sorted({trace_id for _, trace_id in keys})):
        others = connection.execute(sa.select(*columns).where(request.c.trace_id.in_(some)))
        keys.difference_update(*[_traces(row) for row in others if row.request_id not in of])
    return keys


def _traces(row: sa.Row[Any]) -> set[_Key]:
    return requests.traces_of(row.request_id, row.tenant_id, row.trace_id)


def _stored(connection: sa.Connection, keys: Iterable[_Key]) -> set[_Key]:
    """Those of these traces that are stored."""
    found: set[_Key] = set()
    for same in spans.of_traces(trace, keys):
        query = sa.select(trace.c.tenant, trace.c.trace_id).where(same)
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


def _waiting(connection: sa.Connection, subject: Subject) -> dict[sa.Table, list[str]]:
    """What waits for requests that are not stored: of the ids that were asked for, and of a tenant's traces."""
    found: dict[sa.Table, list[str]] = {}
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
        found[table] = sorted({row[0] for row in rows})
    return found


ERASED: Final = "db erase"
"""The action as which it is written down that somebody had a subject's data erased."""
FORGOTTEN: Final = "totals forget"
"""The action as which it is written down that somebody had the totals of a service forgotten."""
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Erased:
    """What was found, or erased: how many requests, the ids of the first ones, rows by table.

    The texts that no other request uses are known, as rows of `content`, after the erasure only. exemplars: totals that
    pointed to an erased trace. shared: the services that a tenant named and that others may name as well; what is kept
    by service of these stays. rewritten: whether the SQLite file, or PostgreSQL's tables, were written anew. emptied:
    whether no copy of a row is left there that somebody who reads may still see: in SQLite's write-ahead log, or in a
    table; None where PostgreSQL's tables were not written anew.
    """

    requests: int = 0
    first: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    exemplars: int = 0
    shared: tuple[str, ...] = ()
    rewritten: bool | None = None
    emptied: bool | None = None


def find(database: Database, subject: Subject) -> Erased:
    """What `erase` would delete."""
    rows: Counter[str] = Counter()
    found = _Found()
    exemplars = 0
    with database.read() as connection:
        for table, ids in _waiting(connection, subject).items():
            rows[table.name] += len(ids)
        unassembled = _unassembled(connection, subject)
        rows[trace.name] += len(_stored(connection, unassembled))
        named = _named(connection, subject)
        own = [] if subject.tenant is None else service_traits.alone(connection, subject.tenant, named)
        if subject.tenant is not None and subject.session is None:
            rows.update(service_traits.count(connection, subject.tenant, own))
    for page in _pages(database, subject):
        with database.read() as connection:
            rows.update(retention.count_all(connection, [row.request_id for row in page]))
            keys = _own_traces(connection, page)
            rows[trace.name] += len(_stored(connection, keys - unassembled))
            exemplars += len(_exemplars(connection, keys, page))
        found.add(page)
    return Erased(found.number, tuple(found.first), _some(rows), exemplars, _without(named, own))


def erase(database: Database, subject: Subject, *, rewrite: bool, reference: str | None = None) -> Erased:
    """Delete it. rewrite: write SQLite's file, or PostgreSQL's tables, anew: copies of deleted rows stay in the pages.

    Who did so, what kind of subject it was and how many rows went is written down with each transaction, and what
    `reference` says; not whose they were.
    Raises: StoreUnavailable before anything is deleted where the disk has no room for that.
    """
    rows: Counter[str] = Counter()
    found = _Found()
    entry = AuditEntry(ERASED, {"kind": subject.kind, "reference": reference}, time.time_ns())
    exemplars = 0
    if rewrite:
        space.refuse_full(database)
    with database.read() as connection:
        named = _named(connection, subject)
    with UpkeepLease(database, "ragtrace db erase") as upkeep:
        for page in _pages(database, subject):
            with database.write() as connection:
                _begin(connection, upkeep)
                exemplars += _erase(connection, page, rows)
                entry.save(connection, rows)
            found.add(page)
        with database.write() as connection:
            _begin(connection, upkeep)
            _erase_waiting(connection, subject, rows)
            _erase_traces(connection, _unassembled(connection, subject), rows)
            own = _erase_services(connection, subject, named, rows)
            entry.save(connection, rows)
        space.condemn_orphans(database, upkeep, lambda connection: _begin(connection, upkeep))
        rows[content.name] = space.delete_condemned(database, upkeep, lambda connection: _begin(connection, upkeep))
        search.purge(database, upkeep.hold)
        with database.write() as connection:
            entry.save(connection, rows)
    outcome = found.number, tuple(found.first), _some(rows), exemplars, _without(named, own)
    if rewrite:
        return Erased(*outcome, rewritten=True, emptied=space.rewrite(database))
    emptied = space.empty_log(database) if database.address.is_sqlite else None
    return Erased(*outcome, rewritten=False, emptied=emptied)


@dataclass(slots=True)
class _Found:
    number: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, page: Sequence[sa.Row[Any]]) -> None:
        self.number += len(page)
        self.first += [row.request_id for row in page[: _SHOWN - len(self.first)]]


def _some(rows: Counter[str]) -> dict[str, int]:
    return {name: number for name, number in sorted(rows.items()) if number}


def _begin(connection: sa.Connection, upkeep: UpkeepLease) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    upkeep.hold(connection)
    records.wait_for_turn(connection, alone=True)


def _erase(connection: sa.Connection, page: Sequence[sa.Row[Any]], rows: Counter[str]) -> int:
    """Delete requests with all that belongs to them; returns how many exemplars pointed to them."""
    ids = [row.request_id for row in page]
    jobs = sa.select(job.c.id).where(job.c.request_id.in_(ids))
    connection.execute(jobs.order_by(job.c.id).with_for_update())  # as whoever finishes one
    locked = sa.select(request.c.request_id).where(request.c.request_id.in_(ids))
    connection.execute(locked.order_by(request.c.request_id).with_for_update())
    space.condemn(connection, ids)
    keys = _own_traces(connection, page)
    _remember(connection, page)
    rows[background.name] += service_traits.forget_traffic(connection, ids)
    rows[counted.name] += _uncount(connection, ids)
    rows.update(retention.delete_all(connection, ids))
    _blank_words(connection, ids)
    exemplars = _exemplars(connection, keys, page, lock=True)
    for some in chunks(exemplars):
        shown = sa.tuple_(total.c.name, total.c.labels).in_(some)
        nothing = {"exemplar_trace_id": None, "exemplar_value": None, "exemplar_at": None}
        connection.execute(sa.update(total).where(shown).values(**nothing))
    _erase_traces(connection, keys, rows)
    return len(exemplars)


def _uncount(connection: sa.Connection, request_ids: Sequence[str]) -> int:
    """Forget that these requests and their feedback were counted: they cannot come again."""
    own = sa.select(feedback.c.feedback_id).where(feedback.c.request_id.in_(request_ids))
    judged = counted.c.kind == COUNTED, counted.c.request_id.in_(own)
    chosen = (judged, (counted.c.request_id.in_(request_ids),))
    return sum(connection.execute(sa.delete(counted).where(*each)).rowcount for each in chosen)


def _erase_traces(connection: sa.Connection, keys: set[_Key], rows: Counter[str]) -> None:
    stored = spans.locked(connection, keys)
    rows[trace.name] += len(stored)
    spans.drop(connection, stored)
    digests = {digest for tenant, trace_id in keys for digest in _names_of_trace(tenant, trace_id)}
    requests.remember_erased(connection, digests, time.time())


def _names_of_trace(tenant: str, trace_id: str) -> Iterator[str]:
    """A trace, and the ids under which its tenant's judgments, and those of nobody, wait for its request."""
    yield requests.digest_of_trace(tenant, trace_id)
    yield requests.digest_of_id(f"{tenant}:{trace_id}")
    yield requests.digest_of_id(trace_id)


def _remember(connection: sa.Connection, page: Iterable[sa.Row[Any]]) -> None:
    digests: set[str] = set()
    for row in page:
        given = requests.given_id(row.request_id)
        digests |= {
            requests.digest_of_record(given, row.started_at),
            requests.digest_of_id(given),
            requests.digest_of_id(row.request_id),
        }
    requests.remember_erased(connection, digests, time.time())


def _named(connection: sa.Connection, subject: Subject) -> list[str]:
    """The services that a tenant named; those of a session or of a request are the tenant's still."""
    if subject.tenant is None or subject.session is not None:
        return []
    return service_traits.named(connection, subject.tenant)


def _without(named: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for each in named if each not in own)


def _erase_services(connection: sa.Connection, subject: Subject, named: Sequence[str], rows: Counter[str]) -> list[str]:
    """Delete what is kept of the services that were the tenant's alone; returns these. One that a request came to
    meanwhile is left for the next erasure."""
    if subject.tenant is None or subject.session is not None:
        return []
    own = service_traits.alone(connection, subject.tenant, named, unused=True)
    rows.update(service_traits.delete(connection, subject.tenant, own))
    rows[tenant_service.name] += service_traits.forget_named(connection, subject.tenant, own)
    _forget_services(connection, clean(subject.tenant), _without(named, own))
    return own


def _exemplars(
    connection: sa.Connection, keys: Iterable[_Key], page: Iterable[sa.Row[Any]], *, lock: bool = False
) -> list[totals.Key]:
    """The totals whose exemplar is one of these traces of these requests, in the order in which writers lock them.

    A trace of the same id that another tenant sent stays an example in the totals of that tenant's services. In those
    of `other`, where services beyond their budget count, nobody knows whose it is: it goes.
    """
    found: list[totals.Key] = []
    of_page = set[str]().union(*(totals.candidate_names(row.service) for row in page))
    for some in chunks(sorted({trace_id for _, trace_id in keys})):
        series = totals.keys(connection, total.c.exemplar_trace_id.in_(some), lock=lock)
        found += [key for key in series if dict(json.loads(key[1])).get("service") in (None, *of_page)]
    return found


def _blank_words(connection: sa.Connection, request_ids: Sequence[str]) -> None:
    """Faults and what was said of alerts stay, as counts; words that name one of the requests do not."""
    named = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, request_ids))})(?!\w)")
    for table, words in ((fault, "message"), (page_judgment, "comment")):
        for row in connection.execute(sa.select(table)).mappings().all():
            if named.search(row[words] or ""):
                same = [column == row[column.name] for column in table.primary_key]
                connection.execute(sa.update(table).where(*same).values({words: "(erased)"}))


def _erase_waiting(connection: sa.Connection, subject: Subject, rows: Counter[str]) -> None:
    for table, ids in _waiting(connection, subject).items():
        (key,) = table.primary_key
        for some in chunks(ids):
            if table is addendum:
                bodies = sa.select(addendum.c.request_id).where(key.in_(some)).distinct()
                space.condemn(connection, connection.scalars(bodies).all())
            rows[table.name] += connection.execute(sa.delete(table).where(key.in_(some))).rowcount
    requests.remember_erased(connection, {requests.digest_of_id(each) for each in subject.requests}, time.time())


def forget_totals(connection: sa.Connection, service: str, segment: str | None, now_ns: int) -> dict[str, int]:
    """Delete all that is exported under a service's name, or the series of one segment, and give their places back.

    Requests, their analyses and what was counted of them stay: nothing of them counts again. Returns how many rows of
    each table; it is written down in the audit unless there were none. Releases and reports of sources go first, as
    writers hold these before they take a place.
    """
    gone: dict[str, int] = {}
    if segment is None:
        for table in (release, source_report, source):
            gone[table.name] = connection.execute(sa.delete(table).where(table.c.service == clean(service))).rowcount
    gone[exposed.name] = totals.forget_places(connection, service, segment)
    gone[total.name] = _forget_series(connection, service, segment)
    if segment is None:
        gone[success.name] = connection.execute(sa.delete(success).where(success.c.service == clean(service))).rowcount
    AuditEntry(FORGOTTEN, {"service": service, "segment": segment}, now_ns).save(connection, gone)
    return {name: rows for name, rows in gone.items() if rows}


def _forget_series(connection: sa.Connection, service: str, segment: str | None) -> int:
    """Delete the series of a service, or of one segment of it; returns how many. They are locked as writers do."""
    return totals.delete(connection, totals.keys(connection, *_of(service, segment), lock=True))


def _of(service: str, segment: str | None) -> list[sa.ColumnElement[bool]]:
    """The series with these labels: a quotation mark inside of a value is written with a backslash before it."""
    wanted = {"service": service} if segment is None else {"service": service, "segment": segment}
    pairs = (json.dumps([label, value], separators=(",", ":")) for label, value in wanted.items())
    return [total.c.labels.contains(pair, autoescape=True) for pair in pairs]


_ERASED_SERVICE: Final = {"kind": "service of an erased tenant"}


class AuditEntry:
    """What one run deletes, in one or several transactions: each of them saves the rows until then with it."""

    def __init__(self, action: str, subject: Mapping[str, str | None], now_ns: int) -> None:
        self._action = action
        self._subject = {name: value for name, value in subject.items() if value is not None}
        self._at = now_ns
        self._number: int | None = None

    def save(self, connection: sa.Connection, rows: Mapping[str, int]) -> None:
        """Write down how many rows went by now, by table; nothing where there were none."""
        counts = json.dumps({name: number for name, number in rows.items() if number})
        if self._number is None and counts != "{}":
            same = sa.select(sa.func.count()).select_from(audit).where(audit.c["at"] == self._at)
            self._number = connection.scalar(same) or 0
            key = {"at": self._at, "number": self._number}
            said = {"actor": _actor(), "action": self._action, "subject": json.dumps(self._subject)}
            connection.execute(insert(connection, audit).values(**key, **said, rows=counts))
        elif self._number is not None:
            own = audit.c["at"] == self._at, audit.c.number == self._number
            connection.execute(sa.update(audit).where(*own).values(rows=counts))


def _forget_services(connection: sa.Connection, tenant: str, kept: Collection[str]) -> None:
    """Take the names of a tenant's services out of what was written down, but for those that are kept."""
    for row in connection.execute(sa.select(audit)).mappings().all():
        service = json.loads(row["subject"]).get("service", "")
        if service.startswith(f"{tenant}/") and service not in kept:
            own = audit.c["at"] == row["at"], audit.c.number == row["number"]
            connection.execute(sa.update(audit).where(*own).values(subject=json.dumps(_ERASED_SERVICE)))


def deletions(connection: sa.Connection, since_ns: int = 0, action: str | None = None) -> list[DeletionRecord]:
    """What was deleted since a time, earliest first."""
    query = sa.select(audit).where(audit.c["at"] >= since_ns).order_by(audit.c["at"], audit.c.number)
    if action is not None:
        query = query.where(audit.c.action == action)
    rows = connection.execute(query).mappings()
    return [
        DeletionRecord(row["at"], row["actor"], row["action"], json.loads(row["subject"]), json.loads(row["rows"]))
        for row in rows
    ]


def _actor() -> str:
    """Who runs this, and where."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
