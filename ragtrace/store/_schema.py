"""The schema's version: what a database has, what this ragtrace needs, and the way from one to the other.

A migration runs in one transaction, SQLite's included, behind a lock that other processes wait for.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from functools import cache
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from ragtrace import installation
from ragtrace.errors import SchemaMismatch, StoreUnavailable
from ragtrace.file_locks import WriteLock
from ragtrace.store.address import Address
from ragtrace.store.database import Database, take_advisory_lock
from ragtrace.store.rows import SchemaState
from ragtrace.store.tables import metadata

__all__ = ["VERSION_TABLE", "check", "ensure", "migrate"]

VERSION_TABLE: Final = "ragtrace_version"

_LOCK_KEY: Final = 0x7261677472616365  # "ragtrace"
_LOCK_SECONDS: Final = 30.0
_environment = threading.Lock()  # alembic keeps its environment in a module


def check(url: str) -> SchemaState:
    """The schema's state, without changing anything: a SQLite file that is missing is not created.

    Raises: ConfigurationError, StoreUnavailable, CorruptStore.
    """
    address = Address.parse(url)
    if address.is_sqlite and _absent(address.file):
        return SchemaState(None, _head())
    database = Database(address)
    try:
        with database.read() as connection:
            return SchemaState(_current(connection), _head())
    finally:
        database.close()


def _absent(file: Path) -> bool:
    """Whether nothing stands at a place where a file could be made."""
    return os.path.isdir(file.parent) and not os.path.lexists(file)


def migrate(url: str) -> str:
    """Bring the database to the schema of this ragtrace, an empty one too, and return the revision.

    Raises: SchemaMismatch when its schema is newer, or its tables belong to another application.
    """
    database = Database(Address.parse(url))
    try:
        return _upgrade(database)
    finally:
        database.close()


def ensure(database: Database) -> None:
    """Migrate an empty database; refuse one of another version.

    Raises: SchemaMismatch with the remedy: upgrade the database, or ragtrace.
    """
    with database.read() as connection:
        current = _current(connection)
    if current is None:
        _upgrade(database)
    elif current != _head():
        _refuse_newer(database.address, current)
        raise SchemaMismatch(
            f"store {database.address.shown} has schema {current}, this ragtrace needs {_head()}; "
            f"ragtrace db upgrade --store {database.address.shown}"
        )
    elif database.address.is_sqlite:
        _use_wal(database, seconds=0.0)  # a copy by VACUUM INTO does not


def _upgrade(database: Database) -> str:
    if database.address.is_sqlite:
        _use_wal(database, _LOCK_SECONDS)
    with database.write() as connection:
        take_advisory_lock(connection, _LOCK_KEY)
        current, head = _current(connection), _head()
        if current is None:
            _refuse_strangers(database.address, connection)
        else:
            _refuse_newer(database.address, current)
        if current != head:
            _run(connection)
    return head


def _use_wal(database: Database, seconds: float) -> None:
    """Switch the file to write-ahead logging; the file remembers it. SQLite does not wait for others here: we do, and
    with no seconds to wait what cannot be switched now is left as it is."""
    deadline = time.monotonic() + seconds
    while True:
        with database.driver() as connection, WriteLock() as lock:
            lock.taken()
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
                return
            except sqlite3.OperationalError as error:
                if not seconds:
                    return
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
        time.sleep(0.05)


def _current(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.scalar(sa.select(sa.column("version_num")).select_from(sa.table(VERSION_TABLE)))
    return revision


def _refuse_newer(address: Address, current: str) -> None:
    if current not in _revisions(installation.folder("migrations")):
        raise SchemaMismatch(
            f"store {address.shown} has schema {current}, which is newer than this ragtrace's {_head()}; "
            "install the ragtrace that made it, or a newer one"
        )


def _refuse_strangers(address: Address, connection: sa.Connection) -> None:
    taken = sorted(set(metadata.tables) & set(sa.inspect(connection).get_table_names()))
    if taken:
        raise SchemaMismatch(
            f"store {address.shown} holds tables of another application ({', '.join(taken)}); "
            "give ragtrace a database of its own"
        )


def _head() -> str:
    return _revisions(installation.folder("migrations"))[-1]


@cache
def _revisions(folder: Path) -> tuple[str, ...]:
    """All revisions, oldest first, by the names of their files, which begin with them: alembic takes long to load."""
    found = tuple(sorted(file.name.partition("_")[0] for file in folder.glob("versions/[0-9]*_*.py")))
    if not found:
        raise StoreUnavailable(f"no migrations in {folder}; install ragtrace from its wheel")
    return found


def _run(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(installation.folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    with _environment:
        command.upgrade(config, "head")
