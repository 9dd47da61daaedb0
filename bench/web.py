"""How long the pages take as the store grows: milliseconds of each page's data, and of the page, over a SQLite file.

The stores differ only in how many analyzed requests they hold: two hundred are analyzed, the others are copies of
their rows at other times. Data is what a page reads and computes; a page is that with its HTML, through the whole
application.
Usage: python bench/web.py [REQUESTS ...]
"""

from __future__ import annotations

import logging
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from ragtrace.analyze import worker
from ragtrace.store import Listing, Position, Store
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
)
from ragtrace.web import Everybody, make_app

ORIGINALS, ROUNDS, CANDIDATES, CLAIMS = 200, 40, 50, 4
START, STEP = 1_700_000_000_000_000_000, 1_000_000_000
COPIED = ("request", "analysis", "score", "diagnosis", "trait")


def record(request_id: str, at: int, candidates: int = CANDIDATES, claims: int = CLAIMS) -> RequestRecord:
    """A request whose answer states so many limits, each of which some chunk of the prompt says or contradicts."""
    number = at // STEP
    texts = {
        f"d{place}#limit": f"Home, edition {place}.0: Limits\nThe most we pay for item {place} is EUR {place}00. "
        f"We need the police report within {place} days. " + "Further conditions stand in the annex. " * 12
        for place in range(1, candidates + 1)
    }
    chunks = tuple(Candidate(chunk_id=name, rank=r, text=text) for r, (name, text) in enumerate(texts.items(), 1))
    packed = chunks[: max(8, claims)]
    wrong = number % 5 == 0
    answer = " ".join(
        f"The most we pay for item {n} is EUR {n}{'1' if wrong else '0'}0 [{n}]." for n in range(1, claims + 1)
    )
    return RequestRecord(
        request_id=request_id,
        service="bench",
        segment=f"s{number % 10}",
        started_at=at,
        ended_at=at + 900_000_000,
        versions={"model": "m-1" if number < START // STEP + 100 else "m-2"},
        query=Query(original="What is the most paid for item 3?"),
        stages=(
            RetrieveRun(started_at=at, ended_at=at + 1, candidates=chunks),
            RerankRun(
                started_at=at,
                ended_at=at + 2,
                moves=tuple(RankMove(chunk_id=c.chunk_id, rank_before=c.rank, rank_after=c.rank) for c in chunks),
            ),
            PackRun(
                started_at=at,
                ended_at=at + 3,
                packing=Packing(
                    chunks=tuple(PackedChunk(chunk_id=c.chunk_id, position=c.rank, text=c.text) for c in packed)
                ),
            ),
            GenerateRun(started_at=at, ended_at=at + 900_000_000, generation=Generation(answer=answer)),
        ),
    )


def filled(file: Path, requests: int) -> str:
    """A store with so many analyzed requests, and one with 200 candidates and 100 claims."""
    url = f"sqlite:///{file}"
    with Store.open(url) as store:
        store.write([record(f"r{number}", START + number * STEP) for number in range(ORIGINALS)])
        store.write([record("large", START, 200, 100)])
        worker.run(store)
    copies, span = requests // ORIGINALS, ORIGINALS * STEP
    with closing(sqlite3.connect(file)) as database, database:
        for table in COPIED:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            shifted = {
                "request_id": "request_id || '-' || n",
                "started_at": f"started_at + n * {span}",
                "ended_at": f"ended_at + n * {span}",
            }
            values = ", ".join(shifted.get(name, f'"{name}"') for name in columns)
            named = ", ".join(f'"{name}"' for name in columns)
            database.execute(
                f"WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < {copies})"
                f" INSERT INTO {table} ({named}) SELECT {values} FROM {table}, copies"
                f" WHERE n < {copies} AND request_id <> 'large'"
            )
        database.execute("ANALYZE")
    return url


def measured(act: Callable[[], Any]) -> str:
    """Median and 95th percentile in milliseconds: of the clock, and of the processor where others keep it busy."""
    act()
    walls, works = [], []
    for _ in range(ROUNDS):
        wall, work = time.perf_counter(), time.process_time()
        act()
        walls.append(1_000 * (time.perf_counter() - wall))
        works.append(1_000 * (time.process_time() - work))
    ranked = sorted(walls), sorted(works)
    return "".join(f"{times[len(times) // 2]:9.1f} {times[int(len(times) * 0.95)]:7.1f}" for times in ranked)


def measure(url: str, size: int) -> None:
    """Print the table of one store."""
    from ragtrace.web._overview import overview
    from ragtrace.web._request_view import request_view

    with Store.open(url) as store:
        browser = TestClient(make_app(store, Everybody(), is_local=True), base_url="http://localhost")
        middle = Position(START + size // 2 * STEP, "")

        def listed(**more: Any) -> Any:
            page = store.list_requests(Listing(service="bench", **more), middle, limit=25, scan=4_000)
            return store.get_records([row.request_id for row in page.rows])

        def one(name: str) -> Any:
            found = store.get_record(name)
            assert found is not None
            return request_view(found, store.get_analysis(name))

        viewer = Everybody().viewer("")
        assert viewer is not None
        data: dict[str, Callable[[], Any]] = {
            "overview, a day": lambda: overview(store, "bench", "24h", viewer),
            "overview, everything": lambda: overview(store, "bench", "all", viewer),
            "requests": listed,
            "requests, stage": lambda: listed(stage="generation"),
            "requests, nothing found": lambda: listed(verdict="error"),
            "one request": lambda: one("r7"),
            "200 candidates, 100 claims": lambda: one("large"),
        }
        for name, act in data.items():
            print(f"  data  {name:<28}{measured(act)}", flush=True)
        for path in ("/?service=bench", "/requests?service=bench", "/requests/r7", "/requests/large"):
            print(f"  page  {path:<28}{measured(partial(browser.get, path))}", flush=True)


def main() -> None:
    """Print a table for each size."""
    logging.disable(logging.WARNING)
    for size in [int(each) for each in sys.argv[1:]] or [10_000, 100_000]:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{size:,} requests: milliseconds, clock median and p95, processor median and p95")
            measure(filled(Path(folder) / "web.db", size), size)


if __name__ == "__main__":
    main()
