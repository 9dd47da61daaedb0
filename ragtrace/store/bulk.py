"""Looks up and inserts many rows at once, past SQLAlchemy's work on each value: PostgreSQL takes them by COPY.

COPY cannot pass over rows that are there already, so it fills a temporary table of the connection, which is empty again
at the transaction's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.store.columns import MINUTE, Digest, Moment
from ragtrace.store.database import BINARY
from ragtrace.store.trouble import driver_errors

__all__ = ["chunks", "insert_new", "insert_numbered", "look_up"]

_IN: Final = 500  # values of one IN (...)
_FEW: Final = 20  # rows for which a temporary table does not pay


def chunks(values: Iterable[Any], size: int = _IN) -> Iterator[list[Any]]:
    """`values` in lists that fit into one statement."""
    known = list(values)
    for start in range(0, len(known), size):
        yield known[start : start + size]


def look_up(
    connection: sa.Connection, columns: Sequence[sa.Column[Any]], values: Iterable[Any]
) -> Iterator[tuple[Any, ...]]:
    """Rows of one table whose first column has one of `values`, as the database gives them: a hash is bytes, a moment
    Unix seconds."""
    dialect, table = connection.dialect.name, columns[0].table.name
    query = f"SELECT {', '.join(_read(each, dialect) for each in columns)} FROM {table} WHERE {columns[0].name}"
    for some in chunks(values):
        if dialect == "sqlite":
            found = connection.exec_driver_sql(f"{query} IN ({', '.join('?' * len(some))})", tuple(some))
        elif _is_uuid(columns[0], dialect):
            digits = [each.hex() for each in some]
            found = connection.exec_driver_sql(f"{query} = ANY(%s::uuid[])", (digits,), execution_options=BINARY)
        else:
            found = connection.exec_driver_sql(f"{query} = ANY(%s)", (some,), execution_options=BINARY)
        yield from map(tuple, found)


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


def _read(column: sa.Column[Any], dialect: str) -> str:
    if dialect != "sqlite" and isinstance(column.type, Moment):
        return f"{column.name} * {MINUTE}::bigint"
    return f"uuid_send({column.name})" if _is_uuid(column, dialect) else column.name


def _is_uuid(column: sa.Column[Any], dialect: str) -> bool:
    return dialect != "sqlite" and isinstance(column.type, Digest)


def _names(columns: Iterable[sa.Column[Any]]) -> str:
    return ", ".join(column.name for column in columns)


def _cursor(connection: sa.Connection) -> Any:
    return connection.connection.cursor()
