"""Gives back the space that deleted rows leave, and says how much there is."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.errors import StoreUnavailable
from ragtrace.store.database import Database
from ragtrace.store.tables import Digest, metadata

__all__ = ["Space", "compact", "empty_log", "measure", "refuse_full", "rewrite"]

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
