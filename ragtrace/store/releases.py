"""Owns releases: which version of a component came into use when, as requests carried it or as somebody recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from ragtrace.store.database import insert
from ragtrace.store.rows import Release
from ragtrace.store.surrounding_tables import release
from ragtrace.store.text import bigint, clean
from ragtrace.types import RequestRecord

__all__ = ["CAME_AT", "find", "forget", "record", "register"]

CAME_AT: Final = sa.func.coalesce(release.c.recorded_at, release.c.first_seen_at)
"""When a version came into use: the recorded time, else the first request's."""

_KEY: Final = tuple(column.name for column in release.primary_key)
_COLUMNS: Final = (*_KEY, "first_seen_at")


def register(connection: sa.Connection, records: Sequence[RequestRecord]) -> None:
    """Note each version that the records carry, with the earliest time at which one did."""
    first: dict[tuple[str, str, str], int] = {}
    for record in records:
        for component, version in record.versions.items():
            key = (clean(record.service), clean(component), clean(version))
            first[key] = min(first.get(key, bigint(record.started_at)), bigint(record.started_at))
    if not first:
        return
    statement = insert(connection, release)
    earliest = statement.excluded.first_seen_at
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["service", "component", "version"],
            set_={"first_seen_at": earliest},
            where=sa.or_(release.c.first_seen_at.is_(None), earliest < release.c.first_seen_at),
        ),
        [dict(zip(_COLUMNS, (*key, first[key]), strict=True)) for key in sorted(first)],
    )


def record(connection: sa.Connection, service: str, component: str, version: str, at: int) -> None:
    """Note when a version came into use; a later word replaces an earlier one."""
    key = dict(zip(_KEY, map(clean, (service, component, version)), strict=True))
    statement = insert(connection, release).values(**key, recorded_at=bigint(at))
    connection.execute(
        statement.on_conflict_do_update(index_elements=list(_KEY), set_={"recorded_at": statement.excluded.recorded_at})
    )


def forget(connection: sa.Connection, service: str, component: str, version: str) -> bool:
    """Take back when a version came into use; the first request that carried it stays. False when nobody said it."""
    key = (service, component, version)
    same = [column == clean(value) for column, value in zip(release.primary_key, key, strict=True)]
    taken_back = sa.update(release).where(*same, release.c.recorded_at.is_not(None)).values(recorded_at=None)
    found = connection.execute(taken_back).rowcount > 0
    connection.execute(sa.delete(release).where(*same, release.c.first_seen_at.is_(None)))
    return found


def find(connection: sa.Connection, service: str | None) -> list[Release]:
    """All releases, earliest first."""
    query = sa.select(release).order_by(CAME_AT, *release.primary_key)
    if service is not None:
        query = query.where(release.c.service == clean(service))
    return [Release(**row) for row in connection.execute(query).mappings()]
