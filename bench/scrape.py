"""What one scrape costs when the history grows: SQLite's steps and milliseconds over stores with the same series.

The stores differ only in how many analyzed requests and done jobs they hold. Steps are those of SQLite's machine, the
same on every run; the milliseconds are this machine's own. Usage: python bench/scrape.py [REQUESTS ...]
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import sqlalchemy as sa

from ragtrace.analyze import worker
from ragtrace.export.exposition import collected
from ragtrace.store import Store
from ragtrace.types import GenerateRun, Generation, Query, RequestRecord, RetrieveRun

SEGMENTS, ROUNDS = 10, 5
COPIED = ("request", "job", "analysis", "score", "diagnosis", "counted")


def record(number: int) -> RequestRecord:
    """A small request of one of a few segments, flagged now and then."""
    now = time.time_ns()
    return RequestRecord(
        request_id=f"r{number}",
        service="bench",
        segment=f"s{number % SEGMENTS}",
        started_at=now,
        ended_at=now,
        query=Query(original="What is the limit in 2024?"),
        flags=("slow",) if number % 7 == 0 else (),
        stages=(RetrieveRun(), GenerateRun(generation=Generation(answer="It is 5 EUR."))),
    )


def filled(file: Path, requests: int) -> str:
    """A store with so many analyzed requests: a hundred are analyzed, the others are copies of their rows."""
    url = f"sqlite:///{file}"
    with Store.open(url) as store:
        store.write([record(number) for number in range(100)])
        worker.run(store)
        collected(store)
    with closing(sqlite3.connect(file)) as database, database:
        for table in COPIED:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[1] != "id"]
            values = ", ".join("request_id || '-' || n" if each == "request_id" else each for each in columns)
            database.execute(
                f"WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < {requests // 100})"
                f" INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table}, copies"
                f" WHERE n < {requests // 100}"
            )
    return url


def measured(url: str) -> tuple[int, float, float]:
    """SQLite's steps of one scrape, and the median milliseconds of some, of the clock and of the processor."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    def connected(connection: Any, _record: object) -> None:
        connection.set_progress_handler(step, 1)

    sa.event.listen(sa.Engine, "connect", connected)
    with Store.open(url) as store:
        opened = steps[0]
        collected(store)
    sa.event.remove(sa.Engine, "connect", connected)
    taken, spent = [], []
    with Store.open(url) as store:
        for _ in range(ROUNDS):
            started, used = time.perf_counter(), time.thread_time()
            collected(store)
            taken.append(1000 * (time.perf_counter() - started))
            spent.append(1000 * (time.thread_time() - used))
    return steps[0] - opened, median(taken), median(spent)


def main(sizes: list[int]) -> None:
    """Print steps and milliseconds for each size."""
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            url = filled(Path(folder) / f"{size}.db", size)
            with Store.open(url) as store:
                held = store.counts()
            steps, milliseconds, spent = measured(url)
            print(
                f"{held['request']:>7} requests, {held['job']:>7} jobs, {held['total']} totals: "
                f"{steps} steps, {milliseconds:.0f} ms, {spent:.0f} of the processor"
            )


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [1_000, 100_000])
