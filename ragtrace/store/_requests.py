"""Requests: by what they are known, which were erased, and how they are found and listed in narrow columns.

A request is known by its id and its start. A host may give an id that another request has, as a retry that keeps its
X-Request-ID does. The first such attempt that is stored has the id itself, each other one `ID~` and the time at which
it started, so that one that is written again is recognized, in whatever order they arrive. One that has its trace's id
keeps it whenever it starts: a span that comes late may have begun before all others.

What was erased is remembered, so that a late span or a second delivery of a spool does not bring it back. Only digests
are kept: they tell that something was erased to whoever brings the same again, and to nobody else.

Requests are found newest first, through the indexes. Of samples only the random stratum is drawn, since flagged
requests are the worse ones. More requests than the limit are thinned out evenly by their order in time, the same ones
each time.

A page looks at the newest requests before a place, as far as `Listing.scan` of them, and gives out those that match;
who wants more goes on from where it ended. A slice of time gives its first requests, so that a window costs as much
in a store of a million requests as in one of ten thousand. All is led by the indexes on time, or by the index of
words, which is in the order of time as well.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.plausible_values import stated_start
from ragtrace.store import _search as search
from ragtrace.store.database import bigint, chunks, clean, insert, look_up
from ragtrace.store.rows import COVERAGE, DiagnosisSummary, Listing, Position, RequestPage, RequestRow
from ragtrace.store.tables import STAGE_NAMES, diagnosis, erased, request, request_label, trait
from ragtrace.types import Addendum, Fault, Feedback, Item, RequestRecord, replace

__all__ = [
    "ANALYZED",
    "BEGAN_AT",
    "COLUMNS",
    "analyzed",
    "another",
    "began_at",
    "count",
    "digest_of_id",
    "digest_of_record",
    "digest_of_trace",
    "erased_among",
    "find",
    "find_query",
    "given_id",
    "ids_starting",
    "listed",
    "newest",
    "page",
    "remember_erased",
    "repeated",
    "services_of",
    "slices",
    "split",
    "start_of",
    "tell_apart",
    "tenants",
    "time_bounds",
    "traces_of",
    "without_erased",
]

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


_JOINING: Final = (Addendum, Feedback)


def digest_of_record(request_id: str, started_at: int) -> str:
    """The digest of a request, which its id and its start name."""
    return _digest("request", clean(request_id), str(bigint(started_at)))


def digest_of_id(request_id: str) -> str:
    """The digest of the id by which feedback and addenda name a request."""
    return _digest("id", clean(request_id))


def digest_of_trace(tenant: str, trace_id: str) -> str:
    """The digest of a trace whose spans a tenant sends."""
    return _digest("trace", clean(tenant), clean(trace_id))


def traces_of(request_id: str, tenant_id: str | None, trace_id: str | None) -> set[tuple[str, str]]:
    """The traces, by tenant and id, in which a request's spans may have come: one that came with its tenant's token has
    the tenant's name before its id."""
    tenant, known = clean(tenant_id) or "", clean(trace_id)
    if not known:
        return set()
    return {(tenant, known)} if clean(request_id).startswith(f"{tenant}:") else {(tenant, known), ("", known)}


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\x00".join(parts).encode(), digest_size=16).hexdigest()


def erased_among(connection: sa.Connection, digests: Iterable[str]) -> set[str]:
    """Those of these digests that were erased."""
    return {digest for (digest,) in look_up(connection, (erased.c.digest,), digests)}


def remember_erased(connection: sa.Connection, digests: Iterable[str], now: float) -> None:
    """Remember these as erased."""
    rows = [{"digest": each, "at": int(now)} for each in sorted(set(digests))]
    if rows:
        connection.execute(insert(connection, erased).on_conflict_do_nothing(), rows)


def without_erased(connection: sa.Connection, items: Sequence[Item]) -> Sequence[Item]:
    """The items without those that were erased, and without what joins a request that was."""
    digests = [_of(item) for item in items]
    gone = erased_among(connection, {digest for digest in digests if digest is not None})
    if not gone:
        return items
    suspect = {clean(item.request_id) for item in items if isinstance(item, _JOINING) and _of(item) in gone}
    back = {clean(item.request_id) for item in items if isinstance(item, RequestRecord) and _of(item) not in gone}
    for ids in chunks(suspect):  # a host may have given an erased id again
        back.update(connection.scalars(sa.select(request.c.request_id).where(request.c.request_id.in_(ids))))
    return [
        item
        for item, digest in zip(items, digests, strict=True)
        if digest not in gone or (isinstance(item, _JOINING) and clean(item.request_id) in back)
    ]


def _of(item: Item) -> str | None:
    if isinstance(item, RequestRecord):
        return digest_of_record(given_id(item.request_id), began_at(item))
    return digest_of_id(item.request_id) if isinstance(item, _JOINING) else None


_OF_DIAGNOSIS: Final = ("verdict", "stage", "owner", "suspected_rollout")
_OF_REQUEST: Final = tuple(name for name in RequestRow.__slots__ if name not in (*_OF_DIAGNOSIS, "states", "reasons"))
COLUMNS: Final = (
    *(request.c[name] for name in _OF_REQUEST),
    *(diagnosis.c[name] for name in _OF_DIAGNOSIS),
    *(diagnosis.c[f"{stage}_state"] for stage in STAGE_NAMES),
    *(diagnosis.c[f"{stage}_reason"] for stage in STAGE_NAMES),
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
    query = sa.select(*COLUMNS).select_from(joined)
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
    return listed(connection.execute(query).all())


def analyzed(service: str | None, kind: str, since: int | None) -> sa.Select[Any]:
    """The query of the requests that have an analysis of this kind. Their rows are read by `listed`."""
    query = (
        sa.select(*COLUMNS)
        .select_from(request.join(diagnosis, diagnosis.c.request_id == request.c.request_id))
        .where(diagnosis.c.kind == kind)
    )
    if service is not None:
        query = query.where(request.c.service == clean(service))
    if since is not None:
        query = query.where(diagnosis.c.started_at >= since)
    return query


def ids_starting(connection: sa.Connection, beginning: str, limit: int) -> list[str]:
    """Up to `limit` request ids that start so, in order."""
    same = sa.func.substr(request.c.request_id, 1, len(beginning)) == beginning
    return list(
        connection.scalars(sa.select(request.c.request_id).where(same).order_by(request.c.request_id).limit(limit))
    )


def listed(rows: Iterable[sa.Row[Any]]) -> list[RequestRow]:
    """The rows of `find_query` or `analyzed`, as they are given out."""
    return [_row(dict(row._mapping)) for row in rows]


def _row(values: dict[str, Any]) -> RequestRow:
    states = {stage: state for stage in STAGE_NAMES if (state := values.pop(f"{stage}_state"))}
    reasons = {stage: reason for stage in STAGE_NAMES if (reason := values.pop(f"{stage}_reason"))}
    flags = tuple(json.loads(values.pop("flags")))
    return RequestRow(**values, flags=flags, states=states, reasons=reasons)


ANALYZED: Final = request.join(
    diagnosis, sa.and_(diagnosis.c.request_id == request.c.request_id, diagnosis.c.kind == COVERAGE)
)


def tenants(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, str | None]:
    """The tenant of each of these requests that is stored."""
    found: dict[str, str | None] = {}
    for ids in chunks(request_ids):
        query = sa.select(request.c.request_id, request.c.tenant_id).where(request.c.request_id.in_(ids))
        found.update((row.request_id, row.tenant_id) for row in connection.execute(query))
    return found


_COVERAGE_OF_REQUEST: Final = sa.and_(diagnosis.c.request_id == request.c.request_id, diagnosis.c.kind == COVERAGE)
_JOINED: Final = request.join(diagnosis, _COVERAGE_OF_REQUEST, isouter=True)
_FIRST: Final = 4  # times as many matches of words as a page has rows: these are looked at first


def page(connection: sa.Connection, wanted: Listing, before: Position | None, limit: int, scan: int) -> RequestPage:
    """Up to `limit` requests that match, in their order, among the first `scan` ones behind a place."""
    if wanted.search is not None:
        return _searched(connection, wanted, before, limit, scan)
    near = _near(wanted, before).order_by(*_order(wanted, request.c))
    row = connection.execute(near.limit(1).offset(scan - 1)).first()
    inner = near.limit(scan).subquery()
    query = (
        sa.select(*COLUMNS)
        .select_from(inner.join(_JOINED, inner.c.request_id == request.c.request_id))
        .where(*_matching(wanted))
        .order_by(*_order(wanted, inner.c))
        .limit(limit + 1)
    )
    last = None if row is None else Position(row.started_at, row.request_id)
    return _paged(listed(connection.execute(query).all()), limit, last)


def _paged(found: list[RequestRow], limit: int, last: Position | None) -> RequestPage:
    """last: the place of the last request that was looked at, where there may be more behind it."""
    if len(found) > limit:
        behind = found[limit - 1]
        return RequestPage(tuple(found[:limit]), Position(behind.started_at, behind.request_id), None)
    return RequestPage(tuple(found), last, last)


def _searched(
    connection: sa.Connection, wanted: Listing, before: Position | None, limit: int, scan: int
) -> RequestPage:
    """The requests that hold words. Most pages are full with the first few, and look at no more."""
    below = None if before is None else search.number_of(connection, wanted, before)
    found: list[RequestRow] = []
    last, left = None, scan
    while left > 0 and len(found) <= limit:
        most = min(left, _FIRST * limit if left == scan else left)
        matched, below = search.matches(connection, wanted, below, most)
        found += _of_matched(connection, wanted, matched)
        left -= most
        last = None
        if below is None:
            break
        is_own = len(matched) == most
        last = search.place_of(connection, below, matched[-1][0] if is_own else None)
        if not is_own:
            break
    return _paged(found, limit, last)


def _of_matched(connection: sa.Connection, wanted: Listing, matched: Sequence[tuple[str, int]]) -> list[RequestRow]:
    """Those of the requests, in their order, of which the rest of the filter is true as well."""
    found: dict[str, RequestRow] = {}
    for ids in chunks(request_id for request_id, _ in matched):
        query = sa.select(*COLUMNS).select_from(_JOINED).where(request.c.request_id.in_(ids), *_matching(wanted))
        found |= {row.request_id: row for row in listed(connection.execute(query).all())}
    return [found[request_id] for request_id, _ in matched if request_id in found]


def _near(wanted: Listing, before: Position | None) -> sa.Select[Any]:
    """The requests to look through: what an index on time leads to."""
    query = sa.select(request.c.request_id, request.c.started_at)
    for name in _led_by(wanted):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(request.c[name] == clean(value))
    query = query.where(*_within(wanted))
    if before is not None:
        here = sa.tuple_(request.c.started_at, request.c.request_id)
        place = sa.tuple_(sa.literal(before.started_at), sa.literal(clean(before.request_id)))
        at, then = request.c.started_at, before.started_at  # PostgreSQL and SQLite both seek by these
        query = query.where(at >= then, here > place) if wanted.oldest_first else query.where(at <= then, here < place)
    return query


def _order(wanted: Listing, columns: Any) -> list[sa.ColumnElement[Any]]:
    """By time."""
    return [columns[name] if wanted.oldest_first else columns[name].desc() for name in ("started_at", "request_id")]


def _within(wanted: Listing) -> list[sa.ColumnElement[bool]]:
    """What is asked of a request's start."""
    found: list[sa.ColumnElement[bool]] = []
    if wanted.since is not None:
        found.append(request.c.started_at >= wanted.since)
    if wanted.until is not None:
        found.append(request.c.started_at < wanted.until)
    return found


def _led_by(wanted: Listing) -> tuple[str, ...]:
    """The fields that one index leads to together; by the others the requests that it leads to are sifted."""
    if wanted.search is not None:
        return ()
    if wanted.session_id is not None:
        return ("session_id",)
    return ("tenant_id",) if wanted.service is None else ("service", "segment", "tenant_id")


def _matching(wanted: Listing) -> list[sa.ColumnElement[bool]]:
    """What else is asked of a request."""
    found: list[sa.ColumnElement[bool]] = []
    for name in {"service", "segment", "tenant_id", "session_id"}.difference(_led_by(wanted)):
        if (value := getattr(wanted, name)) is not None:
            found.append(request.c[name] == clean(value))
    if wanted.search is not None:  # its order is that of the index, which knows milliseconds
        found += _within(wanted)
    if wanted.stage is not None and wanted.doubt is None:
        found.append(diagnosis.c.stage == wanted.stage)
    if wanted.verdict is not None:
        found.append(diagnosis.c.verdict == wanted.verdict)
    if wanted.rollout is not None:
        found.append(diagnosis.c.suspected_rollout == wanted.rollout)
    if wanted.doubt is not None:
        stages = STAGE_NAMES if wanted.stage is None else (wanted.stage,)
        states = [diagnosis.c[f"{stage}_state"] for stage in stages]
        found.append(sa.or_(*(state == wanted.doubt for state in states)))
    if wanted.in_doubt is not None:
        names = sa.literal(",").concat(diagnosis.c.doubted).concat(",")
        found.append(names.contains(f",{wanted.in_doubt},", autoescape=True))
    if wanted.reason is not None:
        found.append(sa.or_(*(diagnosis.c[f"{stage}_reason"] == wanted.reason for stage in STAGE_NAMES)))
    if wanted.status is not None:
        found.append(request.c.status == wanted.status)
    if wanted.flag is not None:
        found.append(request.c.flags.contains(json.dumps(clean(wanted.flag)), autoescape=True))
    if wanted.provider is not None:
        found.append(diagnosis.c.providers.contains(json.dumps(clean(wanted.provider)), autoescape=True))
    if wanted.version is not None:
        component, _, version = wanted.version.partition("=")
        written = json.dumps({clean(component): clean(version)})[1:-1]  # as `populations.put_traits` writes it
        carries = sa.select(trait.c.request_id).where(
            trait.c.request_id == request.c.request_id, trait.c.versions.contains(written, autoescape=True)
        )
        found.append(carries.exists())
    if wanted.is_labeled is not None:
        labels = sa.select(request_label.c.request_id).where(request_label.c.request_id == request.c.request_id)
        found.append(labels.exists() if wanted.is_labeled else ~labels.exists())
    return found


_GLANCED: Final = (
    *(request.c[name] for name in ("request_id", "segment", "started_at", "head_probability")),
    *(diagnosis.c[name] for name in ("verdict", "stage", "cause", "suspected_rollout", "expenses")),
)
_OF_STAGES: Final = tuple(diagnosis.c[f"{stage}_{what}"] for what in ("state", "reason") for stage in STAGE_NAMES)


def slices(
    connection: sa.Connection, wanted: Listing, bounds: Sequence[int], each: int
) -> list[list[DiagnosisSummary]]:
    """Of each slice between two neighbors of `bounds` the first `each` analyzed requests of the random stratum."""
    query = (
        sa.select(*_GLANCED, *_OF_STAGES)
        .select_from(ANALYZED)
        .where(request.c.head_sampled.is_(True))
        .where(request.c.started_at >= sa.bindparam("since"), request.c.started_at < sa.bindparam("until"))
        .order_by(request.c.started_at)
        .limit(each)
    )
    for name in ("service", "segment", "tenant_id"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(request.c[name] == clean(value))
    return [
        [_glance(row) for row in connection.execute(query, {"since": since, "until": until})]
        for since, until in pairwise(bounds)
    ]


def _glance(row: Sequence[Any]) -> DiagnosisSummary:
    own, stages = len(_GLANCED), len(STAGE_NAMES)
    return DiagnosisSummary._make((*row[:own], tuple(row[own : own + stages]), tuple(row[own + stages :])))


def count(connection: sa.Connection, wanted: Listing, most: int) -> int:
    """How many requests an index on time leads to for `wanted`, counted as far as `most`."""
    some = _near(wanted, None).limit(most).subquery()
    return connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0


def start_of(connection: sa.Connection, wanted: Listing, number: int) -> int | None:
    """When the request began that is the `number`-th newest of those that an index on time leads to, from 1."""
    query = _near(wanted, None).order_by(request.c.started_at.desc(), request.c.request_id.desc())
    row = connection.execute(query.limit(1).offset(number - 1)).first()
    return None if row is None else row.started_at


def time_bounds(connection: sa.Connection, service: str, tenant: str | None) -> tuple[int, int] | None:
    """When a service's first and last request began; None where it has none."""
    of = [request.c.service == clean(service)]
    if tenant is not None:
        of.append(request.c.tenant_id == clean(tenant))
    first = connection.scalar(sa.select(sa.func.min(request.c.started_at)).where(*of))
    last = connection.scalar(sa.select(sa.func.max(request.c.started_at)).where(*of))
    return None if first is None or last is None else (first, last)


def services_of(connection: sa.Connection, tenant: str) -> list[str]:
    """The services that have requests of a tenant, by name, by one look into an index for each."""
    found: list[str] = []
    query = sa.select(sa.func.min(request.c.service)).where(request.c.tenant_id == clean(tenant))
    while (value := connection.scalar(query.where(request.c.service > found[-1]) if found else query)) is not None:
        found.append(value)
    return found
