"""Owns judgements that name their request by its trace: whose they are, whichever comes first, it or its request.

One whose request is not stored waits under the id that a request of received spans has: its trace's, after the name of
its tenant. A request that has another id takes over what waits for its trace. Both happen in turn with the writers of
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import sqlalchemy as sa

from ragtrace.store import arrivals
from ragtrace.store.bulk import chunks
from ragtrace.store.span_rows import TraceJudgement
from ragtrace.store.tables import request
from ragtrace.store.text import clean
from ragtrace.types import Feedback, RequestRecord, replace

__all__ = ["found", "take_over"]


def found(connection: sa.Connection, given: Sequence[TraceJudgement]) -> list[Feedback]:
    """The judgements with the ids of their requests: of several in one trace the one that began first. A tenant's are
    of its own requests only; without a name it is the one that may judge all."""
    stored: dict[str, list[tuple[str, str]]] = {}
    for trace_ids in chunks(dict.fromkeys(each.trace_id for each in given)):
        columns = sa.select(request.c.trace_id, request.c.request_id, request.c.tenant_id)
        rows = connection.execute(
            columns.where(request.c.trace_id.in_(trace_ids)).order_by(request.c.started_at, request.c.request_id)
        )
        for row in rows:
            stored.setdefault(row.trace_id, []).append((row.request_id, row.tenant_id))
    return [replace(each.said, request_id=_request_id(each, stored.get(each.trace_id, ()))) for each in given]


def _request_id(given: TraceJudgement, stored: Iterable[tuple[str, str | None]]) -> str:
    tenant = clean(given.tenant)
    own = (request_id for request_id, tenant_id in stored if not tenant or tenant_id == tenant)
    return next(own, _waiting(tenant, given.trace_id))


def _waiting(tenant: str, trace_id: str) -> str:
    return f"{tenant}:{trace_id}" if tenant else trace_id


def take_over(connection: sa.Connection, records: Iterable[RequestRecord]) -> None:
    """Give requests that were stored just now what waits for their traces."""
    latest_first = sorted(records, key=lambda record: (record.started_at, record.request_id), reverse=True)
    waited = {key: record.request_id for record in latest_first for key in _waiting_for(record)}
    if not waited:
        return
    waiting = arrivals.feedback_of(connection, sorted(waited))
    kept: set[str] = set()
    for ids in chunks(sorted(waiting)):
        kept.update(connection.scalars(sa.select(request.c.request_id).where(request.c.request_id.in_(ids))))
    arrivals.hand_over(connection, {key: waited[key] for key in waiting if key not in kept})


def _waiting_for(record: RequestRecord) -> Iterator[str]:
    """Under which other ids judgements wait for a request: one that came with a tenant's token is judged with it."""
    tenant = clean(record.tenant_id) or ""
    for each in dict.fromkeys((tenant, "")):
        key = _waiting(each, clean(record.trace_id or ""))
        if record.trace_id and key != record.request_id and (each or not _came_with(tenant, record)):
            yield key


def _came_with(tenant: str, record: RequestRecord) -> bool:
    return bool(tenant) and record.request_id.startswith(f"{tenant}:")
