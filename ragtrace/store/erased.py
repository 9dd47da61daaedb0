"""Remembers what was erased, so that a late span or a second delivery of a spool does not bring it back.

Only digests are kept: they tell that something was erased to whoever brings the same again, and to nobody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import sqlalchemy as sa

from ragtrace.store.attempts import began_at, given_id
from ragtrace.store.bulk import chunks, look_up
from ragtrace.store.database import insert
from ragtrace.store.tables import request
from ragtrace.store.text import bigint, clean
from ragtrace.store.upkeep_tables import erased
from ragtrace.types import Addendum, Feedback, Item, RequestRecord

__all__ = ["add", "among", "of_id", "of_record", "of_trace", "traces_of", "without"]

_JOINING: Final = (Addendum, Feedback)


def of_record(request_id: str, started_at: int) -> str:
    """The digest of a request, which its id and its start name."""
    return _digest("request", clean(request_id), str(bigint(started_at)))


def of_id(request_id: str) -> str:
    """The digest of the id by which feedback and addenda name a request."""
    return _digest("id", clean(request_id))


def of_trace(tenant: str, trace_id: str) -> str:
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


def among(connection: sa.Connection, digests: Iterable[str]) -> set[str]:
    """Those of these digests that were erased."""
    return {digest for (digest,) in look_up(connection, (erased.c.digest,), digests)}


def add(connection: sa.Connection, digests: Iterable[str], now: float) -> None:
    """Remember these as erased."""
    rows = [{"digest": each, "at": int(now)} for each in sorted(set(digests))]
    if rows:
        connection.execute(insert(connection, erased).on_conflict_do_nothing(), rows)


def without(connection: sa.Connection, items: Sequence[Item]) -> Sequence[Item]:
    """The items without those that were erased, and without what joins a request that was."""
    digests = [_of(item) for item in items]
    gone = among(connection, {digest for digest in digests if digest is not None})
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
        return of_record(given_id(item.request_id), began_at(item))
    return of_id(item.request_id) if isinstance(item, _JOINING) else None
