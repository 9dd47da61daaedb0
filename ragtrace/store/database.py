"""The database of a store: one engine, its two kinds of transaction, one that reads and one that writes, and
what they need: statements in bulk, the drivers' errors explained, values that every column can hold.

Each transaction sees to it that the connection leads to the database that the address names now. A SQLite file that was
deleted or replaced is a file without a name: what is written there nobody reads.

Many rows at once go past SQLAlchemy's work on each value: PostgreSQL takes them by COPY. That cannot pass over rows
that are there already, so it fills a temporary table of the connection, which is empty again at the transaction's end.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar, cast, overload

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from ragtrace.config import variable
from ragtrace.errors import CorruptStore, MissingExtraError, SchemaMismatch, StoreError, StoreUnavailable
from ragtrace.file_locks import WriteLock
from ragtrace.store.address import Address, Identity, Known, PostgresIdentity, SqliteIdentity
from ragtrace.store.tables import MINUTE, Digest, Moment

__all__ = [
    "BINARY",
    "Database",
    "begins",
    "bigint",
    "chunks",
    "clean",
    "driver_errors",
    "explained",
    "insert",
    "insert_for",
    "insert_new",
    "insert_numbered",
    "look_up",
    "pages",
    "take_advisory_lock",
]

T = TypeVar("T")

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
        self._own = threading.local()  # snapshot: the connection of the thread's `snapshot`
        self._preparer: int | None = None  # the thread that prepares
        self._is_prepared = False

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the database and changes nothing; inside a `snapshot`, that one."""
        opened: sa.Connection | None = getattr(self._own, "snapshot", None)
        if opened is not None:
            with explained(self.address):
                yield opened
            return
        self.prepare()
        with explained(self.address), self._reader.begin() as connection:
            self._see_to(connection)
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that this thread reads inside is of one state of the database, by one transaction. What is written inside
        is not seen before its end."""
        with self.read() as connection:
            outer = getattr(self._own, "snapshot", None)
            self._own.snapshot = connection
            try:
                yield
            finally:
                self._own.snapshot = outer

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that is committed at the end, or rolled back whole. In SQLite it takes the write lock at its
        start: taken later, another writer in between would make it fail.

        Raises: StoreUnavailable also where the database was replaced while the transaction ran.
        """
        self.prepare()
        with explained(self.address), WriteLock() as lock, self._writer.begin() as connection:
            if self.address.is_sqlite:
                lock.taken()
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
    return insert_for(connection.dialect.name, table)


def insert_for(dialect: str, table: sa.Table) -> sqlite.Insert:
    """The same by the dialect's name. What each batch needs is built once: that takes as long as to run it."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    return cast(sqlite.Insert, postgresql.insert(table))


def take_advisory_lock(connection: sa.Connection, key: int, *, shared: bool = False) -> None:
    """Wait until no other transaction has this turn, and keep it to the end of this one; a shared turn is had beside
    other shared ones. In SQLite only one transaction writes anyway."""
    if connection.dialect.name != "sqlite":
        lock = sa.func.pg_advisory_xact_lock_shared if shared else sa.func.pg_advisory_xact_lock
        connection.execute(sa.select(lock(key)))


_VALUES: Final = 500  # values of one IN (...)
_FEW: Final = 20  # rows for which a temporary table does not pay


def chunks(values: Iterable[Any], size: int = _VALUES) -> Iterator[list[Any]]:
    """`values` in lists that fit into one statement."""
    known = list(values)
    for start in range(0, len(known), size):
        yield known[start : start + size]


@overload
def pages(
    read: Callable[[], AbstractContextManager[sa.Connection]],
    query: sa.Select[Any],
    key: Sequence[sa.Column[Any]],
    size: int,
) -> Iterator[Sequence[sa.Row[Any]]]: ...
@overload
def pages(
    read: Callable[[], AbstractContextManager[sa.Connection]],
    query: sa.Select[Any],
    key: Sequence[sa.Column[Any]],
    size: int,
    complete: Callable[[sa.Connection, Sequence[sa.Row[Any]]], T],
) -> Iterator[T]: ...
def pages(
    read: Callable[[], AbstractContextManager[sa.Connection]],
    query: sa.Select[Any],
    key: Sequence[sa.Column[Any]],
    size: int,
    complete: Callable[[sa.Connection, Sequence[sa.Row[Any]]], Any] = lambda connection, rows: rows,
) -> Iterator[Any]:
    """The rows of `query` in the order of `key`, in pages of up to `size`, none of them empty. A page begins behind the
    last row of the one before it, whatever was deleted meanwhile, and no transaction is open while it is worked on.

    Args:
        read: begins the transaction of a page.
        key: columns of the query, by their names, which tell its rows apart.
        complete: makes of a page what is given out, in the page's transaction.
    """
    ordered, place = query.order_by(*key).limit(size), sa.tuple_(*key)
    behind: list[sa.ColumnElement[bool]] = []
    while True:
        with read() as connection:
            rows = connection.execute(ordered.where(*behind)).all()
            page = complete(connection, rows) if rows else None
        if rows:
            yield page
            last = [sa.literal(getattr(rows[-1], column.name), column.type) for column in key]
            behind = [place > sa.tuple_(*last)]
        if len(rows) < size:
            return


def look_up(
    connection: sa.Connection, columns: Sequence[sa.Column[Any]], values: Iterable[Any]
) -> Iterator[tuple[Any, ...]]:
    """Rows of one table whose first column has one of `values`, as the database gives them: a hash is bytes, a moment
    Unix seconds."""
    dialect, table = connection.dialect.name, columns[0].table.name
    query = f"SELECT {', '.join(_selected(each, dialect) for each in columns)} FROM {table} WHERE {columns[0].name}"
    for some in chunks(values):
        if dialect == "sqlite":
            found = connection.exec_driver_sql(f"{query} IN ({', '.join('?' * len(some))})", tuple(some))
        elif _is_uuid(columns[0], dialect):
            digits = [each.hex() for each in some]
            found = connection.exec_driver_sql(f"{query} = ANY(%s::uuid[])", (digits,), execution_options=BINARY)
        else:
            found = connection.exec_driver_sql(f"{query} = ANY(%s)", (some,), execution_options=BINARY)
        rows = found.cursor.fetchall()  # the driver's own tuples: hundreds for each batch
        found.close()
        yield from rows


def insert_new(connection: sa.Connection, columns: Sequence[sa.Column[Any]], rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows of one table, given as the database keeps them, but hashes as bytes; those whose key is there already
    change nothing.

    Rows should come in the order of their key, so that two writers never wait for each other. Returns how many are new.
    """
    table, dialect = columns[0].table, connection.dialect
    if dialect.name == "sqlite" or len(rows) <= _FEW:
        return _insert(connection, columns, rows)
    keys, names = _names(table.primary_key), _names(columns)
    with driver_errors(dialect), _cursor(connection) as cursor:
        cursor.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS incoming_{table.name} (LIKE {table.name} INCLUDING STORAGE)"
            " ON COMMIT DELETE ROWS"
        )
        _copy(cursor, dialect, f"incoming_{table.name}", columns, rows)
        cursor.execute(
            f"INSERT INTO {table.name} ({names}) SELECT {names} FROM incoming_{table.name} ORDER BY {keys}"
            " ON CONFLICT DO NOTHING"
        )
        count: int = cursor.rowcount
    return count


def insert_numbered(
    connection: sa.Connection, columns: Sequence[sa.Column[Any]], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows of one table whose keys are numbers that were drawn for them, so that none is there already."""
    if connection.dialect.name == "sqlite" or len(rows) <= _FEW:
        _insert(connection, columns, rows)
        return
    with driver_errors(connection.dialect), _cursor(connection) as cursor:
        _copy(cursor, connection.dialect, columns[0].table.name, columns, rows)


def _insert(connection: sa.Connection, columns: Sequence[sa.Column[Any]], rows: Sequence[tuple[Any, ...]]) -> int:
    if not rows:
        return 0
    dialect = connection.dialect.name
    mark = "?" if dialect == "sqlite" else "%s"
    marks = ", ".join(f"encode({mark}, 'hex')::uuid" if _is_uuid(each, dialect) else mark for each in columns)
    statement = f"INSERT INTO {columns[0].table.name} ({_names(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"
    return connection.exec_driver_sql(statement, list(rows)).rowcount


def _copy(
    cursor: Any, dialect: sa.Dialect, table: str, columns: Sequence[sa.Column[Any]], rows: Iterable[tuple[Any, ...]]
) -> None:
    with cursor.copy(f"COPY {table} ({_names(columns)}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types([_sent(each, dialect) for each in columns])
        for row in rows:
            copy.write_row(row)


def _sent(column: sa.Column[Any], dialect: sa.Dialect) -> str:
    """The type as which values are sent. The binary form of a UUID is that of its bytes."""
    return "bytea" if _is_uuid(column, dialect.name) else column.type.compile(dialect).lower()


def _selected(column: sa.Column[Any], dialect: str) -> str:
    if dialect != "sqlite" and isinstance(column.type, Moment):
        return f"{column.name} * {MINUTE}::bigint"
    return f"uuid_send({column.name})" if _is_uuid(column, dialect) else column.name


def _is_uuid(column: sa.Column[Any], dialect: str) -> bool:
    return dialect != "sqlite" and isinstance(column.type, Digest)


def _names(columns: Iterable[sa.Column[Any]]) -> str:
    return ", ".join(column.name for column in columns)


def _cursor(connection: sa.Connection) -> Any:
    return connection.connection.cursor()


_CORRUPT: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_BUSY_CODES: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_FORBIDDEN: Final = {"25006", "42501"}  # read_only_sql_transaction, insufficient_privilege
_NO_TABLE: Final = "42P01"
_OTHER: Final = f"give another store (--store URL or {variable('store')})"


@contextmanager
def explained(address: Address) -> Iterator[None]:
    """Raise what SQLAlchemy raises inside as a StoreError of ours."""
    try:
        yield
    except DBAPIError as error:
        translate = _explain_sqlite if address.is_sqlite else _explain_postgresql
        raise translate(address, error) from error
    except sa.exc.TimeoutError as error:
        raise StoreUnavailable(f"store {address.shown}: too many threads use it at once; try again") from error


@contextmanager
def driver_errors(dialect: sa.Dialect) -> Iterator[None]:
    """Raise what the driver itself raises inside as SQLAlchemy does for its own statements."""
    errors = dialect.loaded_dbapi.Error
    try:
        yield
    except errors as error:
        raise DBAPIError.instance(None, None, error, errors, dialect=dialect) from error


def _explain_sqlite(address: Address, error: DBAPIError) -> StoreError:
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the low byte of an extended code is the plain one
    said = _line(address, error)
    if code in _CORRUPT:
        return CorruptStore(
            f"store {address.shown}: {said}; restore a copy of {address.file}, move it away to start an empty one, "
            f"or {_OTHER}"
        )
    if code in _BUSY_CODES:
        return StoreUnavailable(f"store {address.shown}: {said}; another process holds it, end that or try again")
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"store {address.shown}: {said}; free some space in {address.file.parent}")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
        return StoreUnavailable(f"store {address.shown}: {said}; {_remedy(address)}")
    if "no such table" in said or "no such column" in said:
        return SchemaMismatch(f"store {address.shown}: {said}; ragtrace db upgrade --store {address.shown}")
    return StoreError(f"store {address.shown}: {said}; ragtrace doctor --store {address.shown} looks closer")


def _remedy(address: Address) -> str:
    """What keeps a file from being opened or written. os.path answers where pathlib raises: no access, a long name."""
    file, folder = address.file, address.file.absolute().parent
    if not os.path.exists(folder):
        return f"folder {folder} does not exist or cannot be entered: create it, mend its permissions, or {_OTHER}"
    if not os.path.isdir(folder):
        return f"{folder} is not a folder: {_OTHER}"
    if os.path.isdir(file):
        return f"{file} is a folder: name a file in it, or {_OTHER}"
    if not os.access(folder, os.W_OK):
        return f"folder {folder} is not writable: mend its permissions, or {_OTHER}"
    return f"make {file} writable, or {_OTHER}" if os.path.exists(file) else f"{folder} takes no file: {_OTHER}"


def _explain_postgresql(address: Address, error: DBAPIError) -> StoreError:
    said, state = _line(address, error), getattr(error.orig, "sqlstate", None)
    if state == _NO_TABLE:
        return SchemaMismatch(f"store {address.shown}: {said}; ragtrace db upgrade --store {address.shown}")
    if state in _FORBIDDEN:
        return StoreUnavailable(f"store {address.shown}: {said}; grant the role the right to write, or {_OTHER}")
    if error.connection_invalidated or isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError):
        return StoreUnavailable(
            f"store {address.shown}: {said}; check that the server runs and takes this user and database, or {_OTHER}"
        )
    return StoreError(f"store {address.shown}: {said}; ragtrace doctor --store {address.shown} looks closer")


def _line(address: Address, error: DBAPIError) -> str:
    """The first line of what the driver said."""
    said = str(error.orig).strip()
    return address.hide(said.splitlines()[0] if said else type(error).__name__)


_LARGEST: Final = 2**63 - 1


@overload
def clean(text: str) -> str: ...
@overload
def clean(text: str | None) -> str | None: ...
def clean(text: str | None) -> str | None:
    """`text` as every database can store it: NUL and lone surrogates become U+FFFD."""
    if text is None or (text.isascii() and "\x00" not in text):
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def begins(column: sa.ColumnElement[str], beginning: str) -> sa.ColumnElement[bool]:
    """Whether the column's text begins so, whatever its case means to a database."""
    return sa.func.substr(column, 1, len(clean(beginning))) == clean(beginning)


def bigint(value: int) -> int:
    """`value`, or the nearest integer that 64 bits hold; the payload keeps the exact one."""
    return max(-_LARGEST, min(_LARGEST, value))
