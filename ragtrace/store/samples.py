"""Reads requests with their scores for triage: few columns of few requests, however many the store holds.

Only the random stratum is drawn, since flagged requests are the worse ones. More requests than the limit are thinned
out evenly by their order in time, the same ones each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.store.bulk import chunks
from ragtrace.store.rows import COVERAGE, Sampled
from ragtrace.store.tables import STAGE_NAMES, diagnosis, request, score
from ragtrace.store.text import clean

__all__ = ["counted", "counted_query", "draw", "drawn_query", "of_ids", "tenants"]

_COLUMNS: Final = (
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


def counted_query(service: str, segment: str | None, since: int, until: int) -> sa.Select[Any]:
    """How many requests of the random stratum started in [since, until)."""
    return sa.select(sa.func.count()).select_from(request).where(*_within(service, segment, since, until))


def counted(connection: sa.Connection, service: str, segment: str | None, since: int, until: int) -> int:
    """The number of `counted_query`, analyzed or not."""
    return connection.scalar(counted_query(service, segment, since, until)) or 0


def drawn_query(
    service: str, segment: str | None, since: int, until: int, metrics: Sequence[str], every: int
) -> sa.Select[Any]:
    """Every `every`-th of the requests in time order that has an analysis, with one column for each metric."""
    ids = sa.select(request.c.request_id).where(*_within(service, segment, since, until))
    if every > 1:
        place = sa.func.row_number().over(order_by=(request.c.started_at, request.c.request_id))
        numbered = ids.add_columns(place.label("place")).subquery()
        ids = sa.select(numbered.c.request_id).where(numbered.c.place % every == 0)
    return _scored(metrics).where(request.c.request_id.in_(ids)).order_by(request.c.started_at, request.c.request_id)


def draw(
    connection: sa.Connection,
    service: str,
    segment: str | None,
    since: int,
    until: int,
    metrics: Sequence[str],
    limit: int | None,
) -> tuple[list[Sampled], int]:
    """Up to about `limit` analyzed requests, oldest first, and how many requests there are in all."""
    number = counted(connection, service, segment, since, until)
    every = 1 if limit is None else max(1, -(-number // limit))
    query = drawn_query(service, segment, since, until, metrics, every)
    return [_sampled(row, metrics) for row in connection.execute(query)], number


def of_ids(connection: sa.Connection, request_ids: Iterable[str], metrics: Sequence[str]) -> list[Sampled]:
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
        sa.select(*_COLUMNS, *_STATES, *values)
        .select_from(_ANALYZED.join(score, of_request, isouter=True))
        .group_by(*_COLUMNS, *_STATES)
    )


def _sampled(row: sa.Row[Any], metrics: Sequence[str]) -> Sampled:
    values = row._mapping
    return Sampled(
        **{column.name: values[column.name] for column in _COLUMNS},
        states={stage: state for stage in STAGE_NAMES if (state := values[f"{stage}_state"]) is not None},
        reasons={stage: reason for stage in STAGE_NAMES if (reason := values[f"{stage}_reason"]) is not None},
        doubted=frozenset(stage for stage in STAGE_NAMES if stage in (values["doubted"] or "").split(",")),
        scores={metric: values[metric] for metric in metrics},
    )
