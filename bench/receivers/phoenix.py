"""arize-phoenix with SQLite, from a virtual environment of its own. It answers before it inserts."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from bench.receivers.databases import SqliteFile
from bench.receivers.model import Receiver
from bench.receivers.processes import Server, free_port
from bench.sending.traces import SPANS

__all__ = ["Phoenix"]


class Phoenix(Receiver):
    """Its server, without what it would load from elsewhere. Raises: LookupError when `python` does not have it."""

    def __init__(self, python: Path) -> None:
        super().__init__(SqliteFile())
        asked = "from importlib.metadata import version; print(version('arize-phoenix'))"
        try:
            found = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
        except OSError as error:
            raise LookupError(str(error)) from None
        if found.returncode:
            raise LookupError(f"{python} has no arize-phoenix")
        self.name = f"phoenix {found.stdout.strip()}"
        self._python = python

    def start(self, folder: Path) -> str:
        """A new file, with all of its migrations."""
        port, url = free_port(), self.database.create(folder)
        self._file = url.removeprefix("sqlite:///")
        self.server = Server(
            [str(self._python), "-m", "phoenix.server.main", "serve"],
            port,
            folder / "log",
            {
                "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
                "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
                "PHOENIX_GRPC_PORT": str(free_port()),
                "PHOENIX_HOST": "127.0.0.1",
                "PHOENIX_PORT": str(port),
                "PHOENIX_SQL_DATABASE_URL": url,
                "PHOENIX_TELEMETRY_ENABLED": "false",
                "PHOENIX_WORKING_DIR": str(folder),
            },
        )
        return f"http://127.0.0.1:{port}/v1/traces"

    def _count(self, table: str) -> int:
        with closing(sqlite3.connect(self._file)) as database:
            return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def is_queryable(self, traces: int) -> bool:
        """So many traces are there, with all of their spans."""
        return self._count("spans") == traces * SPANS

    def check(self, ids: Sequence[str]) -> None:
        """Each trace is a row."""
        with closing(sqlite3.connect(self._file)) as database:
            found = {row[0] for row in database.execute("SELECT trace_id FROM traces")}
        if found != set(ids):
            raise RuntimeError(f"{self.name}: {len(found ^ set(ids))} traces are missing or strange")
