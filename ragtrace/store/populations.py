"""Populations: the requests of one side of a comparison, the traits that tell which can be compared; and samples, which
are analyzed requests of a service or segment, drawn evenly from its traffic, with their states and scores.

A record's payload is large; a comparison of many thousands of requests reads none of them: it reads narrow columns
alone, page by page.

For a sample every so-manieth request is drawn, up to a bound. Where there are more, nobody counts them: how dense the
traffic is in each slice of the window is read off its first requests, and moments are set where the same share of the
traffic lies between any two. So a sample of a million requests takes no longer than one of ten thousand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from ragtrace.registry.instruments import ANSWER_COVERAGE
from ragtrace.store._ground_truth import question_hash
from ragtrace.store._requests import ANALYZED
from ragtrace.store.database import begins, bigint, chunks, clean, insert_for, pages
from ragtrace.store.rows import (
    COVERAGE,
    SILENT,
    UNANSWERED,
    MeasuredRequest,
    Replayed,
    RequestFilter,
    Sample,
    Sampled,
    Traits,
)
from ragtrace.store.tables import DISTANT, STAGE_NAMES, diagnosis, release, request, score, trait
from ragtrace.types import GenerateRun, RequestRecord, Stage

__all__ = [
    "REPLAY",
    "asked",
    "count_query",
    "is_of_versions",
    "measured",
    "put_traits",
    "replayed",
    "replays",
    "sample",
    "sample_query",
    "scored",
    "services",
    "traits_of",
    "values_of",
]

REPLAY: Final = "ragtrace.replay."
"""What the names of a replay's attributes begin with: `run`, `question`, `attempt`, `document`."""


def traits_of(record: RequestRecord) -> Traits:
    """The traits of a record: a replay's own question id, else the hash of what was asked."""
    replay = {name: record.attributes.get(REPLAY + name) for name in ("run", "question", "attempt", "document")}
    asked = record.query.original
    attempt = replay["attempt"]
    return Traits(
        question=_text(replay["question"]) or (question_hash(asked) if asked.strip() else ""),
        cluster=clean(record.session_id) or _text(replay["document"]),
        versions={clean(name): clean(version) for name, version in record.versions.items()},
        input_tokens=_tokens(record, "input_tokens"),
        output_tokens=_tokens(record, "output_tokens"),
        replay=_text(replay["run"]),
        attempt=bigint(attempt) if isinstance(attempt, int) else 1,
    )


def _text(value: object) -> str | None:
    return clean(str(value)) if value not in (None, "") else None


def _tokens(record: RequestRecord, kind: str) -> int | None:
    usages = [run.generation.usage for run in record.stages if isinstance(run, GenerateRun)]
    known = [number for usage in usages if usage and (number := getattr(usage, kind)) is not None]
    return max(0, bigint(sum(known))) if known else None


def put_traits(connection: sa.Connection, records: Sequence[RequestRecord]) -> None:
    """Write the traits of records that are new or changed."""
    rows = [_row(record) for record in records]
    if rows:
        connection.execute(_upsert(connection.dialect.name), rows)


@cache
def _upsert(dialect: str) -> sa.Insert:
    statement = insert_for(dialect, trait)
    rest = {column.name: statement.excluded[column.name] for column in trait.c if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=["request_id"], set_=rest)


def _row(record: RequestRecord) -> dict[str, Any]:
    found = traits_of(record)
    values = {name: getattr(found, name) for name in Traits.__slots__}
    return {"request_id": record.request_id, **values, "versions": json.dumps(found.versions, sort_keys=True)}


def replayed(connection: sa.Connection, run: str) -> list[Replayed]:
    """The requests of a replay by question, the earlier attempts first."""
    columns = (trait.c.question, trait.c.attempt, request.c.request_id, request.c.service, request.c.status)
    joined = trait.join(request, request.c.request_id == trait.c.request_id)
    of_run = sa.select(*columns).select_from(joined).where(trait.c.replay == clean(run))
    return [Replayed(*row) for row in connection.execute(of_run.order_by(trait.c.question, trait.c.attempt))]


def replayed_services(connection: sa.Connection, tenant: str | None) -> list[tuple[str, str]]:
    """Each replay with each service that it has requests of, the one with the newest request first."""
    pair = (trait.c.replay, request.c.service)
    joined = trait.join(request, request.c.request_id == trait.c.request_id)
    query = sa.select(*pair).select_from(joined).where(trait.c.replay.is_not(None))
    if tenant is not None:
        query = query.where(begins(request.c.service, f"{tenant}/"))
    ordered = query.group_by(*pair).order_by(sa.func.max(request.c.started_at).desc(), *pair)
    return [(replay, service) for replay, service in connection.execute(ordered)]


def replays(connection: sa.Connection) -> list[str]:
    """The names of the replays that have requests."""
    return _distinct(connection, trait.c.replay)


_PAGE: Final = 1_000
_OF_REQUEST: Final = ("request_id", "segment", "started_at", "ended_at", "status", "head_sampled", "head_probability")
_OF_TRAIT: Final = ("question", "cluster", "versions", "input_tokens", "output_tokens", "replay", "attempt")
_OF_DIAGNOSIS: Final = ("analyzer_version", "reference", "verdict", "cause", "judge")
_STATES: Final = tuple((stage, f"{stage}_state") for stage in STAGE_NAMES)
_COLUMNS: Final = (
    *(request.c[name] for name in _OF_REQUEST),
    *(trait.c[name] for name in _OF_TRAIT),
    *(diagnosis.c[name] for name in (*_OF_DIAGNOSIS, *(column for _, column in _STATES))),
)
_JOINED: Final = request.join(trait, trait.c.request_id == request.c.request_id).join(
    diagnosis, sa.and_(diagnosis.c.request_id == request.c.request_id, diagnosis.c.kind == COVERAGE), isouter=True
)

_SPAN: Final = sa.select(sa.func.min(request.c.started_at), sa.func.max(request.c.started_at)).select_from(
    trait.join(request, request.c.request_id == trait.c.request_id)
)
"""When a replay's first and last request began: no other time is looked through for it."""

_COVERS: Final = score.c.metric == ANSWER_COVERAGE.id
_SILENCE: Final = sa.case(
    (sa.and_(_COVERS, score.c.value.is_not(None)), 0.0), (sa.and_(_COVERS, score.c.reason.in_(SILENT)), 1.0)
)
"""As `rows.unanswered` has it."""


def services(connection: sa.Connection) -> list[str]:
    """The services that have requests, by name."""
    return _distinct(connection, request.c.service)


def segments(connection: sa.Connection, service: str) -> list[str]:
    """The segments of which a service has requests, by name."""
    return _distinct(connection, request.c.segment, request.c.service == clean(service))


def asked(connection: sa.Connection, service: str, questions: Iterable[str]) -> set[str]:
    """Those of the questions that requests of a service asked, replays by an id of their own left out."""
    hashes = {question: question_hash(question) for question in questions}
    query = (
        sa.select(trait.c.question)
        .join(request, request.c.request_id == trait.c.request_id)
        .where(request.c.service == clean(service))
        .distinct()
    )
    known: set[str] = set()
    for some in chunks(sorted(set(hashes.values()))):
        known.update(connection.scalars(query.where(trait.c.question.in_(some))))
    return {question for question, hashed in hashes.items() if hashed in known}


def _distinct(connection: sa.Connection, column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> list[str]:
    """The values of a column in order, by one look into its index for each."""
    found: list[str] = []
    query = sa.select(sa.func.min(column)).where(column.is_not(None), *where)
    while (value := connection.scalar(query.where(column > found[-1]) if found else query)) is not None:
        found.append(value)
    return found


def measured(connection: sa.Connection, wanted: RequestFilter, metrics: Sequence[str]) -> Iterator[MeasuredRequest]:
    """The requests that are wanted, oldest first."""
    versions = {clean(component): clean(version) for component, version in wanted.versions}
    others = {clean(component): clean(version) for component, version in wanted.others}
    key = [request.c.started_at, request.c.request_id]
    for page in pages(lambda: nullcontext(connection), _query(connection, wanted, versions), key, _PAGE):
        rows = [row for row in page if is_of_versions(_versions(row.versions), versions, others)]
        values = values_of(connection, [row.request_id for row in rows], metrics)
        yield from (_measured(row, values.get(row.request_id), len(metrics)) for row in rows)


def is_of_versions(carried: Mapping[str, str], versions: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """Whether a request that carries these versions is wanted; versions, others: as `RequestFilter` has them."""
    if not versions.items() <= carried.items():
        return False
    return not others or (others.keys() <= carried.keys() and not others.items() <= carried.items())


def _query(connection: sa.Connection, wanted: RequestFilter, versions: Mapping[str, str]) -> sa.Select[Any]:
    since = [at for at in (wanted.since, _first_seen(connection, wanted.service, versions)) if at is not None]
    until = [] if wanted.until is None else [wanted.until]
    query = sa.select(*_COLUMNS).select_from(_JOINED).where(request.c.service == clean(wanted.service))
    if wanted.replay is None:
        query = query.where(trait.c.replay.is_(None))
    else:
        of_replay = trait.c.replay == clean(wanted.replay)
        query = query.where(request.c.request_id.in_(sa.select(trait.c.request_id).where(of_replay)))
        first, last = connection.execute(_SPAN.where(of_replay)).one()
        since, until = [*since, first or 0], [*until, (last or 0) + 1]
    for pair in versions.items():  # as `put_traits` writes it; what else may look so is left out by `measured`
        query = query.where(trait.c.versions.contains(json.dumps(dict([pair]))[1:-1], autoescape=True))
    if since:
        query = query.where(request.c.started_at >= max(since))
    if until:
        query = query.where(request.c.started_at < min(until))
    return query


def _first_seen(connection: sa.Connection, service: str, versions: Mapping[str, str]) -> int | None:
    """When all of these versions had been seen: no earlier request carries them."""
    query = sa.select(release.c.first_seen_at).where(release.c.service == clean(service))
    seen = (
        connection.scalar(query.where(release.c.component == component, release.c.version == version))
        for component, version in versions.items()
    )
    return max((at for at in seen if at is not None), default=None)


def values_of(
    connection: sa.Connection, request_ids: Sequence[str], metrics: Sequence[str]
) -> dict[str, tuple[float | None, ...]]:
    """The coverage scores of requests, in the order of the metrics."""
    if not (request_ids and metrics):
        return {}
    rows = connection.execute(_values_query(tuple(metrics)), {"ids": request_ids})
    return {row[0]: tuple(row[1:]) for row in rows}


@lru_cache(maxsize=64)
def _values_query(metrics: tuple[str, ...]) -> sa.Select[Any]:
    """Grouped by what leads to the scores, so that nothing is sorted."""
    columns = (
        sa.func.max(_SILENCE if metric == UNANSWERED else sa.case((score.c.metric == metric, score.c.value)))
        for metric in metrics
    )
    chosen = score.c.request_id.in_(sa.bindparam("ids", expanding=True)), score.c.kind == COVERAGE
    return sa.select(score.c.request_id, *columns).where(*chosen).group_by(score.c.request_id)


def _measured(row: sa.Row[Any], values: tuple[float | None, ...] | None, metrics: int) -> MeasuredRequest:
    traits = Traits(
        question=row.question,
        cluster=row.cluster,
        versions=_versions(row.versions),
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        replay=row.replay,
        attempt=row.attempt,
    )
    return MeasuredRequest(
        request_id=row.request_id,
        segment=row.segment,
        started_at=row.started_at,
        ended_at=row.ended_at,
        status=row.status,
        head_sampled=row.head_sampled,
        head_probability=row.head_probability,
        traits=traits,
        analyzer_version=row.analyzer_version,
        reference=row.reference or "none",
        verdict=row.verdict,
        states={stage: state for stage, column in _STATES if (state := getattr(row, column)) is not None},
        cause=row.cause,
        judge=row.judge,
        values=(None,) * metrics if values is None else values,
    )


@lru_cache(maxsize=1024)
def _versions(text: str) -> dict[str, str]:
    """One object for the many requests of one release."""
    found: dict[str, str] = json.loads(text)
    return found


_COUNTED: Final = 20  # times as many requests as are drawn: more are estimated
_SLICES: Final = 200
_FIRST_OF_SLICE: Final = 32  # requests of a slice, by which its traffic is known to a sixth
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
_SAMPLED_STATES: Final = (
    *(diagnosis.c[f"{stage}_{what}"] for stage in STAGE_NAMES for what in ("state", "reason")),
    diagnosis.c.doubted,
)
_DIAGNOSED: Final = sa.select(*_SAMPLED, *_SAMPLED_STATES).select_from(ANALYZED)
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
    last = (
        began.order_by(request.c.started_at, request.c.request_id)
        .limit(1)
        .offset(_FIRST_OF_SLICE - 1)
        .scalar_subquery()
    )
    seen = sa.select(start.label("start"), last.label("last")).select_from(slices).cte("seen")
    seen = seen.prefix_with("MATERIALIZED")  # else each database works `last` out twice
    end = sa.case((seen.c.start + width < until, seen.c.start + width), else_=until)
    few = sa.select(sa.func.count()).where(*_within(service, segment, seen.c.start, end)).scalar_subquery()
    number = sa.case((seen.c.last < end, None), else_=few)
    rows = connection.execute(sa.select(seen.c.start, seen.c.last, number))
    found = {
        start: float(number) if number is not None else _FIRST_OF_SLICE * width / max(1, last - start)
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
