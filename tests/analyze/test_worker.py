"""The worker over a real store: complete, repeatable, and indifferent to being killed."""

from __future__ import annotations

import gc
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragtrace.analyze import examine, worker
from ragtrace.analyze.worker import WorkerSettings, WorkSummary, rare_collections
from ragtrace.store import Store
from ragtrace.types import RequestRecord, content_hash
from tests.analyze.examples import fill, outcome, request

WORK = """
import sys, time
from ragtrace.analyze import worker
whole = worker.examine
def examine(*arguments, **named):
    print("analyzing", flush=True)
    time.sleep(0.005)
    return whole(*arguments, **named)
worker.examine = examine
worker.run(sys.argv[1], worker.WorkerSettings(batch=4, lease_seconds=0.3, follow=True, poll_seconds=0.05))
"""


def test_every_job_is_done_once_and_a_second_run_does_nothing(tmp_path: Path) -> None:
    """The queue is drained, progress is told, and running again changes no score and no total."""
    url = f"sqlite:///{tmp_path}/r.db"
    ids = fill(url, 20)
    told: list[int] = []
    assert worker.run(url, on_progress=lambda summary: told.append(summary.done)) == WorkSummary(done=20)
    assert told == [16, 20]
    first = outcome(url, ids)
    assert None not in first[0].values()
    assert worker.run(url) == WorkSummary()
    assert outcome(url, ids) == first


def test_limit_and_stop_end_the_work(tmp_path: Path) -> None:
    """No more than `limit` jobs, and none once `stop()` is true."""
    url = f"sqlite:///{tmp_path}/r.db"
    fill(url, 10)
    assert worker.run(url, WorkerSettings(limit=3, batch=2)).done == 3
    assert worker.run(url, stop=lambda: True).done == 0
    assert worker.run(url).done == 7


def test_one_request_that_cannot_be_analyzed_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job fails with the reason and ends dead-lettered after its attempts; the rest is done."""
    url = f"sqlite:///{tmp_path}/r.db"
    fill(url, 5)
    whole = examine

    def broken(record: RequestRecord, *rest: object, **named: object) -> object:
        if record.request_id == "r002":
            raise ValueError("cannot be read")
        return whole(record, *rest, **named)  # type: ignore[arg-type]  # passed through as given

    monkeypatch.setattr(worker, "examine", broken)
    summary = worker.run(url)
    assert (summary.done, summary.failed) == (4, 1)
    with Store.open(url) as store:
        assert store.queue_depth()["done"] == 4
        for hours in range(1, 6):
            for job in store.claim("w", now=time.time() + 3600 * hours):
                store.fail(job, "cannot be read", now=time.time() + 3600 * hours)
        assert store.queue_depth()["dead"] == 1


def test_a_damaged_record_fails_its_own_job_only(tmp_path: Path) -> None:
    """Payload or text damaged on disk: that request fails with a reason, the rest of the batch is done."""
    url = f"sqlite:///{tmp_path}/r.db"
    fill(url, 5)
    with Store.open(url) as store:
        store.write([request(answer="Unlike any other.", request_id="odd", ended_at=time.time_ns())])
    with sqlite3.connect(tmp_path / "r.db") as database:
        database.execute("UPDATE request SET payload = x'00' WHERE request_id = 'r002'")
        where = "id = (SELECT bundle FROM content WHERE hash = ?)"
        database.execute(
            f"UPDATE bundle SET body = x'00' WHERE {where}", (bytes.fromhex(content_hash("Unlike any other.")),)
        )
    database.close()
    summary = worker.run(url)
    assert (summary.done, summary.failed) == (4, 2)


def test_killed_workers_lose_and_double_nothing(tmp_path: Path) -> None:
    """Workers killed with SIGKILL again and again end in the same scores and totals as one that was left alone."""
    calm, rough = f"sqlite:///{tmp_path}/calm.db", f"sqlite:///{tmp_path}/rough.db"
    ids = fill(calm, 90)
    fill(rough, 90)
    worker.run(calm)
    for analyses in (1, 4, 7, 10, 13, 16):  # in the middle of a batch and between two
        process = subprocess.Popen([sys.executable, "-c", WORK, rough], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(analyses):
            assert process.stdout.readline() == "analyzing\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with Store.open(rough) as store:
        left = store.queue_depth()
        assert left["done"] > 0
        assert left["leased"] > 0
        assert left["pending"] > 0
    time.sleep(0.4)  # until the last lease has run out
    worker.run(rough)
    assert outcome(rough, ids) == outcome(calm, ids)


def test_garbage_is_collected_as_before_when_the_work_is_done() -> None:
    """Also where it fails: the thresholds are the whole process's."""

    def fail() -> None:
        with rare_collections():
            assert gc.get_threshold()[0] > before[0]
            raise ValueError("broken")

    before = gc.get_threshold()
    with pytest.raises(ValueError, match="broken"):
        fail()
    assert gc.get_threshold() == before
