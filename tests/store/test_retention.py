"""Old requests go by what they are, in small batches, and neither what was counted nor what is in hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from subprocess import Popen
from typing import Any, Final

import pytest
import sqlalchemy as sa

from ragtrace.store import Finished, Kept, SpanPart, Store
from ragtrace.store._named_leases import UpkeepLease
from ragtrace.store.tables import diagnosis, job, request
from ragtrace.types import Addendum, Feedback, RequestRecord, SourceReport

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]

SECOND = 1_000_000_000
DAY = 86_400
NOW = 1_000.0 * DAY


def _old(days: float) -> int:
    return int((NOW - days * DAY) * SECOND)


def _ids(store: Store) -> set[str]:
    return {row.request_id for row in store.find_requests(limit=100_000)}


def test_each_kind_for_its_time(store: Store, make_record: MakeRecord) -> None:
    """A request goes when every kind that is named and that it is of has passed; one of no named kind stays."""
    kinds: dict[str, dict[str, Any]] = {
        "random": {},
        "flagged": {"flags": ("slow",), "head_sampled": False},
        "both": {"flags": ("slow",)},
        "judged": {},
        "broken": {},
        "replay": {"attributes": {"ragtrace.replay.run": "x"}},
    }
    for name, fields in kinds.items():
        store.write([make_record(f"{name} {days}", started_at=_old(days), **fields) for days in (5, 40, 400)])
    store.write([Feedback(request_id=f"judged {days}", score=1.0, created_at=1) for days in (5, 40, 400)])
    broken = {"kind": "coverage", "analyzer_version": "v", "record_revision": 0, "verdict": "v", "reference": "none"}
    with store._database.write() as connection:
        rows = [{"request_id": f"broken {days}", "started_at": 1, "stage": "ranking", **broken} for days in (40, 400)]
        connection.execute(sa.insert(diagnosis), rows)

    keep: dict[Kept, float] = {"random": 30 * DAY, "feedback": 90 * DAY, "broken": 500 * DAY}
    everything = _ids(store)
    kept = {f"{name} 5" for name in kinds} | {"judged 40", "broken 40", "broken 400", "flagged 40", "flagged 400"}
    would = store.prune(keep, now=NOW, dry_run=True)
    assert _ids(store) == everything
    done = store.prune(keep, now=NOW)
    assert done.rows == would.rows
    assert done.rows["request"] == len(everything - kept)
    assert _ids(store) == kept

    store.prune({"flagged": 10 * DAY, "all": 10 * DAY}, now=NOW)
    assert _ids(store) == {f"{name} 5" for name in kinds}
    store.prune({"replay": 0.0}, now=NOW)
    assert _ids(store) == {f"{name} 5" for name in kinds} - {"replay 5"}


def test_all_that_belongs_to_a_request_goes_and_nothing_that_was_counted(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """Totals stay; the same record that comes again counts nothing twice."""
    record = make_record("old", started_at=_old(40), trace_id="1" * 32, tenant_id="t")
    store.write([record, Feedback(request_id="old", score=1.0)])
    store.write([Addendum(request_id="old", service="shop", addendum_id="x", flags=("late",))])
    store.finish([make_finished(each) for each in store.claim("w", limit=10)])
    store.add_spans([SpanPart("t", "1" * 32, b"x", True)], now=1.0)
    with store._database.write() as connection:
        connection.execute(sa.text("UPDATE trace SET due_at = NULL"))
    totals = store.totals()
    store.prune({"all": 30 * DAY}, now=NOW)
    left = {name for name, number in store.counts().items() if number}
    assert left <= {"total", "counted", "content", "bundle", "success", "release", "fault", "exposed"}
    assert store.totals() == totals
    store.write([record])
    assert store.totals() == totals


def test_requests_in_hand_are_left(store: Store, make_record: MakeRecord) -> None:
    """A leased job keeps its request for the next run, and so does a transaction that holds it."""
    store.write([make_record(f"r{number}", started_at=_old(40)) for number in range(3)])
    (leased,) = store.claim("w", limit=1)
    pruned = store.prune({"all": DAY}, now=NOW)
    assert (pruned.rows["request"], pruned.busy) == (2, 1)
    assert _ids(store) == {leased.request_id}
    if not store.url.startswith("sqlite"):
        store.fail(leased, "late", for_good=True)
        with store._database.write() as holder:
            holder.execute(sa.select(job.c.id).with_for_update())
            assert store.prune({"all": DAY}, now=NOW).busy == 1
    store.fail(leased, "late", for_good=True)
    assert store.prune({"all": DAY}, now=NOW).rows["request"] == 1


def test_a_job_that_comes_meanwhile_is_not_waited_for(store: Store, make_record: MakeRecord) -> None:
    """Whoever adds a job to a request holds it before; once the batch has looked for jobs, none can come any more."""
    if store.url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    store.write([make_record("r", started_at=_old(40))])
    engine = store._database._engine
    tried: list[str] = []
    with engine.connect() as worker:

        def add_job(connection: sa.Connection, _cursor: object, statement: str, *_: object) -> None:
            if "SKIP LOCKED" not in statement or connection is worker or tried:
                return
            tried.append(statement)
            connection.connection.cursor().execute("SET LOCAL lock_timeout = '1s'")
            try:
                worker.execute(sa.select(request.c.request_id).with_for_update(nowait=True))
            except sa.exc.OperationalError:
                return
            worker.execute(sa.insert(job).from_select(_NEXT, sa.select(*[_next(name) for name in _NEXT])))
            worker.commit()
            worker.execute(sa.select(job.c.id).where(job.c.record_revision == 9).with_for_update())

        sa.event.listen(engine, "after_cursor_execute", add_job)
        assert store.prune({"all": DAY}, now=NOW).rows["job"] == 1
        sa.event.remove(engine, "after_cursor_execute", add_job)
    assert len(tried) == 1


_NEXT: Final = [column.name for column in job.c if column.name != "id"]


def _next(name: str) -> sa.ColumnElement[Any]:
    return sa.literal(9).label(name) if name == "record_revision" else job.c[name]


def test_what_waits_and_the_histories_of_sources(store: Store, make_record: MakeRecord) -> None:
    """Feedback and addenda without a request, spans that could not be assembled, and all but the newest reports."""
    store.write([make_record("there", started_at=_old(50))])
    for name, days in (("there", 40), ("gone", 40), ("soon", 5)):
        store.write([Feedback(request_id=name, score=1.0, created_at=_old(days), feedback_id=name)])
        waiting = Addendum(request_id=name, service="shop", addendum_id=name, created_at=_old(days), flags=("x",))
        store.write([waiting])
    store.add_spans([SpanPart("", each * 32, b"x", True) for each in "12"], now=NOW - 40 * DAY)
    with store._database.write() as connection:
        connection.execute(sa.text("UPDATE trace SET due_at = NULL, error = 'x' WHERE trace_id LIKE '1%'"))
    reports = [SourceReport(service="shop", source="wiki", reported_at=at, documents=at) for at in range(1, 31)]
    store.write([*reports, SourceReport(service="shop", source="wiki", reported_at=0, newest_at=7)])
    before = store.sources()
    keep: dict[Kept, float] = {"waiting": 30 * DAY}
    would = store.prune(keep, reports=10, now=NOW, dry_run=True)
    done = store.prune(keep, reports=10, now=NOW)
    assert done.rows == would.rows == {"addendum": 1, "feedback": 1, "trace": 1, "source_report": 20}
    tables = store.counts()
    assert (tables["addendum"], tables["feedback"], tables["trace"], tables["source_report"]) == (2, 2, 1, 11)
    after = store.sources()
    assert [(each.documents, each.newest_at) for each in after] == [(each.documents, each.newest_at) for each in before]


def test_writers_write_while_it_prunes(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """New requests, new revisions of old ones, and workers go on beside it; what is new is there at the end."""
    store.write([make_record(f"old {number}", started_at=_old(40)) for number in range(400)])
    failed: list[BaseException] = []
    written = 0
    stop = threading.Event()

    def write() -> None:
        nonlocal written
        try:
            while not stop.is_set():
                store.write([make_record(f"new {written}", started_at=_old(0))])
                touched = make_record(f"old {written % 400}", started_at=_old(40), record_revision=1)
                store.write([touched, Feedback(request_id=touched.request_id, score=1.0)])
                written += 1
        except BaseException as error:
            failed.append(error)

    def work() -> None:
        try:
            while not stop.is_set():
                store.finish([make_finished(each) for each in store.claim("w", limit=5)])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=target) for target in (write, work)]
    for thread in threads:
        thread.start()
    batches = 0

    def between(_: object) -> None:
        """Amid a run, after each batch, others can write."""
        nonlocal batches
        batches += 1
        before, deadline = written, time.monotonic() + 60.0
        while written == before and not failed and time.monotonic() < deadline:
            time.sleep(0.001)
        if written == before:
            failed.append(TimeoutError("nobody could write between two batches"))

    store.prune({"all": DAY}, now=NOW, on_batch=between)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert batches >= 4
    assert {row for row in _ids(store) if row.startswith("new")} == {f"new {number}" for number in range(written)}


PRUNE = """
import sys
from ragtrace.store import Store
with Store.open(sys.argv[1]) as store:
    store.prune({"all": 1.0}, on_batch=lambda pruned: (print(pruned.rows["request"], flush=True), sys.stdin.readline()))
"""


def test_it_may_be_killed_and_run_again(
    url: str, make_record: MakeRecord, python: Callable[..., Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed amid its batches it leaves whole requests only, and the next run deletes the rest."""
    with Store.open(url) as store:
        store.write([make_record(f"r{number}") for number in range(500)])
        process = python(PRUNE, url)
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline().strip() == "100"
        process.stdin.write("go on\n")
        process.stdin.flush()
        process.kill()
        process.wait()
        left = store.counts()
        assert 0 < left["request"] < 500
        assert left["request"] == left["job"] == left["trait"]
        monkeypatch.setattr(UpkeepLease, "_acquired", _taken_over(UpkeepLease._acquired))
        store.prune({"all": 1.0})
        assert _ids(store) == set()


def _taken_over(acquire: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """As if the killed one's lease had run out."""

    def acquired(alone: Any) -> bool:
        with alone._database.write() as connection:
            connection.execute(sa.text("UPDATE lease SET expires_at = :past"), {"past": time.time() - 1.0})
        return acquire(alone)

    return acquired
