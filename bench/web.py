"""How long the pages take as the store grows: milliseconds of each page's data, and of the page, over a SQLite file or
in PostgreSQL.

The stores differ only in how many analyzed requests they hold: two hundred are analyzed, the others are copies of
their rows at other times, each with words of its own in the index of words. Data is what a page reads and computes; a
page is that with its HTML, through the whole application.
Beside the clock and the processor of the pages stands what PostgreSQL's own processes used, as a mean.
Usage: python bench/web.py [--on sqlite|postgresql] [--filled URL] [REQUESTS ...]
"""

from __future__ import annotations

import argparse
import gc
import logging
import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.receivers.databases import Postgres, engine
from ragtrace.analyze import worker
from ragtrace.store import Drawing, Drawn, Listing, Position, Store
from ragtrace.store._content import decompress
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
SERVICE, LARGE = "bench", "large"
FILTERS: dict[str, dict[str, Any]] = {
    "stage": {"stage": "generation"},
    "segment and verdict": {"segment": "s7", "verdict": "grounding_failure"},
    "version": {"version": "model=m-2"},
    "unlabeled": {"is_labeled": False},
    "nothing found": {"verdict": "error"},
    "no such version": {"version": "model=none"},
    "no such flag": {"flag": "none"},
    "labeled": {"is_labeled": True},
}
SEARCHES = {"in all": "most item", "in one of 1,000": "w7 item", "in none": "even odd", "unknown": "zebra"}
PATHS = (
    "/",
    f"/?service={SERVICE}&window=all",
    f"/requests?service={SERVICE}",
    "/requests?search=most+item",
    "/requests?search=even+odd",
    "/requests/r7",
    f"/requests/{LARGE}",
    f"/triage?service={SERVICE}",
    f"/label?service={SERVICE}",
    "/gate",
    "/runbooks/",
)


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
        service=SERVICE,
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


def fill(url: str, requests: int) -> None:
    """Write so many analyzed requests, one with 200 candidates and 100 claims, and a drawing to be labeled."""
    with Store.open(url) as store:
        store.write([record(f"r{number}", START + number * STEP) for number in range(ORIGINALS)])
        store.write([record(LARGE, START, 200, 100)])
        store.search_on()
        worker.run(store)
        store.draw(Drawing("d", SERVICE, 0, 2**62, {}, "j", 1, 1.0), [Drawn("r7", 0, "named", 1.0)])
    copies = requests // ORIGINALS
    opened = engine(url)
    with opened.begin() as connection:
        for table in COPIED:
            copy(connection, table, copies)
        index(connection, copies)
    with opened.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE" if opened.dialect.name == "sqlite" else "VACUUM ANALYZE")
    opened.dispose()


def copy(connection: sa.Connection, table: str, copies: int, **more: str) -> None:
    """Copy the rows of a table to other requests at other times."""
    span = ORIGINALS * STEP
    changed = {
        "request_id": "request_id || '-' || n",
        "started_at": f"started_at + n * {span}",
        "ended_at": f"ended_at + n * {span}",
    } | more
    columns = [column["name"] for column in sa.inspect(connection).get_columns(table)]
    values = ", ".join(changed.get(name, f'"{name}"') for name in columns)
    named = ", ".join(f'"{name}"' for name in columns)
    connection.exec_driver_sql(
        f"WITH RECURSIVE copies(n) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT n + 1 FROM copies WHERE n < {copies})"
        f" INSERT INTO {table} ({named}) SELECT {values} FROM {table}, copies"
        f" WHERE n < {copies} AND request_id <> '{LARGE}'"
    )


def index(connection: sa.Connection, copies: int) -> None:
    """Words of the copies: those of the request, one of a thousand, one of two that no request has both of, and one
    that the older half has."""
    own = "' w' || (n % 1000) || CASE WHEN n % 2 = 0 THEN ' even' ELSE ' odd' END"
    own += f" || CASE WHEN n <= {copies // 2} THEN ' once' ELSE '' END"
    if connection.dialect.name == "postgresql":
        span = ORIGINALS * STEP
        connection.exec_driver_sql("DROP INDEX ix_search_entry_words")
        doubled = own.replace("%", "%%")  # one begins a parameter to the driver
        copy(connection, "search_entry", copies, id=f"id + n * {span}", words=f"words || {doubled}")
        connection.exec_driver_sql(
            "CREATE INDEX ix_search_entry_words ON search_entry USING gin"
            " (array_to_tsvector(string_to_array(words, ' ')))"
        )
        return
    copy(connection, "search_entry", copies, id="(SELECT r.started_at FROM request r"
         " WHERE r.request_id = search_entry.request_id || '-' || n) >> 20")  # fmt: skip
    driver: Any = connection.connection.driver_connection
    driver.create_function("plain", 1, lambda words: decompress(words).decode(), deterministic=True)
    connection.exec_driver_sql(
        "INSERT INTO search_word (rowid, words) SELECT e.id, plain(o.words) || "
        + re.sub(r"\bn\b", "CAST(substr(e.request_id, instr(e.request_id, '-') + 1) AS INTEGER)", own)
        + " FROM search_entry e JOIN search_entry o ON o.request_id = substr(e.request_id, 1,"
        " instr(e.request_id, '-') - 1) WHERE instr(e.request_id, '-') ORDER BY e.id"
    )


def measured(act: Callable[[], Any], server: Callable[[], float] | None = None) -> str:
    """Median and 95th percentile in milliseconds: of the clock, and of the processor where others keep it busy; then
    the mean of what the database's server used. server: its processor seconds so far."""
    act()
    walls, works = [], []
    began = server() if server else 0.0
    for _ in range(ROUNDS):
        wall, work = time.perf_counter(), time.process_time()
        act()
        walls.append(1_000 * (time.perf_counter() - wall))
        works.append(1_000 * (time.process_time() - work))
    ranked = sorted(walls), sorted(works)
    told = "".join(f"{times[len(times) // 2]:9.1f} {times[int(len(times) * 0.95)]:7.1f}" for times in ranked)
    return told + (f"{1_000 * (server() - began) / ROUNDS:9.1f}" if server else "")


def measure(url: str, size: int, server: Callable[[], float] | None = None) -> None:
    """Print the table of one store. server: the processor seconds of its server so far."""
    from ragtrace.export.request_view import request_view
    from ragtrace.web._on_call import triage_view
    from ragtrace.web._overview import overview, service_lines

    with Store.open(url) as store:
        gc.collect()
        gc.freeze()  # what is loaded by now, as the server does
        pages = TestClient(make_app(store, Everybody(may_judge=True), is_local=True), base_url="http://localhost")
        middle = Position(START + size // 2 * STEP, "")
        viewer = Everybody().viewer("")
        assert viewer is not None

        def listed(before: Position | None = middle, **more: Any) -> Any:
            page = store.list_requests(Listing(**more), before, limit=25, scan=4_000)
            return store.get_records([row.request_id for row in page.rows])

        def one(name: str) -> Any:
            found = store.get_record(name)
            assert found is not None
            return request_view(found, store.get_analysis(name))

        data: dict[str, Callable[[], Any]] = {
            "services": lambda: service_lines(store, store.services(), None),
            "overview, a day": lambda: overview(store, SERVICE, "24h", viewer),
            "overview, everything": lambda: overview(store, SERVICE, "all", viewer),
            "requests": lambda: listed(service=SERVICE),
            **{f"requests, {name}": partial(listed, service=SERVICE, **asked) for name, asked in FILTERS.items()},
            **{f"search, {name}": partial(listed, search=words) for name, words in SEARCHES.items()},
            "search, in the older half": partial(listed, None, service=SERVICE, search="once item"),
            "one request": lambda: one("r7"),
            "200 candidates, 100 claims": lambda: one(LARGE),
            "triage": lambda: triage_view(store, SERVICE, {}),
            "triage, everything": lambda: triage_view(store, SERVICE, {"since": str(START)}),
        }
        for name, act in data.items():
            print(f"  data  {name:<30}{measured(act, server)}", flush=True)
        for path in PATHS:
            assert pages.get(path).status_code == 200, path
            print(f"  page  {path:<30}{measured(partial(pages.get, path), server)}", flush=True)


def measure_on_postgres(size: int) -> None:
    """Fill a database of a server of our own, and print its table."""
    postgres = Postgres()
    try:
        url = postgres.server.new_database()
        fill(url, size)
        measure(url, size, lambda: postgres.usage().cpu)
    finally:
        postgres.stop()


def main() -> None:
    """Print a table for each size."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("sizes", metavar="REQUESTS", type=int, nargs="*", default=[10_000, 100_000])
    given.add_argument("--on", choices=("sqlite", "postgresql"), default="sqlite")
    given.add_argument("--filled", metavar="URL", help="a store that was filled before, with so many REQUESTS")
    asked = given.parse_args()
    logging.disable(logging.WARNING)
    for size in asked.sizes:
        print(f"{size:,} requests in {asked.on}: milliseconds, clock median and p95, processor median and p95")
        if asked.filled:
            measure(asked.filled, size)
            continue
        if asked.on == "postgresql":
            measure_on_postgres(size)
            continue
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/web.db"
            fill(url, size)
            measure(url, size)


if __name__ == "__main__":
    main()
