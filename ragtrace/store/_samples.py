"""Samples: analyzed requests of a service or segment, drawn evenly from its traffic, with their states and scores.

Up to a bound every so-manieth request is drawn. Where there are more, nobody counts them: how dense the traffic is in
each slice of the window is read off its first requests, and moments are set where the same share of the traffic lies
between any two. So a sample of a million requests takes no longer than one of ten thousand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from ragtrace.store._requests import ANALYZED
from ragtrace.store.database import chunks, clean
from ragtrace.store.populations import values_of
from ragtrace.store.rows import Sample, Sampled
from ragtrace.store.tables import DISTANT, STAGE_NAMES, diagnosis, request
from ragtrace.types import Stage

__all__ = ["count_query", "sample", "sample_query", "scored"]

_COUNTED: Final = 20  # times as many requests as are drawn: more are estimated
_SLICES: Final = 200
_FIRST: Final = 32  # requests of a slice, by which its traffic is known to a sixth
_PLACES: Final = 7  # the first to the seventh request behind a moment, by turns: the first often begins a burst

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
_SAMPLED_NAMES: Final = tuple(column.name for column in _SAMPLED)
_STATES: Final = (
    *(diagnosis.c[f"{stage}_{what}"] for stage in STAGE_NAMES for what in ("state", "reason")),
    diagnosis.c.doubted,
)
_DIAGNOSED: Final = sa.select(*_SAMPLED, *_STATES).select_from(ANALYZED)
_NONE: Final[frozenset[Stage]] = frozenset()


def count_query(service: str, segment: str | None, since: int, until: int, most: int | None = None) -> sa.Select[Any]:
    """How many requests of the random stratum started in [since, until), counted as far as `most`."""
    within = sa.select(request.c.request_id).where(*_within(service, segment, since, until))
    return sa.select(sa.func.count()).select_from(within.limit(most).subquery())


def sample_query(service: str, segment: str | None, since: int, until: int, every: int) -> sa.Select[Any]:
    """The ids of every `every`-th of the requests in time order."""
    ids = sa.select(request.c.request_id).where(*_within(service, segment, since, until))
    if every == 1:
        return ids
    place = sa.func.row_number().over(order_by=(request.c.started_at, request.c.request_id))
    numbered = ids.add_columns(place.label("place")).subquery()
    return sa.select(numbered.c.request_id).where(numbered.c.place % every == 0)


def sample(
    connection: sa.Connection,
    service: str,
    segment: str | None,
    since: int,
    until: int,
    metrics: Sequence[str],
    limit: int | None,
) -> Sample:
    """Up to about `limit` requests, those of them that are analyzed oldest first, and how many there are in all."""
    most = None if limit is None else _COUNTED * limit + 1
    stored = connection.scalar(count_query(service, segment, since, until, most)) or 0
    is_estimate = limit is not None and stored == most
    if is_estimate and limit is not None:
        ids, stored = _spread(connection, service, segment, since, until, limit)
        drawn = len(ids)
    else:
        every = 1 if limit is None else max(1, -(-stored // limit))
        ids, drawn = list(connection.scalars(sample_query(service, segment, since, until, every))), stored // every
    rows = _diagnosed(connection, ids, metrics)
    return Sample(tuple(rows), stored, max(drawn, len(rows)), is_estimate)


def _spread(
    connection: sa.Connection, service: str, segment: str | None, since: int, until: int, limit: int
) -> tuple[list[str], int]:
    """About `limit` requests, evenly in the traffic, and an estimate of how many there are."""
    width = max(1, -(-(until - since) // _SLICES))
    starts = [start for number in range(_SLICES) if (start := since + number * width) < until]
    traffic = _densities(connection, service, segment, starts, width, until)
    share = sum(traffic) / limit
    moments, passed, wanted = [], 0.0, share / 2
    for start, requests in zip(starts, traffic, strict=True):
        while wanted < passed + requests:
            moments.append(round(start + width * (wanted - passed) / requests))
            wanted += share
        passed += requests
    found = []
    for offset in range(_PLACES):
        at, moment = _listed(connection, moments[offset::_PLACES])
        behind = sa.select(request.c.request_id).where(*_within(service, segment, moment, until))
        one = behind.order_by(request.c.started_at, request.c.request_id).limit(1).offset(offset).scalar_subquery()
        found.append(sa.select(one).select_from(at))
    ids = dict.fromkeys(connection.scalars(sa.union_all(*found)))
    return [one for one in ids if one is not None], round(sum(traffic))


def _densities(
    connection: sa.Connection, service: str, segment: str | None, starts: Sequence[int], width: int, until: int
) -> list[float]:
    """How many requests each slice has: as many as it can be seen to have, else by how soon its first ones came."""
    slices, start = _listed(connection, starts)
    began = sa.select(request.c.started_at).where(*_within(service, segment, start, until))
    last = began.order_by(request.c.started_at, request.c.request_id).limit(1).offset(_FIRST - 1).scalar_subquery()
    seen = sa.select(start.label("start"), last.label("last")).select_from(slices).cte("seen")
    seen = seen.prefix_with("MATERIALIZED")  # else each database works `last` out twice
    end = sa.case((seen.c.start + width < until, seen.c.start + width), else_=until)
    few = sa.select(sa.func.count()).where(*_within(service, segment, seen.c.start, end)).scalar_subquery()
    number = sa.case((seen.c.last < end, None), else_=few)
    rows = connection.execute(sa.select(seen.c.start, seen.c.last, number))
    found = {
        start: float(number) if number is not None else _FIRST * width / max(1, last - start)
        for start, last, number in rows
    }
    return [found[start] for start in starts]


def _listed(connection: sa.Connection, numbers: Sequence[int]) -> tuple[sa.FromClause, sa.ColumnElement[int]]:
    """Numbers as a table of one column, by one parameter however many they are."""
    if connection.dialect.name == "sqlite":
        table = sa.func.json_each(json.dumps(numbers)).table_valued(sa.column("value", sa.BigInteger))
    else:
        array = sa.cast(list(numbers), sa.dialects.postgresql.ARRAY(sa.BigInteger))
        table = sa.func.unnest(array).table_valued(sa.column("value", sa.BigInteger)).render_derived()
    return table, table.c.value


def scored(connection: sa.Connection, request_ids: Iterable[str], metrics: Sequence[str]) -> list[Sampled]:
    """Those of the requests that have an analysis, whatever their stratum, oldest first."""
    return _diagnosed(connection, request_ids, metrics)


_Moment: TypeAlias = int | sa.ColumnElement[int]


def _within(service: str, segment: str | None, since: _Moment, until: _Moment) -> list[sa.ColumnElement[bool]]:
    """One lower bound alone: of two, SQLite may take the earlier one to seek by."""
    bounds = [request.c.service == clean(service), request.c.started_at >= since, request.c.started_at < until]
    if segment is not None:
        bounds.append(request.c.segment == clean(segment))
    return [*bounds, request.c.head_sampled.is_(True)]


def _diagnosed(connection: sa.Connection, request_ids: Iterable[str], metrics: Sequence[str]) -> list[Sampled]:
    """Those that have an analysis, oldest first."""
    found: list[Sampled] = []
    none = (None,) * len(metrics)
    for ids in chunks(request_ids):
        values = values_of(connection, ids, metrics)
        rows = connection.execute(_DIAGNOSED.where(request.c.request_id.in_(ids)))
        found += [_sampled(row, dict(zip(metrics, values.get(row[0], none), strict=True))) for row in rows]
    return sorted(found, key=lambda each: (each.started_at, each.request_id))


def _sampled(row: Any, scores: dict[str, float | None]) -> Sampled:
    own, stages = len(_SAMPLED), len(_SAMPLED) + 2 * len(STAGE_NAMES)  # by place: by name it takes twice as long
    doubted = row[stages].split(",") if row[stages] else ()
    return Sampled(
        **dict(zip(_SAMPLED_NAMES, row[:own], strict=True)),
        states={stage: state for stage, state in zip(STAGE_NAMES, row[own:stages:2], strict=True) if state},
        reasons={stage: reason for stage, reason in zip(STAGE_NAMES, row[own + 1 : stages : 2], strict=True) if reason},
        scores=scores,
        doubted=frozenset(doubted).intersection(STAGE_NAMES) if doubted else _NONE,
        is_distant=DISTANT in doubted,
    )
