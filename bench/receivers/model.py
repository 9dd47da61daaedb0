"""What each receiver of spans can do for the benchmark."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.receivers.databases import Database
from bench.receivers.processes import Server, Usage, used

__all__ = ["Receiver"]

_REST: Final = 0.5  # seconds
_IDLE: Final = 0.1  # the share of a processor that one takes which only waits
_PATIENCE: Final = 60.0  # seconds


class Receiver(ABC):
    """One way of taking spans, started with an empty database for each round."""

    name: str
    server: Server

    def __init__(self, database: Database) -> None:
        self.database = database

    @abstractmethod
    def start(self, folder: Path) -> str:
        """Start with an empty database in an empty folder, and return where spans are sent to."""

    @abstractmethod
    def is_queryable(self, traces: int) -> bool:
        """Whether so many traces, all that were sent, can be queried."""

    @abstractmethod
    def check(self, ids: Sequence[str]) -> None:
        """Raises: RuntimeError unless each of these traces is there, and whole."""

    def close(self) -> None:  # noqa: B027 - not every receiver has something to close
        """Close what was opened for questions."""

    def forget(self) -> bool:
        """Delete what is needed for a while only, where there is such a thing. The server has ended."""
        return False

    def settle(self) -> None:
        """Wait until it has nothing more to do for its start, which the figures of a trace are not about.

        Raises: RuntimeError where it never rests.
        """
        deadline, last = time.monotonic() + _PATIENCE, self.usage().cpu
        while time.monotonic() < deadline:
            time.sleep(_REST)
            now = self.usage().cpu
            if now - last < _IDLE * _REST:
                return
            last = now
        raise RuntimeError(f"{self.name} is still busy {_PATIENCE:.0f} s after its start")

    def usage(self) -> Usage:
        """Of the server and the database's server; memory is the former's."""
        own = used([self.server.pid])
        return Usage(own.cpu + self.database.cpu(), own.peak)
