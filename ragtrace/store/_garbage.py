"""Garbage: deletes the texts that no request and no addendum uses, beside writers that may use them again at any
moment.

First it marks the texts in use, then it deletes those that are neither marked nor used lately. Whatever is written
meanwhile is safe, on PostgreSQL's READ COMMITTED too, since each case falls to one side:

- A writer that uses a text which was last used more than `GRANULARITY` ago locks its row and sets `touched_at`
  (`Texts.store`). If it is first, the row is no longer old when the deletion gets to look at it: rows are locked
  before they are deleted, those that others hold are skipped, and a locked row is read as it is then. If the deletion
  is first, the writer finds no row, and inserts the text.
- A writer that found the text used within `GRANULARITY` leaves the row alone. Then the text was touched less than that
  before the writer looked, and what is deleted here was not touched for `GRANULARITY` and a day before the marking
  began. So the writer looked more than a day before the marking; its transaction, which is no day long, had ended, and
  the marking saw its request. The day also covers clocks of several machines.

The marks are a Bloom filter: one pass over the requests, two bytes for each text in memory, and it errs only by
keeping: a text that looks marked by accident (one in a thousand) stays until another run, which draws other bits. An
exact set would take a hundred bytes for each text, a sorted table on disk more writes than what is deleted.

The texts of what is erased go at once, unless another request uses them. They are condemned first (`touched_at` 0), in
a transaction that no writer of records is beside. So every writer that found them used lately has ended, and its
request is seen when the requests are read afterwards; a later one touches what it uses, as `Texts.store` does with any
old text, and what was touched is condemned no longer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store._content import GRANULARITY, Removed, read_slots, remove_texts
from ragtrace.store._named_leases import UpkeepLease
from ragtrace.store.database import Database, chunks, pages
from ragtrace.store.tables import addendum, content, request, span_part

__all__ = ["MARGIN", "Bloom", "Swept", "collect", "condemn", "condemn_orphans", "delete_condemned", "in_use", "sweep"]


MARGIN: Final = 86_400
"""Seconds beside `GRANULARITY` for which a text that nobody uses stays."""

_PAGE: Final = 2_000
_SLICE: Final = 100_000  # texts that are held in memory, to delete together what stands together
_BATCH: Final = 200
_SHORTEST: Final = 0.01  # seconds between two batches
_BITS: Final = 16  # for each text
_PROBES: Final = 5
_WORD: Final = (1 << 128) - 1


@dataclass(frozen=True, slots=True)
class Swept:
    """What a collection did: texts that were old enough to look at, those that it deleted (or would), and how many
    compressed bytes that saved. `texts`: all texts before it.
    """

    texts: int
    examined: int = 0
    deleted: int = 0
    bytes: int = 0


class Bloom:
    """A set of digests that may hold more than was added, and never less."""

    def __init__(self, expected: int) -> None:
        self._size = max(1 << 10, expected * _BITS)
        self._bits = bytearray(self._size // 8 + 1)
        self._factor = secrets.randbits(128) | 1  # each run errs on other texts

    @classmethod
    def of_used(cls, database: Database, upkeep: UpkeepLease, expected: int) -> Bloom:
        """The texts in use. Raises: CorruptStore when a payload cannot be read."""
        used = cls(expected)
        for digest in in_use(database, upkeep.keep):
            used.add(digest)
        return used

    def _places(self, digest: str) -> Iterable[int]:
        mixed = int(digest, 16) * self._factor & _WORD
        first, step = mixed >> 64, mixed & 0xFFFF_FFFF_FFFF_FFFF | 1
        return ((first + probe * step) % self._size for probe in range(_PROBES))

    def add(self, digest: str) -> None:
        """Add a digest in hexadecimal."""
        for place in self._places(digest):
            self._bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, digest: str) -> bool:
        return all(self._bits[place >> 3] & 1 << (place & 7) for place in self._places(digest))


def collect(
    database: Database,
    now: float,
    *,
    dry_run: bool = False,
    on_batch: Callable[[Swept], object] = lambda swept: None,
) -> Swept:
    """Delete the texts that nobody has used since a day before `now`. dry_run: only say which.

    Raises: CorruptStore when a payload cannot be read, since the texts that it uses are not known.
    """
    before = int(now) - GRANULARITY - MARGIN
    with UpkeepLease(database, "ragtrace db vacuum") as upkeep:
        with database.read() as connection:
            texts = connection.scalar(sa.select(sa.func.count()).select_from(content)) or 0
            oldest = connection.scalar(sa.select(content.c.hash).where(content.c.touched_at < before).limit(1))
        swept = Swept(texts)
        if oldest is None:
            return swept
        return sweep(
            database, upkeep, Bloom.of_used(database, upkeep, texts), before, swept, dry_run=dry_run, on_batch=on_batch
        )


def sweep(
    database: Database,
    upkeep: UpkeepLease,
    used: Bloom,
    before: int,
    swept: Swept,
    *,
    dry_run: bool = False,
    on_batch: Callable[[Swept], object] = lambda swept: None,
) -> Swept:
    """Delete the texts that are not in `used` and were last used before `before`, those that stand together at once."""
    saved = 0
    for examined, garbage in _slices(database, upkeep, used, before):
        for start in range(0, len(garbage), _BATCH):
            began = time.monotonic()
            gone = _delete(database, upkeep, garbage[start : start + _BATCH], before, dry_run=dry_run)
            saved += gone.bytes  # less than nothing where a bundle's rest packs worse than the whole
            swept = replace(swept, deleted=swept.deleted + gone.texts, bytes=max(0, saved))
            on_batch(swept)
            time.sleep(max(_SHORTEST, time.monotonic() - began))
        swept = replace(swept, examined=swept.examined + examined)
        on_batch(swept)
    return swept


def _slices(database: Database, upkeep: UpkeepLease, used: Bloom, before: int) -> Iterator[tuple[int, list[str]]]:
    """How many texts are old, and the hashes of those that are not used, in the order of their bundles."""
    query = sa.select(content.c.hash, content.c.bundle).where(content.c.touched_at < before)
    examined, garbage = 0, list[tuple[int, str]]()
    for old in pages(database.read, query, [content.c.hash], _PAGE):
        upkeep.keep()
        examined += len(old)
        garbage += [(row.bundle, row.hash) for row in old if row.hash not in used]
        if len(garbage) >= _SLICE:
            yield examined, [digest for _, digest in sorted(garbage)]
            examined, garbage = 0, []
    yield examined, [digest for _, digest in sorted(garbage)]


def _delete(database: Database, upkeep: UpkeepLease, hashes: list[str], before: int, *, dry_run: bool) -> Removed:
    """Delete those of these that are old still."""
    old = sa.select(content.c.hash).where(content.c.hash.in_(hashes), content.c.touched_at < before)
    if dry_run:
        with database.read() as connection:
            return Removed(len(connection.scalars(old).all()), 0)
    with database.write() as connection:
        upkeep.hold(connection)
        locked = connection.scalars(old.order_by(content.c.hash).with_for_update(skip_locked=True)).all()
        return remove_texts(connection, locked)


_CONDEMNED_SLICE: Final = 200_000  # condemned texts that are held in memory at once
_CONDEMNED_BATCH: Final = 100
_OF_ORPHANS: Final = 2_000
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


def condemn_orphans(database: Database, upkeep: UpkeepLease, begin: Callable[[sa.Connection], object]) -> None:
    """Mark the texts that no request uses any more, such as those of earlier revisions of a request; none while a
    payload cannot be read.

    begin: called at the start of each transaction; no writer of records is beside it.
    """
    with database.read() as connection:
        texts = connection.scalar(sa.select(sa.func.count()).select_from(content)) or 0
    try:  # twice as large as for garbage: one text in twenty thousand looks used by accident
        used = Bloom.of_used(database, upkeep, 2 * texts)
    except CorruptStore:
        return  # nobody can tell which texts that payload uses
    for page in pages(database.read, sa.select(content.c.hash), [content.c.hash], _OF_ORPHANS):
        upkeep.keep()
        orphans = [row.hash for row in page if row.hash not in used]
        if orphans:
            with database.write() as connection:
                begin(connection)
                _mark(connection, orphans)


def _mark(connection: sa.Connection, hashes: Iterable[str]) -> None:
    for some in chunks(sorted(hashes)):
        there = sa.select(content.c.hash).where(content.c.hash.in_(some)).order_by(content.c.hash).with_for_update()
        marked = sa.update(content).where(content.c.hash.in_(connection.scalars(there).all()))
        connection.execute(marked.values(touched_at=0))


def delete_condemned(database: Database, upkeep: UpkeepLease, begin: Callable[[sa.Connection], object]) -> int:
    """Delete the condemned texts that no request uses, and touch the others; returns how many were deleted.

    What a run that was killed has condemned is among them. begin: called at the start of each transaction.
    """
    deleted = 0
    while True:
        with database.read() as connection:
            asked = {row.hash: row.bundle for row in connection.execute(_CONDEMNED.limit(_CONDEMNED_SLICE))}
        if not asked:
            return deleted
        used = asked.keys() & in_use(database, upkeep.keep, damaged=True)
        for some in chunks(sorted(asked, key=lambda digest: (asked[digest], digest)), _CONDEMNED_BATCH):  # by bundle
            with database.write() as connection:
                begin(connection)
                there = _CONDEMNED.where(content.c.hash.in_(some)).order_by(content.c.hash).with_for_update()
                hashes = set(connection.scalars(there))
                deleted += remove_texts(connection, hashes - used).texts
                kept = content.c.hash.in_(hashes & used)
                connection.execute(sa.update(content).where(kept).values(touched_at=int(time.time())))


_OF_PAYLOADS: Final = 200


def in_use(database: Database, each_page: Callable[[], object], *, damaged: bool = False) -> Iterator[str]:
    """The hash of every text in use, as often as it is used. Each page is a transaction of its own; `each_page` is
    called behind it. What is written meanwhile may be missing.

    damaged: pass over payloads that cannot be read. Raises: CorruptStore at the first one otherwise.
    """
    for body in (request.c.payload, addendum.c.body):
        key = list(body.table.primary_key)
        for page in pages(database.read, sa.select(*key, body), key, _OF_PAYLOADS):
            each_page()
            for row in page:
                try:
                    yield from (digest for digest in read_slots(row[0], row[-1]) if digest is not None)
                except CorruptStore:
                    if not damaged:
                        raise
    key = list(span_part.primary_key)
    against = sa.select(*key, span_part.c.texts).where(span_part.c.texts.is_not(None))
    for page in pages(database.read, against, key, _OF_PAYLOADS):
        each_page()
        for row in page:
            yield from row.texts
