"""Requests as a page lists them, and slices of a window as a page draws them: work that is bounded at any store's size.

A page looks at the newest requests before a place, as far as `Listing.scan` of them, and gives out those that match;
who wants more goes on from where it ended. A slice of time gives its first requests, so that a window costs as much
in a store of a million requests as in one of ten thousand. All is led by the indexes on time, or by the index of
words, which is in the order of time as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.store import _search as search
from ragtrace.store._requests import ANALYZED, COLUMNS, listed
from ragtrace.store.database import chunks, clean
from ragtrace.store.rows import COVERAGE, DiagnosisSummary, Listing, Position, RequestPage, RequestRow
from ragtrace.store.tables import STAGE_NAMES, diagnosis, request, request_label, trait

__all__ = ["bounds", "count", "page", "services_of", "slices", "start_of"]

_OF_REQUEST: Final = sa.and_(diagnosis.c.request_id == request.c.request_id, diagnosis.c.kind == COVERAGE)
_JOINED: Final = request.join(diagnosis, _OF_REQUEST, isouter=True)
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
    if wanted.stage is not None:
        found.append(diagnosis.c.stage == wanted.stage)
    if wanted.verdict is not None:
        found.append(diagnosis.c.verdict == wanted.verdict)
    if wanted.rollout is not None:
        found.append(diagnosis.c.suspected_rollout == wanted.rollout)
    if wanted.doubt is not None:
        states = [diagnosis.c[f"{stage}_state"] for stage in STAGE_NAMES]
        found.append(sa.or_(*(state == wanted.doubt for state in states)))
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


def bounds(connection: sa.Connection, service: str, tenant: str | None) -> tuple[int, int] | None:
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
