"""Owns what belongs to a request and goes with it: everything but what was counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import sqlalchemy as sa

from ragtrace.store.bulk import chunks
from ragtrace.store.compared_tables import trait
from ragtrace.store.tables import addendum, analysis, diagnosis, feedback, job, request, score
from ragtrace.store.upkeep_tables import attribution_share, index_probe

__all__ = ["count", "delete"]

_TABLES: Final = (job, request, addendum, trait, feedback, analysis, score, diagnosis, attribution_share, index_probe)


def delete(connection: sa.Connection, request_ids: Iterable[str]) -> Counter[str]:
    """Delete these requests with everything that belongs to them; returns the numbers of rows by table."""
    deleted: Counter[str] = Counter()
    for ids in chunks(sorted(request_ids)):
        for table in _TABLES:
            deleted[table.name] += connection.execute(sa.delete(table).where(table.c.request_id.in_(ids))).rowcount
    return deleted


def count(connection: sa.Connection, request_ids: Sequence[str]) -> Counter[str]:
    """What `delete` would delete."""
    counted: Counter[str] = Counter()
    for ids in chunks(request_ids):
        for table in _TABLES:
            rows = sa.select(sa.func.count()).select_from(table).where(table.c.request_id.in_(ids))
            counted[table.name] += connection.scalar(rows) or 0
    return counted
