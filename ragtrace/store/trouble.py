"""Turns the drivers' errors into ragtrace's own: one line that says what is wrong with the store, and the remedy."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from ragtrace.errors import CorruptStore, SchemaMismatch, StoreError, StoreUnavailable
from ragtrace.store.address import Address

__all__ = ["driver_errors", "explained"]

_CORRUPT: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_FORBIDDEN: Final = {"25006", "42501"}  # read_only_sql_transaction, insufficient_privilege
_NO_TABLE: Final = "42P01"
_OTHER: Final = "give another store (--store URL or RAGTRACE_STORE)"


@contextmanager
def explained(address: Address) -> Iterator[None]:
    """Raise what SQLAlchemy raises inside as a StoreError of ours."""
    try:
        yield
    except DBAPIError as error:
        translate = _of_sqlite if address.is_sqlite else _of_postgresql
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


def _of_sqlite(address: Address, error: DBAPIError) -> StoreError:
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the low byte of an extended code is the plain one
    said = _line(address, error)
    if code in _CORRUPT:
        return CorruptStore(
            f"store {address.shown}: {said}; restore a copy of {address.file}, move it away to start an empty one, "
            f"or {_OTHER}"
        )
    if code in _BUSY:
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


def _of_postgresql(address: Address, error: DBAPIError) -> StoreError:
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
