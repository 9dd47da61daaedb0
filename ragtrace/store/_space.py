"""Space: deletes the texts that no request and no addendum uses, beside writers that may use them again at any moment;
gives back the space that deleted rows leave; and says how much there is.

First the texts in use are marked, then those are deleted that are neither marked nor used lately. Whatever is written
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
old text, and what was touched is condemned no longer.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore, StoreUnavailable
from ragtrace.store._content import GRANULARITY, Removed, read_slots, remove_texts
from ragtrace.store._named_leases import UpkeepLease
from ragtrace.store.database import Database, chunks, pages
from ragtrace.store.tables import Digest, addendum, content, metadata, request, span_part

__all__ = [
    "MARGIN",
    "Bloom",
    "Space",
    "Swept",
    "collect_garbage",
    "compact",
    "condemn",
    "condemn_orphans",
    "delete_condemned",
    "empty_log",
    "in_use",
    "measure",
    "refuse_full",
    "rewrite",
    "sweep",
]

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


def collect_garbage(
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


_TEMPORARY: Final = ("SQLITE_TMPDIR", "TMPDIR")  # as SQLite looks for a folder, in this order
_LOG_SECONDS: Final = 10.0  # for which a rewriting waits for those who read
_IN_USE: Final = "55P03"  # lock_not_available
_SAMPLES: Final = "pg_statistic"  # where PostgreSQL keeps samples of the columns, short bodies among them
_NUMBER: Final = re.compile(r"\d+")
_ZERO: Final = "0" * 32
_BLANKS: Final[tuple[tuple[type[sa.types.TypeEngine[Any]], Any], ...]] = (
    (Digest, _ZERO),
    (sa.LargeBinary, b""),
    (sa.Boolean, False),
    (sa.Text, ""),
    (sa.types.TypeEngine, 0),
)
_FOLDERS: Final = ("/var/tmp", "/usr/tmp", "/tmp")


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes of the database: all, those that rows left free (of SQLite alone), by table (of PostgreSQL alone), and of
    the write-ahead log beside the file (of SQLite alone), which are in `bytes` too."""

    bytes: int
    free: int | None = None
    tables: Mapping[str, int] = field(default_factory=dict)
    log: int | None = None


def measure(database: Database) -> Space:
    """How large the database is."""
    if database.address.is_sqlite:
        with database.driver() as connection:
            page, pages, free = (_pragma(connection, name) for name in ("page_size", "page_count", "freelist_count"))
        log = _log_size(database.address.file)
        return Space(page * pages + log, page * free, log=log)
    tables: dict[str, int] = {}
    with database.read() as connection:
        for name in sorted(metadata.tables):
            size = sa.func.pg_total_relation_size(sa.cast(name, sa.dialects.postgresql.REGCLASS))
            tables[name] = connection.scalar(sa.select(size)) or 0
    return Space(sum(tables.values()), None, tables)


def compact(database: Database, *, full: bool = False) -> tuple[Space, Space, bool | None]:
    """Rewrite a SQLite file without its free pages, or let PostgreSQL vacuum and analyze the tables.

    full: PostgreSQL's tables are rewritten as well. SQLite lets nobody write meanwhile, PostgreSQL nobody read a table
    that is rewritten. Returns the space before and after, and whether a rewriting left no copy of a deleted row; None
    where PostgreSQL rewrote nothing. Raises: StoreUnavailable where the disk has no room for the copy.
    """
    before = measure(database)
    if database.address.is_sqlite or full:
        clean: bool | None = rewrite(database)
    else:
        clean = None
        with _vacuuming(database) as server:
            for name in sorted(metadata.tables):
                server.execute(f'VACUUM (ANALYZE) "{name}"')
    return before, measure(database), clean


def rewrite(database: Database) -> bool:
    """Write a SQLite file, or each of PostgreSQL's tables, anew, since copies of deleted rows stay in their pages.

    Returns whether none is left: not while somebody reads, for whom it waits some seconds. Raises: StoreUnavailable
    where the disk has no room for the copy.
    """
    if not database.address.is_sqlite:
        return _rewrite_tables(database)
    refuse_full(database)
    with database.driver() as connection:
        connection.execute("VACUUM")
    return empty_log(database)


def _rewrite_tables(database: Database) -> bool:
    """Rewrite the tables with their indexes and long values, then the samples of their columns, which are copies.

    A deleted row that a transaction may still see is copied too; PostgreSQL says how many those are.
    """
    deadline = time.monotonic() + _LOG_SECONDS
    _forget_samples(database)
    with _vacuuming(database) as server:
        try:
            names = [*(f'"{name}"' for name in sorted(metadata.tables)), _SAMPLES]
            left = [name for name in names if not _rewrite_table(server, name, deadline)]
            return not left
        finally:
            server.execute("RESET lock_timeout")


def _rewrite_table(server: Any, name: str, deadline: float) -> bool:
    """Rewrite one table of PostgreSQL. Returns whether that left no deleted row in it."""
    said: list[int] = []

    def hear(notice: Any) -> None:  # its detail begins with the number of dead rows that cannot be removed yet
        if found := _NUMBER.search(notice.message_detail or ""):
            said.append(int(found[0]))

    analyzed = "" if name == _SAMPLES else ", ANALYZE"
    server.add_notice_handler(hear)
    try:
        while True:
            said.clear()
            left = max(100, int(1_000 * (deadline - time.monotonic())))  # whoever comes meanwhile waits behind
            server.execute(f"SET lock_timeout = {left}")
            try:
                server.execute(f"VACUUM (FULL, VERBOSE{analyzed}) {name}")
            except Exception as error:
                if getattr(error, "sqlstate", None) != _IN_USE:
                    raise
            else:  # nothing is said where the role may not: only the owner of a database rewrites its samples
                if said and not said[0]:
                    return True
            if time.monotonic() >= deadline or not said:
                return False
            time.sleep(0.1)
    finally:
        server.remove_notice_handler(hear)


def _forget_samples(database: Database) -> None:
    """Let a table without rows have no samples of those that it had: PostgreSQL keeps them until it finds a row.

    It finds one that is gone at the end of the transaction, so that nobody else sees it.
    """
    sampled = sa.text("SELECT DISTINCT tablename FROM pg_stats WHERE schemaname = current_schema()")
    with database.read() as connection:
        names = [name for name in connection.scalars(sampled) if name in metadata.tables]
        empty = [name for name in sorted(names) if connection.scalar(sa.select(metadata.tables[name]).limit(1)) is None]
    for table in (metadata.tables[name] for name in empty):
        row = {column.name: _blank(column) for column in table.columns if not column.nullable}
        same = [column == row[column.name] for column in table.primary_key]
        with database.write() as connection:
            connection.execute(sa.insert(table).values(row))
            connection.exec_driver_sql(f'ANALYZE "{table.name}"')
            connection.execute(sa.delete(table).where(*same))


def _blank(column: sa.Column[Any]) -> Any:
    """A value of a column's type."""
    return next(value for kind, value in _BLANKS if isinstance(column.type, kind))


@contextmanager
def _vacuuming(database: Database) -> Iterator[Any]:
    """PostgreSQL's own connection, outside any transaction."""
    with database.driver() as connection:
        server = connection.dbapi_connection
        server.autocommit = True
        try:
            yield server
        finally:
            server.autocommit = False


def empty_log(database: Database) -> bool:
    """Bring SQLite's write-ahead log, which holds pages as they were, into the file. Returns whether that was done:
    it cannot be while somebody reads, for whom it waits some seconds."""
    deadline = time.monotonic() + _LOG_SECONDS
    with database.driver() as connection:
        patience = _pragma(connection, "busy_timeout")
        connection.execute("PRAGMA busy_timeout = 0")  # else one attempt alone waits for longer
        try:
            while not (emptied := not _pragma(connection, "wal_checkpoint(TRUNCATE)")) and time.monotonic() < deadline:
                time.sleep(0.05)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {patience}")
    return emptied


def refuse_full(database: Database) -> None:
    """Raise where `rewrite` would find no room. SQLite makes the copy in the folder for temporary files, and writes it
    back through the write-ahead log: on one disk, that is twice as much."""
    if not database.address.is_sqlite:
        return
    size = measure(database).bytes
    folders = database.address.file.absolute().parent, _temporary()
    disks = [folder.stat().st_dev for folder in folders]
    for folder, disk in zip(folders, disks, strict=True):
        free, needed = shutil.disk_usage(folder).free, size * disks.count(disk)
        if free < needed:
            raise StoreUnavailable(
                f"store {database.address.shown}: to rewrite the file takes {needed:,} bytes in {folder}, which has "
                f"{free:,}; free some space, or set SQLITE_TMPDIR to a folder with more"
            )


def _temporary() -> Path:
    named = [Path(os.environ[name]) for name in _TEMPORARY if os.environ.get(name)]
    found = (folder for folder in (*named, *map(Path, _FOLDERS)) if os.access(folder, os.W_OK | os.X_OK))
    return next(found, Path.cwd())


def _pragma(connection: Any, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _log_size(file: Path) -> int:
    log = file.with_name(f"{file.name}-wal")
    return log.stat().st_size if log.exists() else 0
