"""Gives back the space that deleted rows leave, and says how much there is."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.errors import StoreUnavailable
from ragtrace.store.address import Address
from ragtrace.store.database import Database
from ragtrace.store.tables import metadata

__all__ = ["Space", "compact", "empty_log", "measure", "refuse_full", "rewrite"]

_TEMPORARY: Final = ("SQLITE_TMPDIR", "TMPDIR")  # as SQLite looks for a folder, in this order
_LOG_SECONDS: Final = 10.0
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
        log = _size(_log(database.address))
        return Space(page * pages + log, page * free, log=log)
    tables: dict[str, int] = {}
    with database.read() as connection:
        for name in sorted(metadata.tables):
            size = sa.func.pg_total_relation_size(sa.cast(name, sa.dialects.postgresql.REGCLASS))
            tables[name] = connection.scalar(sa.select(size)) or 0
    return Space(sum(tables.values()), None, tables)


def compact(database: Database) -> tuple[Space, Space]:
    """Rewrite a SQLite file without its free pages, or let PostgreSQL vacuum and analyze the tables; returns the space
    before and after.

    SQLite lets nobody write meanwhile. Raises: StoreUnavailable where the disk has no room for the copy.
    """
    before = measure(database)
    if database.address.is_sqlite:
        rewrite(database)
        empty_log(database)
    else:
        _vacuum(database)
    return before, measure(database)


def rewrite(database: Database) -> None:
    """Write a SQLite file anew. Raises: StoreUnavailable where the disk has no room for the copy."""
    refuse_full(database)
    with database.driver() as connection:
        connection.execute("VACUUM")


def _vacuum(database: Database) -> None:
    with database.driver() as connection:
        server = connection.dbapi_connection
        server.autocommit = True
        try:
            for name in sorted(metadata.tables):
                server.execute(f'VACUUM (ANALYZE) "{name}"')
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


def _log(address: Address) -> Path:
    return address.file.with_name(f"{address.file.name}-wal")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
