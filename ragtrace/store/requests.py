"""Requests in narrow columns: found by service, segment, time and first broken stage, or sampled with their scores.

They are found newest first, through the indexes. Of samples only the random stratum is drawn, since flagged requests
are the worse ones. More requests than the limit are thinned out evenly by their order in time, the same ones each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.store.database import chunks, clean
from ragtrace.store.rows import COVERAGE, RequestRow, Sampled
from ragtrace.store.tables import STAGE_NAMES, diagnosis, request, score

__all__ = [
    "analyzed",
    "count_query",
    "find",
    "find_query",
    "ids_starting",
    "sample",
    "sample_query",
    "scored",
    "tenants",
]

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


_SAMPLED: Final = (
    request.c.request_id,
    request.c.segment,
    request.c.started_at,
    request.c.head_probability,
    diagnosis.c.analyzer_version,
    diagnosis.c.verdict,
    diagnosis.c.reference,
    diagnosis.c.stage,
    diagnosis.c.cause,
    diagnosis.c.suspected_rollout,
    diagnosis.c.judge,
)
_STATES: Final = (
    *(diagnosis.c[f"{stage}_{what}"] for stage in STAGE_NAMES for what in ("state", "reason")),
    diagnosis.c.doubted,
)
_ANALYZED: Final = request.join(
    diagnosis, sa.and_(diagnosis.c.request_id == request.c.request_id, diagnosis.c.kind == COVERAGE)
)


def count_query(service: str, segment: str | None, since: int, until: int) -> sa.Select[Any]:
    """How many requests of the random stratum started in [since, until)."""
    return sa.select(sa.func.count()).select_from(request).where(*_within(service, segment, since, until))


def _count(connection: sa.Connection, service: str, segment: str | None, since: int, until: int) -> int:
    """The number of `counted_query`, analyzed or not."""
    return connection.scalar(count_query(service, segment, since, until)) or 0


def sample_query(
    service: str, segment: str | None, since: int, until: int, metrics: Sequence[str], every: int
) -> sa.Select[Any]:
    """Every `every`-th of the requests in time order that has an analysis, with one column for each metric."""
    ids = sa.select(request.c.request_id).where(*_within(service, segment, since, until))
    if every > 1:
        place = sa.func.row_number().over(order_by=(request.c.started_at, request.c.request_id))
        numbered = ids.add_columns(place.label("place")).subquery()
        ids = sa.select(numbered.c.request_id).where(numbered.c.place % every == 0)
    return _scored(metrics).where(request.c.request_id.in_(ids)).order_by(request.c.started_at, request.c.request_id)


def sample(
    connection: sa.Connection,
    service: str,
    segment: str | None,
    since: int,
    until: int,
    metrics: Sequence[str],
    limit: int | None,
) -> tuple[list[Sampled], int]:
    """Up to about `limit` analyzed requests, oldest first, and how many requests there are in all."""
    number = _count(connection, service, segment, since, until)
    every = 1 if limit is None else max(1, -(-number // limit))
    query = sample_query(service, segment, since, until, metrics, every)
    return [_sampled(row, metrics) for row in connection.execute(query)], number


def scored(connection: sa.Connection, request_ids: Iterable[str], metrics: Sequence[str]) -> list[Sampled]:
    """Those of the requests that have an analysis, whatever their stratum, oldest first."""
    found: list[Sampled] = []
    for ids in chunks(request_ids):
        query = _scored(metrics).where(request.c.request_id.in_(ids))
        found += [_sampled(row, metrics) for row in connection.execute(query)]
    return sorted(found, key=lambda each: (each.started_at, each.request_id))


def tenants(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, str | None]:
    """The tenant of each of these requests that is stored."""
    found: dict[str, str | None] = {}
    for ids in chunks(request_ids):
        query = sa.select(request.c.request_id, request.c.tenant_id).where(request.c.request_id.in_(ids))
        found.update((row.request_id, row.tenant_id) for row in connection.execute(query))
    return found


def _within(service: str, segment: str | None, since: int, until: int) -> list[sa.ColumnElement[bool]]:
    bounds = [request.c.service == clean(service), request.c.started_at >= since, request.c.started_at < until]
    if segment is not None:
        bounds.append(request.c.segment == clean(segment))
    return [*bounds, request.c.head_sampled.is_(True)]


def _scored(metrics: Sequence[str]) -> sa.Select[Any]:
    of_request = sa.and_(
        score.c.request_id == request.c.request_id, score.c.kind == COVERAGE, score.c.metric.in_(metrics)
    )
    values = [sa.func.max(sa.case((score.c.metric == metric, score.c.value))).label(metric) for metric in metrics]
    return (
        sa.select(*_SAMPLED, *_STATES, *values)
        .select_from(_ANALYZED.join(score, of_request, isouter=True))
        .group_by(*_SAMPLED, *_STATES)
    )


def _sampled(row: sa.Row[Any], metrics: Sequence[str]) -> Sampled:
    values = row._mapping
    return Sampled(
        **{column.name: values[column.name] for column in _SAMPLED},
        states={stage: state for stage in STAGE_NAMES if (state := values[f"{stage}_state"]) is not None},
        reasons={stage: reason for stage in STAGE_NAMES if (reason := values[f"{stage}_reason"]) is not None},
        doubted=frozenset(stage for stage in STAGE_NAMES if stage in (values["doubted"] or "").split(",")),
        scores={metric: values[metric] for metric in metrics},
    )
