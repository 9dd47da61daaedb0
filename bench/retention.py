"""Whether retention keeps up: requests deleted in a second, alone and beside a writer of a steady rate.

Old requests are those of `stored/`: small and analyzed, with texts from a pool of 2,000. A pass deletes them all in
batches of 100, with a pause after each as long as the batch took; the writer adds such requests meanwhile.

Usage: python bench/retention.py [--requests N] [--rate R] [--on sqlite postgresql]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.receivers import Postgres, PostgresDatabase, SqliteFile
from bench.receivers.databases import Database
from bench.stored import fill
from ragtrace.store import Kept, Store

REQUESTS, RATE, BATCH = 10_000, 200, 50
OLD: Final[Mapping[Kept, float]] = {"all": 86_400.0}  # seconds; what `fill` makes is of 2023


class Traffic:
    """Writes and analyzes requests at a steady rate, in a thread, numbered from `first` on; late ones follow."""

    def __init__(self, url: str, rate: int, first: int) -> None:
        self.written = 0
        self._url, self._rate, self._first = url, rate, first
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        with Store.open(self._url) as store:
            while not self._stop.is_set():
                start = self._first + self.written
                fill(store, start + BATCH, lambda: 0, start)
                self.written += BATCH
                self._stop.wait(max(0.0, began + self.written / self._rate - time.monotonic()))


def prune(url: str) -> tuple[int, float, float]:
    """Delete all that is old: how many requests, in how many seconds, with how many of this process's processor."""
    with Store.open(url) as store:
        began, spent = time.monotonic(), time.process_time()
        deleted = store.prune(OLD).rows["request"]
        return deleted, time.monotonic() - began, time.process_time() - spent


def measure(database: Database, requests: int, rate: int) -> None:
    """Print a line alone and one beside a writer."""
    with tempfile.TemporaryDirectory(prefix="ragtrace-retention-") as name:
        url = database.create(Path(name))
        with Store.open(url) as store:
            fill(store, requests, lambda: 0)
        spent = database.cpu()
        deleted, seconds, own = prune(url)
        each = (own + database.cpu() - spent) / deleted * 1000
        print(f"{database.kind}: {deleted / seconds:.0f} deleted a second alone, {each:.2f} ms of processor each")
        with Store.open(url) as store:
            fill(store, 2 * requests, lambda: 0, requests)
        with Traffic(url, rate, 2 * requests) as traffic:
            deleted, seconds, _ = prune(url)
            written = traffic.written
        print(f"{database.kind}: {deleted / seconds:.0f} beside {written / seconds:.0f} written, of {rate} wanted")
        database.drop()


def main() -> None:
    """Both databases, or those that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=REQUESTS, help="that are old")
    parser.add_argument("--rate", type=int, default=RATE, help="requests a second that are written meanwhile")
    parser.add_argument("--on", nargs="+", choices=["sqlite", "postgresql"], default=["sqlite", "postgresql"])
    given = parser.parse_args()
    with ExitStack() as stack:
        for kind in given.on:
            if kind == "sqlite":
                measure(SqliteFile(), given.requests, given.rate)
            else:
                server = Postgres()
                stack.callback(server.stop)
                measure(PostgresDatabase(server), given.requests, given.rate)


if __name__ == "__main__":
    main()
