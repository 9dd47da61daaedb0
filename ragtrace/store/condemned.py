"""Deletes the texts of what is erased at once, unless another request uses them.

They are condemned first (`touched_at` 0), in a transaction that no writer of records is beside. So every writer that
found them used lately has ended, and its request is seen when the requests are read afterwards; a later one touches
what it uses, as `Texts.store` does with any old text, and what was touched is condemned no longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store.alone import Alone
from ragtrace.store.bulk import chunks
from ragtrace.store.bundles import remove
from ragtrace.store.database import Database
from ragtrace.store.garbage import Bloom
from ragtrace.store.payload import read_slots
from ragtrace.store.references import in_use
from ragtrace.store.tables import addendum, content, request

__all__ = ["condemn", "condemn_orphans", "delete"]

_SLICE: Final = 200_000  # condemned texts that are held in memory at once
_BATCH: Final = 100
_PAGE: Final = 2_000
_CONDEMNED: Final = sa.select(content.c.hash, content.c.bundle).where(content.c.touched_at == sa.literal_column("0"))


def condemn(connection: sa.Connection, request_ids: Sequence[str]) -> None:
    """Mark the texts of these requests and of their addenda."""
    hashes: set[str] = set()
    for table, body in ((request, request.c.payload), (addendum, addendum.c.body)):
        (key,) = table.primary_key
        for ids in chunks(request_ids):
            for identity, packed in connection.execute(sa.select(key, body).where(table.c.request_id.in_(ids))):
                try:
                    hashes.update(digest for digest in read_slots(identity, packed) if digest is not None)
                except CorruptStore:
                    continue  # nobody can tell its texts; those that nobody uses go with the garbage
    _mark(connection, hashes)


def condemn_orphans(database: Database, alone: Alone, begin: Callable[[sa.Connection], object]) -> None:
    """Mark the texts that no request uses any more, such as those of earlier revisions of a request; none while a
    payload cannot be read.

    begin: called at the start of each transaction; no writer of records is beside it.
    """
    with database.read() as connection:
        texts = connection.scalar(sa.select(sa.func.count()).select_from(content)) or 0
    try:  # twice as large as for garbage: one text in twenty thousand looks used by accident
        used = Bloom.of_used(database, alone, 2 * texts)
    except CorruptStore:
        return  # nobody can tell which texts that payload uses
    last = ""
    while True:
        alone.keep()
        page = sa.select(content.c.hash).where(content.c.hash > last).order_by(content.c.hash).limit(_PAGE)
        with database.read() as connection:
            hashes = connection.scalars(page).all()
        orphans = [digest for digest in hashes if digest not in used]
        if orphans:
            with database.write() as connection:
                begin(connection)
                _mark(connection, orphans)
        if len(hashes) < _PAGE:
            return
        last = hashes[-1]


def _mark(connection: sa.Connection, hashes: Iterable[str]) -> None:
    for some in chunks(sorted(hashes)):
        there = sa.select(content.c.hash).where(content.c.hash.in_(some)).order_by(content.c.hash).with_for_update()
        marked = sa.update(content).where(content.c.hash.in_(connection.scalars(there).all()))
        connection.execute(marked.values(touched_at=0))


def delete(database: Database, alone: Alone, begin: Callable[[sa.Connection], object]) -> int:
    """Delete the condemned texts that no request uses, and touch the others; returns how many were deleted.

    What a run that was killed has condemned is among them. begin: called at the start of each transaction.
    """
    deleted = 0
    while True:
        with database.read() as connection:
            asked = {row.hash: row.bundle for row in connection.execute(_CONDEMNED.limit(_SLICE))}
        if not asked:
            return deleted
        used = asked.keys() & in_use(database, alone.keep, damaged=True)
        for some in chunks(sorted(asked, key=lambda digest: (asked[digest], digest)), _BATCH):  # by bundle
            with database.write() as connection:
                begin(connection)
                there = _CONDEMNED.where(content.c.hash.in_(some)).order_by(content.c.hash).with_for_update()
                hashes = set(connection.scalars(there))
                deleted += remove(connection, hashes - used).texts
                kept = content.c.hash.in_(hashes & used)
                connection.execute(sa.update(content).where(kept).values(touched_at=int(time.time())))
