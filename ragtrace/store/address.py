"""A store's address, and the identity of the database there: whether a connection still leads to what is named.

A SQLite file is known by its device and inode, a PostgreSQL database by its cluster's identifier and its own.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from ragtrace.errors import ConfigurationError, CorruptStore, StoreUnavailable
from ragtrace.safe_text import masked

__all__ = ["Address", "Identity", "Known", "PostgresIdentity", "SqliteIdentity", "from_anywhere"]

_ALLOWED: Final = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
_DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_SECRET: Final = re.compile(r"password|secret|token", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is: the URL for the driver, and how it is shown in messages."""

    url: sa.URL
    shown: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read a URL. Raises: ConfigurationError when it names no database that ragtrace can use."""
        try:
            url = sa.make_url(text)
        except (ArgumentError, ValueError) as error:
            raise ConfigurationError(f"store {masked(text)!r} is no database URL; give {_ALLOWED}") from error
        if "@" in (url.host or ""):
            raise ConfigurationError(f"store {masked(text)!r} has an @ in its user or password; write it as %40")
        shown = _shown(url)
        driver = _DRIVERS.get(url.drivername)
        if driver is None:
            raise ConfigurationError(f"store {shown!r}: {url.drivername!r} is not supported; give {_ALLOWED}")
        address = cls(url.set(drivername=driver), shown)
        if address.is_sqlite and _in_memory(url):
            raise ConfigurationError(f"store {shown!r} is in memory, where no worker would find it; give {_ALLOWED}")
        return address

    @property
    def is_sqlite(self) -> bool:
        """Whether the store is a SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def file(self) -> Path:
        """The SQLite file."""
        name = self.url.database or ""
        return Path(name.removeprefix("file:") if "uri" in self.url.query else name)

    def hide(self, message: str) -> str:
        """`message` without the password, should a driver have repeated it."""
        password = self.url.password
        return re.sub(rf"(?<!\w){re.escape(password)}(?!\w)", "***", message) if password else message


def from_anywhere(text: str) -> str:
    """A store's URL, with its password, as it leads to the store from any folder."""
    address = Address.parse(text)
    if not address.is_sqlite or "uri" in address.url.query or address.file.is_absolute():
        return text
    return address.url.set(database=str(address.file.absolute())).render_as_string(hide_password=False)


def _in_memory(url: sa.URL) -> bool:
    return not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"


def _shown(url: sa.URL) -> str:
    secrets = {name: "***" for name in url.query if _SECRET.search(name)}
    return url.update_query_dict(secrets).render_as_string(hide_password=True)


_LOG: Final = logging.getLogger("ragtrace")
ABSENT: Final = 5.0  # seconds for which a deleted file must be gone before an empty store takes its place
_INFO: Final = "ragtrace_identity"
_MINE: Final = """
    SELECT (SELECT system_identifier FROM pg_control_system()), oid FROM pg_database WHERE datname = current_database()
"""
_MINE_ALONE: Final = "SELECT NULL, oid FROM pg_database WHERE datname = current_database()"

Known: TypeAlias = tuple[Any, Any] | None
"""What a database is known by: device and inode, or cluster and database; None where nothing stands there."""


class Identity(Protocol):
    """Tells databases apart."""

    def watch(self, engine: sa.Engine) -> None:
        """Note of each new connection which database it leads to."""

    def of(self, connection: sa.Connection) -> Known:
        """Which database a connection leads to."""

    def trouble(self, opened: Known) -> str | None:
        """What is wrong where the address no longer names this database; None where it does."""

    def set_aside(self) -> None:
        """Keep what belongs to the database that was open away from the one that has taken its place."""

    def admit(self) -> None:
        """See whether the database that stands there now may be opened. Raises: StoreUnavailable, CorruptStore."""


class SqliteIdentity:
    """By device and inode of the file."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._file = address.file
        self._log = Path(f"{address.file}-wal")
        self._opened: Known = None  # the file that was last seen to be in its place, and its log
        self._opened_log: Known = None
        self._noting = threading.Lock()
        self._absent_since: float | None = None

    def watch(self, engine: sa.Engine) -> None:
        """Note of each new connection which file it opened."""

        @sa.event.listens_for(engine, "do_connect")
        def _connecting(_dialect: object, record: Any, _arguments: object, _named: object) -> None:
            record.info[_INFO] = _stat(self._file)
            self.set_aside()  # before SQLite looks for a log

        @sa.event.listens_for(engine, "connect")
        def _connected(_connection: object, record: Any) -> None:
            before, after = record.info.get(_INFO), _stat(self._file)
            record.info[_INFO] = after if before in (None, after) else before

    def of(self, connection: sa.Connection) -> Known:
        """Device and inode of the file that a connection opened."""
        known: Known = connection.info.get(_INFO)
        return known

    def trouble(self, opened: Known) -> str | None:
        """Whether the file was deleted or replaced, also where the connection leads to its successor already."""
        with self._noting:
            log = _stat(self._log)  # before the file: where that is the same still, so was its log
            now = _stat(self._file)
            if now is None:
                self._absent_since = self._absent_since or time.monotonic()
                return f"{self._file} was deleted while it was open"
            if now != opened or self._opened not in (None, now):
                return f"{self._file} was replaced by another file while it was open"
            self._opened, self._opened_log, self._absent_since = now, log, None
            return None

    def admit(self) -> None:
        """Refuse a file that has just been deleted, since its successor may be on its way, or that is damaged."""
        now = _stat(self._file)
        if self._opened is None or now == self._opened:
            return
        if now is not None:
            self._check()
        else:
            since = self._absent_since = self._absent_since or time.monotonic()
            if time.monotonic() - since < ABSENT:
                raise StoreUnavailable(
                    f"store {self._address.shown}: {self._file} was deleted while it was open; put a copy in its "
                    f"place, or an empty store is made in {ABSENT:.0f} seconds"
                )
        self._opened = self._opened_log = None

    def set_aside(self) -> None:
        """Rename the log of the file that is gone: SQLite would apply it to the file that takes its place."""
        with self._noting:
            is_gone = self._opened is not None and _stat(self._file) != self._opened
            opened_log = self._opened_log
        if not is_gone or opened_log is None or _stat(self._log) != opened_log:
            return
        name = f"orphan-{time.time_ns()}"
        with _turn(self._file.absolute().parent):
            if _stat(self._log) == opened_log:  # else another process was here first
                for beside in (self._log, Path(f"{self._file}-shm")):
                    _rename(beside, Path(f"{beside}.{name}"))

    def _check(self) -> None:
        try:
            connection = sqlite3.connect(f"{self._file.absolute().as_uri()}?mode=ro", uri=True, timeout=30.0)
            try:
                said = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            finally:
                connection.close()
        except sqlite3.DatabaseError as error:
            said = str(error)
        if said != "ok":
            raise CorruptStore(
                f"store {self._address.shown}: the file that took the place of the open one is damaged ({said}); "
                f"restore a whole copy of {self._file}, its -wal file with it, or move it away to start an empty one"
            )


class PostgresIdentity:
    """By the identifiers of the cluster and of the database in it."""

    def __init__(self) -> None:
        self._opened: Known = None

    def watch(self, engine: sa.Engine) -> None:
        """Note of each new connection which database it leads to."""

        @sa.event.listens_for(engine, "connect")
        def _connected(connection: Any, record: Any) -> None:
            was, connection.autocommit = connection.autocommit, True
            try:
                record.info[_INFO] = _of_postgres(connection, engine.dialect.loaded_dbapi.Error)
            finally:
                connection.autocommit = was

    def of(self, connection: sa.Connection) -> Known:
        """Cluster and database that a connection leads to."""
        known: Known = connection.info.get(_INFO)
        if self._opened is None:
            self._opened = known
        return known

    def trouble(self, opened: Known) -> str | None:
        """Whether the server came back with another database."""
        if opened == self._opened:
            return None
        return "the server now has another database by this name than the one that was open"

    def set_aside(self) -> None:
        """Nothing: a server keeps its databases apart."""

    def admit(self) -> None:
        """Take the database that answers next for the store's."""
        self._opened = None


def _of_postgres(connection: Any, errors: type[Exception]) -> Known:
    try:
        cluster, database = connection.execute(_MINE).fetchone()
    except errors:  # a server that lets only its owner ask
        cluster, database = connection.execute(_MINE_ALONE).fetchone()
    return (cluster, database)


def _stat(file: Path) -> Known:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _rename(file: Path, name: Path) -> None:
    try:
        file.rename(name)
    except FileNotFoundError:
        return  # another process has done so
    _LOG.error("%s belonged to a store file that was deleted or replaced while it was open; it is now %s", file, name)


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """One process at a time, where the system has such locks: another one may be making the same store ready."""
    try:
        import fcntl
    except ImportError:  # Windows, where nobody deletes a file that is open
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
