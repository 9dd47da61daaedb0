"""Looks up and inserts many rows at once, past SQLAlchemy's work on each value: PostgreSQL takes them by COPY.

COPY cannot pass over rows that are there already, so it fills a temporary table of the connection, which is empty again
at the transaction's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.store.trouble import driver_errors

__all__ = ["chunks", "insert_new", "look_up"]

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
    """Rows of one table whose first column has one of `values`, as the database gives them: a hash is bytes."""
    table, names = columns[0].table.name, ", ".join(column.name for column in columns)
    query = f"SELECT {names} FROM {table} WHERE {columns[0].name}"
    for some in chunks(values):
        if connection.dialect.name == "sqlite":
            found = connection.exec_driver_sql(f"{query} IN ({', '.join('?' * len(some))})", tuple(some))
        else:
            found = connection.exec_driver_sql(f"{query} = ANY(%s)", (some,))
        yield from map(tuple, found)


def insert_new(connection: sa.Connection, columns: Sequence[sa.Column[Any]], rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows of one table, given as the values of `columns`; those whose key is there already change nothing.

    Rows should come in the order of their key, so that two writers never wait for each other. Returns how many are new.
    """
    if not rows:
        return 0
    table = columns[0].table
    name, names = table.name, ", ".join(column.name for column in columns)
    if connection.dialect.name != "sqlite" and len(rows) > _FEW:
        return _copy(connection, name, names, columns, rows)
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    marks = ", ".join([mark] * len(columns))
    statement = f"INSERT INTO {name} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"
    return connection.exec_driver_sql(statement, list(rows)).rowcount


def _copy(
    connection: sa.Connection, name: str, names: str, columns: Sequence[sa.Column[Any]], rows: Sequence[tuple[Any, ...]]
) -> int:
    incoming = f"incoming_{name}"
    types = [column.type.compile(connection.dialect).lower() for column in columns]
    declared = ", ".join(f"{column.name} {kind}" for column, kind in zip(columns, types, strict=True))
    keys = ", ".join(column.name for column in columns[0].table.primary_key)
    opened: Any = connection.connection.cursor()
    with driver_errors(connection.dialect), opened as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {incoming} ({declared}) ON COMMIT DELETE ROWS")
        with cursor.copy(f"COPY {incoming} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
        cursor.execute(
            f"INSERT INTO {name} ({names}) SELECT {names} FROM {incoming} ORDER BY {keys} ON CONFLICT DO NOTHING"
        )
        count: int = cursor.rowcount
    return count
