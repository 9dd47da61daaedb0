"""Attempts: requests to which a host gave an id that another one has, as a retry that keeps its X-Request-ID.

The first that is stored has the id itself, each other one `ID~` and the time at which it started. A request is known by
its id and its start, so that one that is written again is recognized, in whatever order they arrive. One that has its
trace's id keeps it whenever it starts: a span that comes late may have begun before all others.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

import sqlalchemy as sa

from ragtrace.bounds import stated_start
from ragtrace.store.bulk import chunks
from ragtrace.store.tables import request
from ragtrace.store.text import bigint, clean
from ragtrace.types import Fault, RequestRecord, replace

__all__ = ["BEGAN_AT", "another", "began_at", "given_id", "newest", "repeated", "split", "tell_apart"]

_SECOND: Final = 1_000_000_000
_APART: Final = re.compile(r"~\d{8}T\d{6}\.\d{9}\Z", re.ASCII)  # a moment


BEGAN_AT: Final = sa.func.coalesce(request.c.stated_at, request.c.started_at).label("started_at")
"""The start of a stored request by which it is known: what its sender said, where that cannot be."""


def began_at(record: RequestRecord) -> int:
    """The start of a record by which it is known."""
    return bigint(stated_start(record))


def newest(records: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Each attempt once, at its highest revision, by id and start."""
    found: dict[tuple[str, int], RequestRecord] = {}
    for record in records:
        key = (clean(record.request_id), began_at(record))
        known = found.get(key)
        if known is None or known.record_revision < record.record_revision:
            found[key] = record if key[0] == record.request_id else replace(record, request_id=key[0])
    return [found[key] for key in sorted(found)]


def split(records: Iterable[RequestRecord]) -> tuple[list[RequestRecord], list[RequestRecord]]:
    """Of sorted records the earliest of each id, and the others."""
    first: dict[str, RequestRecord] = {}
    others = [record for record in records if first.setdefault(record.request_id, record) is not record]
    return list(first.values()), others


def tell_apart(connection: sa.Connection, records: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Those whose id a stored request has already, under the id that is theirs: the same for the same request."""
    given = list(records)
    started: dict[str, tuple[int, str | None]] = {}
    for ids in chunks(dict.fromkeys(record.request_id for record in given)):
        columns = (request.c.request_id, BEGAN_AT, request.c.trace_id)
        rows = connection.execute(sa.select(*columns).where(request.c.request_id.in_(ids)))
        started.update((row.request_id, (row.started_at, row.trace_id)) for row in rows)
    return [
        record if record.request_id not in started or _is_same(record, *started[record.request_id]) else another(record)
        for record in given
    ]


def another(record: RequestRecord) -> RequestRecord:
    """The record of a request that has the id of another one, under an id of its own."""
    return replace(record, request_id=f"{record.request_id}~{_moment(began_at(record))}")


def given_id(request_id: str) -> str:
    """The id that the host gave to a stored request, or that its trace has."""
    return _APART.sub("", request_id)


def _is_same(record: RequestRecord, started_at: int, trace_id: str | None) -> bool:
    if started_at == began_at(record):
        return True
    # a tenant's requests have its name before the trace's id, and a trace's later ones a time behind it
    own = given_id(record.request_id).rpartition(":")[2]
    return trace_id is not None and own == trace_id == record.trace_id


def repeated(record: RequestRecord) -> Fault:
    """Tells that an id was given to another request before."""
    return Fault(
        service=record.service,
        where="request",
        kind="repeated",
        message=f"the application gave an id to two requests; the other one is {record.request_id}",
        at=record.ended_at,
    )


def _moment(nanoseconds: int) -> str:
    """A time in UTC, to the nanosecond, that sorts as a text."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}.{rest:09}"
