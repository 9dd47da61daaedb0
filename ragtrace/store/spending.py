"""Owns what explanations have spent on each day (UTC), so that all workers share one daily budget."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import sqlalchemy as sa

from ragtrace.registry.instruments import ANALYSIS_COST, ATTRIBUTION_BUDGET_EXHAUSTED
from ragtrace.store import totals
from ragtrace.store.database import insert
from ragtrace.store.rows import ATTRIBUTION, Delta
from ragtrace.store.tables import spending

__all__ = ["add", "of_day"]


def add(connection: sa.Connection, spent: Mapping[str, float], budgets: Mapping[str, float], now: float) -> None:
    """Add seconds by resource to those of the day, and count a budget that they use up, once a day."""
    deltas: list[Delta] = []
    for resource, seconds in sorted(spent.items()):
        labels = (("resource", resource),)
        after = _grown(connection, resource, seconds, now)
        deltas.append(Delta(ANALYSIS_COST.name, (("job_kind", ATTRIBUTION), *labels), seconds))
        crossed = resource in budgets and after - seconds < budgets[resource] <= after
        deltas.append(Delta(ATTRIBUTION_BUDGET_EXHAUSTED.name, labels, float(crossed)))
    totals.add(connection, deltas)


def _grown(connection: sa.Connection, resource: str, seconds: float, now: float) -> float:
    """The day's seconds with these."""
    statement = insert(connection, spending).values(day=_day(now), resource=resource, seconds=seconds)
    grown = statement.on_conflict_do_update(
        index_elements=list(spending.primary_key),
        set_={"seconds": spending.c.seconds + statement.excluded.seconds},
    )
    return float(connection.scalars(grown.returning(spending.c.seconds)).one())


def of_day(connection: sa.Connection, now: float) -> dict[str, float]:
    """What was spent on the day of `now`, in seconds by resource."""
    rows = connection.execute(sa.select(spending.c.resource, spending.c.seconds).where(spending.c.day == _day(now)))
    return {row.resource: row.seconds for row in rows}


def _day(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).date().isoformat()
