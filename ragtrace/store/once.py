"""Remembers what was counted, so that nothing counts twice: these rows outlive the requests that they are about."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from ragtrace.store.database import insert
from ragtrace.store.tables import counted

__all__ = ["uncounted"]


def uncounted(connection: sa.Connection, given: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of these (id, kind) that were not counted before. From now on they are."""
    rows = [{"request_id": identity, "kind": kind} for identity, kind in sorted(set(given))]
    if not rows:
        return set()
    statement = insert(connection, counted).on_conflict_do_nothing().returning(counted.c.request_id, counted.c.kind)
    return {(row.request_id, row.kind) for row in connection.execute(statement, rows)}
