"""The databases into which receivers write: a SQLite file, and a database of a PostgreSQL server of the benchmark."""

from __future__ import annotations

import signal
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol

import sqlalchemy as sa

from bench.receivers.processes import Usage, used

__all__ = ["Database", "Postgres", "PostgresDatabase", "SqliteFile", "engine"]


_SIZE: Final = """
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0)
    FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""


class Database(Protocol):
    """A database that is made anew for each round."""

    @property
    def kind(self) -> str:
        """How it is called."""
        ...

    def create(self, folder: Path) -> str:
        """An empty one; its URL."""
        ...

    def size(self) -> int:
        """Bytes that it takes now, free space apart."""
        ...

    def cpu(self) -> float:
        """Processor seconds that its server has used since its start."""
        ...

    def drop(self) -> None:
        """Delete what is not in the folder."""
        ...


class SqliteFile:
    """A file in the folder."""

    kind = "sqlite"

    def create(self, folder: Path) -> str:
        """Nothing is there yet."""
        self._file = folder / "bench.db"
        return f"sqlite:///{self._file}"

    def size(self) -> int:
        """Pages of the file after a checkpoint, without those that hold nothing any more."""
        names = ("page_count", "freelist_count", "page_size")
        with closing(sqlite3.connect(self._file)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            pages, free, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        return int((pages - free) * size)

    def cpu(self) -> float:
        """It has no server."""
        return 0.0

    def drop(self) -> None:
        """It goes with its folder."""


class Postgres:
    """A running server, the one that the tests start, without fsync. Raises: LookupError where none can be started."""

    def __init__(self) -> None:
        import pytest

        from tests import conftest

        try:
            pytest.importorskip("psycopg")
            binaries = conftest._postgres_binaries()
        except pytest.skip.Exception as error:
            raise LookupError(str(error)) from None
        self._folder = tempfile.TemporaryDirectory(prefix="ragtrace-postgres-", ignore_cleanup_errors=True)
        self.server = conftest.PostgresServer(binaries, Path(self._folder.name))
        self.server.create()

    def usage(self) -> Usage:
        """Of all of the server's processes."""
        assert self.server._process is not None
        return used([self.server._process.pid])

    def stop(self) -> None:
        """End the server, and delete its files."""
        self.server.stop(signal.SIGQUIT)
        self._folder.cleanup()


class PostgresDatabase:
    """A database of the server."""

    kind = "postgresql"

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    def create(self, folder: Path) -> str:
        """A new one."""
        self._url = self._postgres.server.new_database()
        return self._url

    def size(self) -> int:
        """Of its tables with their indexes, written anew without the room that autovacuum would give to later rows.

        The catalogs, which each VACUUM FULL leaves a little larger or smaller, are not counted.
        """
        self._run("VACUUM FULL")
        return int(self._run(_SIZE))

    def cpu(self) -> float:
        """Of all of the server."""
        return self._postgres.usage().cpu

    def drop(self) -> None:
        """Drop it."""
        self._postgres.server.run(f"DROP DATABASE {self._url.rpartition('/')[2]} WITH (FORCE)")

    def _run(self, statement: str) -> Any:
        opened = engine(self._url)
        with opened.connect() as connection:
            result = connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text(statement))
            value = result.scalar() if result.returns_rows else None
        opened.dispose()
        return value


def engine(url: str) -> sa.Engine:
    """For either database."""
    return sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
