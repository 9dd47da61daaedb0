"""Owns addenda: what became known of a request outside of its record, kept whether or not the request is stored.

A stored record's revision is the one that its recorder gave, plus one for each addendum in it. So a record that is
written again is recognized as known, and a newer one of its recorder takes the addenda along.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore, RecordError
from ragtrace.store.bulk import chunks, look_up
from ragtrace.store.bundles import fetch
from ragtrace.store.content import Texts, join, strip
from ragtrace.store.database import insert, take_turn
from ragtrace.store.payload import read_addendum, write_addendum
from ragtrace.store.tables import addendum
from ragtrace.store.text import bigint, clean
from ragtrace.types import Addendum, RequestRecord, content_hash, encode_addendum, replace

__all__ = ["Addenda", "count", "find", "united", "wait_for_turn"]

_LOG: Final = logging.getLogger("ragtrace.store")
_TURN: Final = 0x7261677472610001  # "ragtra", 1


class Addenda:
    """The addenda of one batch, each once, encoded. Raises: RecordError when one cannot be."""

    def __init__(self, given: Iterable[Addendum], texts: Texts) -> None:
        self._given = {_identity(each): each for each in given}
        self._rows = [_row(identity, self._given[identity], texts) for identity in sorted(self._given)]
        self.request_ids: Collection[str] = {row["request_id"] for row in self._rows}

    def take_turn(self, connection: sa.Connection, *, alone: bool = False) -> None:
        """Writers of records go side by side, one of addenda (or of what else joins a record) alone: else a record and
        its addendum, written by two at once, would not see each other."""
        wait_for_turn(connection, alone=bool(self._rows) or alone)

    def insert(self, connection: sa.Connection) -> dict[str, list[Addendum]]:
        """Keep those that are new, and return them by request, oldest first."""
        found: dict[str, list[Addendum]] = defaultdict(list)
        if self._rows:
            statement = insert(connection, addendum).on_conflict_do_nothing()
            new = connection.scalars(statement.returning(addendum.c.addendum_id), self._rows)
            for each in sorted((self._given[identity] for identity in new), key=_order):
                found[clean(each.request_id)].append(each)
        return found


def wait_for_turn(connection: sa.Connection, *, alone: bool = False) -> None:
    """See `Addenda.take_turn`."""
    take_turn(connection, _TURN, shared=not alone)


def _row(identity: str, given: Addendum, texts: Texts) -> dict[str, Any]:
    return {
        "addendum_id": identity,
        "request_id": clean(given.request_id),
        "created_at": bigint(given.created_at),
        "body": write_addendum(*strip(given, texts)),
    }


def _identity(given: Addendum) -> str:
    """Its id; where it has none, a hash of what it says."""
    return clean(given.addendum_id) or content_hash(encode_addendum(given).decode())


def _order(given: Addendum) -> tuple[int, str]:
    return given.created_at, given.addendum_id


def count(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, int]:
    """How many addenda these requests have; those without any are left out."""
    counts: dict[str, int] = {}
    for ids in chunks(request_ids):
        query = sa.select(addendum.c.request_id, sa.func.count().label("number"))
        rows = connection.execute(query.where(addendum.c.request_id.in_(ids)).group_by(addendum.c.request_id))
        counts.update((row.request_id, row.number) for row in rows)
    return counts


def find(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, list[Addendum]]:
    """All addenda of these requests, oldest first. One that is damaged is there, and adds nothing."""
    found: dict[str, list[Addendum]] = defaultdict(list)
    having = {request_id for (request_id,) in look_up(connection, (addendum.c.request_id,), request_ids)}
    for ids in chunks(sorted(having)):
        query = sa.select(addendum).where(addendum.c.request_id.in_(ids))
        for row in connection.execute(query.order_by(addendum.c.created_at, addendum.c.addendum_id)).all():
            found[row.request_id].append(_read(connection, row))
    return found


def _read(connection: sa.Connection, row: sa.Row[Any]) -> Addendum:
    try:
        bare, slots = read_addendum(row.addendum_id, row.body)
        return join(bare, slots, fetch(connection, (digest for digest in slots if digest is not None)))
    except (CorruptStore, RecordError) as error:  # raised on, it would keep every record behind it out of the store
        _LOG.error("an addendum of request %s is lost: %s", row.request_id, error)
        return Addendum(request_id=row.request_id, service="", addendum_id=row.addendum_id)


def united(record: RequestRecord, given: Sequence[Addendum]) -> RequestRecord:
    """The record with these addenda, each a revision of its own."""
    extended = reduce(RequestRecord.extended, given, record)
    return replace(extended, record_revision=record.record_revision + len(given))
