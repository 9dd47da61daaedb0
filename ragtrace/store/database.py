"""Opens connections: one engine per store, and its two kinds of transaction, one that reads and one that writes.

Each transaction sees to it that the connection leads to the database that the address names now. A SQLite file that was
deleted or replaced is a file without a name: what is written there nobody reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ragtrace.errors import MissingExtraError, StoreUnavailable
from ragtrace.store.address import Address
from ragtrace.store.identity import Identity, Known, PostgresIdentity, SqliteIdentity
from ragtrace.store.trouble import driver_errors, explained

__all__ = ["BINARY", "Database", "insert", "take_turn"]

_BUSY_SECONDS: Final = 30.0
_PATIENCE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}  # seconds; what a URL says counts. Without them a network that is cut off holds a transaction for hours.
_BEGIN: Final = "ragtrace_begin"
_BINARY: Final = "ragtrace_binary"
_SNAPSHOT: Final[dict[str, Any]] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

BINARY: Final[dict[str, Any]] = {_BINARY: True}
"""Execution options of a statement whose rows PostgreSQL shall send in binary: as text, bytes are twice as many."""


class Database:
    """The engine of one store, with errors explained. Safe for several threads; each transaction has a connection of
    its own.

    Args:
        address: where the store is.
        prepare: what a database needs before its first use. It is called again when another one has taken the place
            of the one that was open; the transaction that finds that out raises StoreUnavailable.
    """

    def __init__(self, address: Address, prepare: Callable[[Database], None] = lambda database: None) -> None:
        self.address = address
        self._engine = _sqlite(address) if address.is_sqlite else _postgresql(address)
        self._reader = self._engine if address.is_sqlite else self._engine.execution_options(**_SNAPSHOT)
        self._writer = self._engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
        self._identity: Identity = SqliteIdentity(address) if address.is_sqlite else PostgresIdentity()
        self._identity.watch(self._engine)
        self._prepare = prepare
        self._preparing = threading.RLock()
        self._preparer: int | None = None  # the thread that prepares
        self._is_prepared = False

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the database and changes nothing."""
        self.prepare()
        with explained(self.address), self._reader.begin() as connection:
            self._see_to(connection)
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that is committed at the end, or rolled back whole. In SQLite it takes the write lock at its
        start: taken later, another writer in between would make it fail.

        Raises: StoreUnavailable also where the database was replaced while the transaction ran.
        """
        self.prepare()
        with explained(self.address), self._writer.begin() as connection:
            opened = self._see_to(connection)
            yield connection
        if trouble := self._identity.trouble(opened):
            self._let_go(trouble)

    @contextmanager
    def driver(self) -> Iterator[Any]:
        """The driver's own connection, outside any transaction."""
        self.prepare()
        with (
            explained(self.address),
            self._engine.connect() as connection,
            driver_errors(self._engine.dialect),
        ):
            yield connection.connection

    def prepare(self) -> None:
        """See to it that the database is ready, once, and again when another one has taken its place."""
        if self._is_prepared or self._preparer == threading.get_ident():
            return
        with self._preparing:
            if not self._is_prepared:
                self._preparer = threading.get_ident()
                try:
                    self._identity.admit()
                    self._prepare(self)
                    self._is_prepared = True
                finally:
                    self._preparer = None

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()

    def _see_to(self, connection: sa.Connection) -> Known:
        """The database that a connection leads to. Raises: StoreUnavailable where the address names another one."""
        opened = self._identity.of(connection)
        if trouble := self._identity.trouble(opened):
            connection.invalidate()
            self._let_go(trouble)
        return opened

    def _let_go(self, trouble: str) -> None:
        """Close what leads to the old database. Raises: StoreUnavailable."""
        self._is_prepared = False
        self._engine.dispose()
        self._identity.set_aside()
        raise StoreUnavailable(
            f"store {self.address.shown}: {trouble}; what was not confirmed is to be written again, and the database "
            "that stands there now is opened next. Replace a store only while nothing uses it"
        )


def _sqlite(address: Address) -> sa.Engine:
    engine = sa.create_engine(address.url, connect_args={"timeout": _BUSY_SECONDS}, hide_parameters=True)

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # sqlite3 begins nothing by itself; the next listener does
        connection.execute("PRAGMA synchronous = NORMAL")

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: sa.Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))

    return engine


def _postgresql(address: Address) -> sa.Engine:
    connect = {name: value for name, value in _PATIENCE.items() if name not in address.url.query}
    try:
        engine = sa.create_engine(address.url, pool_pre_ping=True, connect_args=connect, hide_parameters=True)
    except ImportError as error:
        raise MissingExtraError("psycopg", "server") from error

    @sa.event.listens_for(engine, "before_cursor_execute")
    def _asked(_connection: object, cursor: Any, _statement: str, _values: object, context: Any, _many: bool) -> None:
        if context.execution_options.get(_BINARY):
            cursor.format = 1

    return engine


def insert(connection: sa.Connection, table: sa.Table) -> sqlite.Insert:
    """An INSERT that may end in ON CONFLICT; PostgreSQL's is built by the same methods as SQLite's."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return cast(sqlite.Insert, postgresql.insert(table))


def take_turn(connection: sa.Connection, key: int, *, shared: bool = False) -> None:
    """Wait until no other transaction has this turn, and keep it to the end of this one; a shared turn is had beside
    other shared ones. In SQLite only one transaction writes anyway."""
    if connection.dialect.name != "sqlite":
        lock = sa.func.pg_advisory_xact_lock_shared if shared else sa.func.pg_advisory_xact_lock
        connection.execute(sa.select(lock(key)))
