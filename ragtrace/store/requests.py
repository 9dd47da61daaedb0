"""Finds requests by service, segment, time and first broken stage, newest first, through the indexes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.store.rows import COVERAGE, RequestRow
from ragtrace.store.tables import STAGE_NAMES, diagnosis, request
from ragtrace.store.text import clean

__all__ = ["analyzed", "find", "find_query", "ids_starting"]

_OF_DIAGNOSIS: Final = ("verdict", "stage", "owner", "suspected_rollout")
_OF_REQUEST: Final = tuple(name for name in RequestRow.__slots__ if name not in (*_OF_DIAGNOSIS, "states"))
_COLUMNS: Final = (
    *(request.c[name] for name in _OF_REQUEST),
    *(diagnosis.c[name] for name in _OF_DIAGNOSIS),
    *(diagnosis.c[f"{stage}_state"] for stage in STAGE_NAMES),
)


def find_query(
    *,
    service: str | None = None,
    segment: str | None = None,
    since: int | None = None,
    until: int | None = None,
    stage: str | None = None,
    limit: int = 50,
) -> sa.Select[Any]:
    """The query behind `find`: led by `diagnosis` where a stage is asked for, else by `request`."""
    of_request = sa.and_(diagnosis.c.request_id == request.c.request_id, diagnosis.c.kind == COVERAGE)
    joined = request.join(diagnosis, of_request, isouter=stage is None)
    led = request if stage is None else diagnosis
    query = sa.select(*_COLUMNS).select_from(joined)
    if service is not None:
        query = query.where(request.c.service == clean(service))
    if segment is not None:
        query = query.where(request.c.segment == clean(segment))
    if since is not None:
        query = query.where(led.c.started_at >= since)
    if until is not None:
        query = query.where(led.c.started_at < until)
    if stage is not None:
        query = query.where(diagnosis.c.stage == stage)
    return query.order_by(led.c.started_at.desc(), led.c.request_id.desc()).limit(limit)


def find(connection: sa.Connection, query: sa.Select[Any]) -> list[RequestRow]:
    """The rows of a `find_query`."""
    return _rows(connection.execute(query).mappings())


def analyzed(
    connection: sa.Connection,
    *,
    service: str | None,
    kind: str,
    since: int | None,
    after: RequestRow | None,
    limit: int,
) -> list[RequestRow]:
    """The next `limit` requests after `after` that have an analysis of this kind, oldest first."""
    query = (
        sa.select(*_COLUMNS)
        .select_from(request.join(diagnosis, diagnosis.c.request_id == request.c.request_id))
        .where(diagnosis.c.kind == kind)
    )
    if service is not None:
        query = query.where(request.c.service == clean(service))
    if since is not None:
        query = query.where(diagnosis.c.started_at >= since)
    if after is not None:
        place = sa.tuple_(diagnosis.c.started_at, diagnosis.c.request_id)
        query = query.where(place > sa.tuple_(after.started_at, after.request_id))
    ordered = query.order_by(diagnosis.c.started_at, diagnosis.c.request_id).limit(limit)
    return _rows(connection.execute(ordered).mappings())


def ids_starting(connection: sa.Connection, beginning: str, limit: int) -> list[str]:
    """Up to `limit` request ids that start so, in order."""
    same = sa.func.substr(request.c.request_id, 1, len(beginning)) == beginning
    return list(
        connection.scalars(sa.select(request.c.request_id).where(same).order_by(request.c.request_id).limit(limit))
    )


def _rows(rows: Iterable[Any]) -> list[RequestRow]:
    return [_row(dict(row)) for row in rows]


def _row(values: dict[str, Any]) -> RequestRow:
    states = {stage: values.pop(f"{stage}_state") for stage in STAGE_NAMES}
    flags = tuple(json.loads(values.pop("flags")))
    return RequestRow(**values, flags=flags, states={stage: state for stage, state in states.items() if state})
