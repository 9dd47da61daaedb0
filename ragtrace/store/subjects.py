"""Finds what a store holds of a subject: its requests, page by page, its traces, and what waits for its requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from ragtrace.store import erased, spans
from ragtrace.store.attempts import BEGAN_AT
from ragtrace.store.bulk import chunks
from ragtrace.store.database import Database
from ragtrace.store.tables import addendum, feedback, request, trace
from ragtrace.store.text import clean

__all__ = ["Key", "Subject", "own_traces", "pages", "stored", "unassembled", "waiting"]

_PAGE: Final = 100
_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_LATEST: Final = "99999999T999999.999999999"  # behind each time that tells attempts apart, in every collation
Key: TypeAlias = tuple[str, str]
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


def pages(database: Database, subject: Subject) -> Iterator[Sequence[sa.Row[Any]]]:
    """Its requests, by id: each with its start, tenant, trace and service."""
    columns = [request.c.request_id, BEGAN_AT, request.c.tenant_id, request.c.trace_id, request.c.service]
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
        yield [request.c.request_id == given]
        attempt = f"{given}~"  # the host may have given the id to several
        near = request.c.request_id.between(attempt, f"{attempt}{_LATEST}")  # in the order of its index
        yield [near, sa.func.substr(request.c.request_id, 1, len(attempt)) == attempt]


def own_traces(connection: sa.Connection, page: Iterable[sa.Row[Any]]) -> set[Key]:
    """The traces in which these requests are the only ones."""
    of = {row.request_id: _traces(row) for row in page}
    keys = set[Key]().union(*of.values())
    columns = [request.c[name] for name in ("request_id", "tenant_id", "trace_id")]
    for some in chunks(sorted({trace_id for _, trace_id in keys})):
        others = connection.execute(sa.select(*columns).where(request.c.trace_id.in_(some)))
        keys.difference_update(*[_traces(row) for row in others if row.request_id not in of])
    return keys


def _traces(row: sa.Row[Any]) -> set[Key]:
    return erased.traces_of(row.request_id, row.tenant_id, row.trace_id)


def stored(connection: sa.Connection, keys: Iterable[Key]) -> set[Key]:
    """Those of these traces that are stored."""
    found: set[Key] = set()
    for same in spans.of_traces(trace, keys):
        query = sa.select(trace.c.tenant, trace.c.trace_id).where(same)
        found.update((row.tenant, row.trace_id) for row in connection.execute(query))
    return found


def unassembled(connection: sa.Connection, subject: Subject) -> set[Key]:
    """The traces that a tenant sent, and those whose request would have an id that was asked for, assembled or not.
    Whose session one belongs to is not known before."""
    keys: set[Key] = set()
    if subject.tenant is not None and subject.session is None:
        query = sa.select(trace.c.tenant, trace.c.trace_id).where(trace.c.tenant == clean(subject.tenant))
        keys.update((row.tenant, row.trace_id) for row in connection.execute(query))
    for given in map(clean, subject.requests):
        tenant, _, trace_id = given.rpartition(":")
        if _TRACE.fullmatch(trace_id):
            keys.add((tenant, trace_id))
    return keys


def waiting(connection: sa.Connection, subject: Subject) -> dict[sa.Table, list[str]]:
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
