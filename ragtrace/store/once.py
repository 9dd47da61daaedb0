"""Remembers what was counted, so that nothing counts twice: these rows outlive the requests that they are about.

Each has the day on which what it is about began. Days before some day may be forgotten: what began before it counts no
more then, whether it comes again or for the first time. That day is kept in a row without an id and a kind, the first
one of all. It is moved before anything is forgotten, and read after new rows are inserted: so whoever could insert a
row because it was forgotten sees the day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import sqlalchemy as sa

from ragtrace.store.database import Database, insert
from ragtrace.store.tables import counted

__all__ = ["days", "forget_before", "forgotten", "pages", "uncounted"]

_DAY: Final = 86_400
_DAY_NS: Final = _DAY * 1_000_000_000
_BEFORE: Final = {"request_id": "", "kind": ""}
_PAGE: Final = 2_000


def uncounted(connection: sa.Connection, given: Iterable[tuple[str, str, int]]) -> set[tuple[str, str]]:
    """Those of these (id, kind) that were not counted before, each with its beginning in nanoseconds. From now on they
    are."""
    begun = {(identity, kind): at // _DAY_NS for identity, kind, at in given}
    rows = [{"request_id": key[0], "kind": key[1], "day": begun[key]} for key in sorted(begun)]
    if not rows:
        return set()
    statement = insert(connection, counted).on_conflict_do_nothing().returning(counted.c.request_id, counted.c.kind)
    new = {(row.request_id, row.kind) for row in connection.execute(statement, rows)}
    first = _first_day(connection) if new else 0
    return {key for key in new if begun[key] >= first}


def _first_day(connection: sa.Connection) -> int:
    """Before which nothing counts."""
    return connection.scalar(sa.select(counted.c.day).filter_by(**_BEFORE)) or 0


def days(moment: float) -> int:
    """The day of a moment in Unix seconds."""
    return int(moment // _DAY)


def forgotten(day: int) -> sa.Select[tuple[str, str]]:
    """What is forgotten before a day."""
    return sa.select(counted.c.request_id, counted.c.kind).where(counted.c.request_id != "", counted.c.day < day)


def forget_before(connection: sa.Connection, day: int) -> None:
    """Let nothing count any more that began before a day; a later one that was set stays."""
    statement = insert(connection, counted).values(**_BEFORE, day=day)
    later = statement.excluded.day > counted.c.day
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=list(counted.primary_key), set_={"day": statement.excluded.day}, where=later
        )
    )


def pages(database: Database, day: int) -> Iterator[sa.Delete]:
    """What deletes the rows before a day, page by page of all rows, which are read by their key."""
    after: list[sa.ColumnElement[bool]] = []
    query = sa.select(counted.c.request_id, counted.c.kind, counted.c.day)
    query = query.order_by(counted.c.request_id, counted.c.kind).limit(_PAGE)
    place = sa.tuple_(counted.c.request_id, counted.c.kind)
    while True:
        with database.read() as connection:
            rows = connection.execute(query.where(*after)).all()
        if not rows:
            return
        last = sa.tuple_(sa.literal(rows[-1].request_id), sa.literal(rows[-1].kind))
        if any(row.day < day for row in rows):
            yield sa.delete(counted).where(*after, place <= last, counted.c.day < day)
        after = [place > last]
