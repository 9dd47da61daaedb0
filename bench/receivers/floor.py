"""The floor: what decoding and inserting the same bytes takes, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa

from bench.receivers.databases import Database, engine
from bench.receivers.floor_app import TABLE, Row, unpacked, writer
from bench.receivers.model import Receiver
from bench.receivers.processes import Server, free_port
from bench.sending.traces import SPANS

__all__ = ["Floor"]


class Floor(Receiver):
    """`floor_app` in a process of its own: SQLAlchemy Core on SQLite, COPY on PostgreSQL."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.name = f"floor {database.kind}"

    def start(self, folder: Path) -> str:
        """With an empty table."""
        port, url = free_port(), self.database.create(folder)
        writer(url)
        self._engine = engine(url)
        command = [sys.executable, "-m", "bench.receivers.floor_app", url, str(port)]
        self.server = Server(command, port, folder / "log")
        return f"http://127.0.0.1:{port}/v1/traces"

    def is_queryable(self, traces: int) -> bool:
        """So many rows are there."""
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(TABLE)) == traces

    def check(self, ids: Sequence[str]) -> None:
        """Each trace is a row, and the last of them has all of its spans."""
        with self._engine.connect() as connection:
            found = set(connection.scalars(sa.select(TABLE.c.trace_id)))
            last = connection.execute(sa.select(TABLE).where(TABLE.c.trace_id == ids[-1])).one()
        if found != set(ids) or len(unpacked(Row(*last))) != SPANS:
            raise RuntimeError(f"{self.name}: {len(found ^ set(ids))} rows are missing or strange")

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
