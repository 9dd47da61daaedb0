"""Threads and processes share a store, and killed workers lose or double nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from subprocess import Popen

import sqlalchemy as sa

from ragtrace.store import Finished, Store
from ragtrace.store.address import Address
from ragtrace.store.database import Database
from ragtrace.store.tables import analysis, counted, job, score
from ragtrace.types import RequestRecord

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]

JOBS = 200
KILLS = 4  # below the cap of attempts, so that no job can die of them

WORKER = """
import sys, time
from ragtrace.store import Delta, Finished, Store
from ragtrace.types import Analysis, Score

with Store.open(sys.argv[1]) as store:
    while True:
        jobs = store.claim(sys.argv[2], limit=3, lease_seconds=2.0)
        if not jobs and not store.queue_depth()["pending"] and not store.queue_depth()["leased"]:
            break
        for job in jobs:
            time.sleep(0.005)
            print(job.request_id, flush=True)
            analysis = Analysis(
                request_id=job.request_id, analyzer_version="v", scores=(Score(metric="query_coverage", value=0.5),)
            )
            store.finish([Finished(job, analysis, (Delta("done", (), 1.0), Delta("half", (), 0.5)))])
        if not jobs:
            time.sleep(0.1)
"""


def test_killed_workers_lose_and_double_nothing(
    url: str, make_record: MakeRecord, python: Callable[..., Popen[str]]
) -> None:
    """Workers killed with SIGKILL amid their jobs: each job is done once, each total counts it once."""
    with Store.open(url) as store:
        store.write([make_record(f"r{number:03}", flags=("slow",) * (number % 2)) for number in range(JOBS)])
        workers = [python(WORKER, url, f"w{number}") for number in range(3)]
        for kill in range(KILLS):
            victim = workers[kill % len(workers)]
            assert victim.stdout is not None
            for _ in range(4 + kill):  # it is amid a batch then
                assert victim.stdout.readline() != ""
            victim.kill()
            victim.wait()
            workers[kill % len(workers)] = python(WORKER, url, f"w{kill}-again")
        for worker in workers:
            _, errors = worker.communicate(timeout=120)
            assert (worker.returncode, errors) == (0, "")
        assert store.queue_depth() == {"pending": 0, "leased": 0, "done": JOBS, "dead": 0}
        totals = {total.name: total.value for total in store.totals()}
        counts = store.counts()
    assert (totals["done"], totals["half"]) == (JOBS, JOBS / 2)
    assert [counts[table.name] for table in (analysis, score)] == [JOBS, JOBS]
    assert counts[counted.name] == 2 * JOBS  # each request, and each first result
    assert totals["ragtrace_analyses_total"] == JOBS
    assert _attempts(url) > JOBS  # some leases were taken over


def _attempts(url: str) -> int:
    database = Database(Address.parse(url))
    with database.read() as connection:
        attempts = connection.scalar(sa.select(sa.func.sum(job.c.attempts)))
    database.close()
    return int(attempts or 0)


def test_threads_share_a_store(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """Threads that write, claim, finish and read at once fail nowhere, and no job is given to two of them."""
    given: Counter[str] = Counter()
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for turn in range(10):
            store.write([make_record(f"r{number}-{turn}"), make_record(f"shared-{turn}", versions={"model": "m"})])
            jobs = store.claim(f"w{number}", limit=3)
            given.update(claimed.request_id for claimed in jobs)
            assert store.finish([make_finished(claimed) for claimed in jobs]) == len(jobs)
            assert store.get_record(f"r{number}-{turn}") is not None
            store.totals()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    rest = store.claim("rest", limit=1_000)
    given.update(claimed.request_id for claimed in rest)
    store.finish([make_finished(claimed) for claimed in rest])
    assert len(given) == 90
    assert set(given.values()) == {1}
    assert {total.name: total.value for total in store.totals()} == dict.fromkeys(
        ("done", "ragtrace_requests_total", "ragtrace_analyses_total"), 90.0
    )


def test_two_processes_write_the_same_batches(
    url: str, make_record: MakeRecord, python: Callable[..., Popen[str]]
) -> None:
    """A spool that is replayed by two processes at once gives each record and each count once, and no deadlock."""
    script = """
import sys
from ragtrace.store import Store
from ragtrace.types import *
text = lambda number: Candidate(chunk_id=f"c{number}", rank=1, text=f"text {number}")
with Store.open(sys.argv[1]) as store:
    order = 1 if sys.argv[2] == "up" else -1
    for turn in range(20):
        store.write([
            RequestRecord(request_id=f"r{turn}-{number}", service=f"s{number}", versions={"model": f"{number}"},
                          stages=(RetrieveRun(candidates=tuple(text(turn * 7 + n) for n in range(10))[::order]),))
            for number in range(10)][::order])
"""
    Store.open(url).close()
    processes = [python(script, url, order) for order in ("up", "down", "up", "down")]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
    with Store.open(url) as store:
        assert sum(total.value for total in store.totals()) == 200
        assert (store.counts()["request"], store.counts()["job"], store.counts()["content"]) == (200, 200, 143)


def test_a_reader_is_not_kept_waiting_by_a_writer(store: Store, make_record: MakeRecord) -> None:
    """While a write transaction is open, readers see the state before it."""
    store.write([make_record()])
    with store._database.write() as connection:
        connection.execute(sa.delete(job))
        assert store.queue_depth()["pending"] == 1
    assert store.queue_depth()["pending"] == 0
