"""Owns what on-call said of alerts: whether each was right, named the wrong stage, or was false.

One row for each alert; another answer replaces the one before. The counter `page_judgments` counts answers, in the
transaction that writes them: a changed answer counts once more under its new word, since counters never go down. How
often pages were right is counted from the rows.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ragtrace.registry.instruments import ATTRIBUTES, PAGE_JUDGMENTS
from ragtrace.store import totals
from ragtrace.store.database import insert
from ragtrace.store.rows import Delta, PageJudgment, PageJudgmentCount
from ragtrace.store.tables import page_judgment
from ragtrace.store.text import bigint, clean

__all__ = ["count", "find", "get", "put"]

_LABELS: Final = ("service", "segment", "stage", "severity")


def put(connection: sa.Connection, given: PageJudgment) -> PageJudgment | None:
    """Write an answer and count it, unless the same one is there. Returns the answer before."""
    former = get(connection, given.alert_id)
    row = {
        "alert_id": clean(given.alert_id),
        **{name: clean(getattr(given, name)) for name in _LABELS},
        "judgment": given.judgment,
        "judged_at": bigint(given.judged_at),
        "comment": clean(given.comment),
    }
    statement = insert(connection, page_judgment).values(row)
    rest = {name: statement.excluded[name] for name in row if name != "alert_id"}
    connection.execute(statement.on_conflict_do_update(index_elements=["alert_id"], set_=rest))
    if former is None or _counted(former) != _counted(given):
        totals.add(connection, _deltas(given))
    return former


def _counted(given: PageJudgment) -> tuple[str, ...]:
    return (*(getattr(given, name) for name in _LABELS), given.judgment)


def _deltas(given: PageJudgment) -> list[Delta]:
    """Every answer that might have been given, so that none of the series is absent."""
    labels = tuple((name, clean(getattr(given, name))) for name in _LABELS)
    return [
        Delta(PAGE_JUDGMENTS.name, (*labels, ("judgment", one)), float(one == given.judgment))
        for one in ATTRIBUTES["judgment"]
    ]


def get(connection: sa.Connection, alert_id: str) -> PageJudgment | None:
    """What was said of an alert."""
    query = sa.select(page_judgment).where(page_judgment.c.alert_id == clean(alert_id))
    row = connection.execute(query).mappings().first()
    return None if row is None else PageJudgment(**row)


def find(connection: sa.Connection, service: str | None, limit: int) -> list[PageJudgment]:
    """The newest answers, newest first."""
    query = sa.select(page_judgment).order_by(page_judgment.c.judged_at.desc(), page_judgment.c.alert_id).limit(limit)
    if service is not None:
        query = query.where(page_judgment.c.service == clean(service))
    return [PageJudgment(**row) for row in connection.execute(query).mappings()]


def count(connection: sa.Connection, service: str | None) -> list[PageJudgmentCount]:
    """How many alerts got each answer, by service and severity."""
    columns = (page_judgment.c.service, page_judgment.c.severity, page_judgment.c.judgment)
    query = sa.select(*columns, sa.func.count().label("count")).group_by(*columns).order_by(*columns)
    if service is not None:
        query = query.where(page_judgment.c.service == clean(service))
    return [PageJudgmentCount(**row) for row in connection.execute(query).mappings()]
