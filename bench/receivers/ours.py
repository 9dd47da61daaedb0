"""`ragtrace serve`. A trace counts when its request can be read out of the store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.receivers.databases import Database
from bench.receivers.model import Receiver
from bench.receivers.processes import Server, free_port
from bench.sending.traces import CANDIDATES
from bench.subjects.work import PACKED
from ragtrace.store import Store, migrate

__all__ = ["GRACE", "Ours"]

GRACE: Final = 0.2
"""Seconds from a trace's root to its assembly: short, since the rate is measured and nothing comes late."""

_CHECKED: Final = 100  # requests that are read whole


class Ours(Receiver):
    """The receiver as it is shipped, but for its grace period."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.name = f"ragtrace {database.kind}"

    def start(self, folder: Path) -> str:
        """In a process of its own; the store is opened here, too, to ask it."""
        port = free_port()
        self._url = self.database.create(folder)
        migrate(self._url)
        self._store = Store.open(self._url)
        command = [sys.executable, "-m", "ragtrace", "serve", "--store", self._url, "--port", str(port)]
        self.server = Server([*command, "--grpc-port", "0", "--grace", str(GRACE)], port, folder / "log")
        return f"http://127.0.0.1:{port}/v1/traces"

    def is_queryable(self, traces: int) -> bool:
        """No trace waits to be assembled, and the store finds so many requests."""
        return not self._store.traces_waiting()[0] and len(self._store.find_requests(limit=traces + 1)) == traces

    def check(self, ids: Sequence[str]) -> None:
        """Each trace is a request, and a sample of them has all texts."""
        found = {row.trace_id for row in self._store.find_requests(limit=len(ids) + 1)}
        if found != set(ids):
            raise RuntimeError(f"{self.name}: {len(found ^ set(ids))} requests are missing or strange")
        for request_id in ids[:: max(1, len(ids) // _CHECKED)]:
            record = self._store.get_record(request_id)
            texts = [each.text for each in record.candidates] if record else []
            packed = record.packing.chunks if record and record.packing else ()
            answered = record is not None and record.generation is not None and bool(record.generation.answer)
            if len(texts) != CANDIDATES or not all(texts) or len(packed) != PACKED or not answered:
                raise RuntimeError(f"{self.name}: request {request_id} is not whole")

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def forget(self) -> bool:
        """Delete the spans that are kept for late ones."""
        with Store.open(self._url) as store:
            while store.forget_spans(0.0):
                pass
        return True
