"""Jobs are leased to one worker at a time, flagged first, and never lost; people may run dead ones again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from ragtrace.store import Backlog, Finished, Job, Store, _job_queue as job_queue
from ragtrace.store._job_queue import ATTEMPTS
from ragtrace.store.tables import job as job_table, request
from ragtrace.types import ANALYZER_VERSION, RequestRecord
from tests.store.test_spans_concurrency import waits

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]

FAR = 1e11  # a time after every job of the tests was enqueued


def _ids(jobs: list[Job]) -> list[str]:
    return [job.request_id for job in jobs]


def test_flagged_jobs_come_first_then_the_oldest(store: Store, make_record: MakeRecord) -> None:
    """Priority decides, then the order of arrival; a limit takes the first of them."""
    store.write([make_record("r1"), make_record("r2")])
    store.write([make_record("r0"), make_record("r3", flags=("slow",))])
    first = store.claim("w", limit=2)
    assert _ids(first) == ["r3", "r1"]
    assert [(job.flagged, job.attempts, job.service) for job in first] == [(True, 1, "shop"), (False, 1, "shop")]
    assert _ids(store.claim("w")) == ["r2", "r0"]


def test_a_leased_job_is_not_given_twice(store: Store, make_record: MakeRecord) -> None:
    """While a lease runs, nobody else gets the job."""
    store.write([make_record()])
    assert len(store.claim("a", lease_seconds=60, now=FAR)) == 1
    assert store.claim("b", now=FAR + 59) == []
    assert store.queue_depth() == {"pending": 0, "leased": 1, "done": 0, "dead": 0}


def test_a_job_is_enqueued_once(store: Store, make_record: MakeRecord) -> None:
    """The same record gives one job; a newer revision gives another."""
    store.write([make_record()])
    store.write([make_record()])
    store.write([make_record(record_revision=1)])
    assert [(job.request_id, job.record_revision) for job in store.claim("w")] == [("r1", 0), ("r1", 1)]


def test_only_the_kinds_asked_for_are_claimed(store: Store, make_record: MakeRecord) -> None:
    """A worker of another kind gets nothing of coverage."""
    store.write([make_record()])
    assert store.claim("w", kinds=("deep",)) == []
    assert len(store.claim("w", kinds=("deep", "coverage"))) == 1


def test_an_expired_lease_is_taken_over_and_fenced(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """After a lease ran out another worker gets the job, and the first one's result is refused."""
    store.write([make_record()])
    [lost] = store.claim("a", lease_seconds=60, now=FAR)
    [job] = store.claim("b", lease_seconds=60, now=FAR + 61)
    assert (job.id, job.attempts) == (lost.id, 2)
    assert store.finish([make_finished(lost)], now=FAR + 62) == 0
    store.fail(lost, "too late", now=FAR + 62)
    assert store.get_analysis("r1") is None
    assert [total.name for total in store.totals()] == ["ragtrace_requests_total"]
    assert store.heartbeat([lost, job], 60, now=FAR + 62) == [job]
    assert store.finish([make_finished(job)], now=FAR + 63) == 1
    assert store.queue_depth()["done"] == 1


def test_jobs_of_a_worker_that_is_gone_are_free_at_once(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """Its jobs are pending before the lease runs out, those of others stay; its own late result is refused."""
    store.write([make_record("r1"), make_record("r2"), make_record("r3")])
    lost, _ = store.claim("a", limit=2)
    store.claim("b", limit=1)
    assert store.release_jobs("a") == 2
    assert store.queue_depth() == {"pending": 2, "leased": 1, "done": 0, "dead": 0}
    assert store.finish([make_finished(lost)]) == 0
    assert store.release_jobs("a") == 0
    assert [(job.request_id, job.attempts) for job in store.claim("b")] == [("r1", 2), ("r2", 2)]


def test_a_worker_that_ends_amid_a_job_again_and_again_buries_it(store: Store, make_record: MakeRecord) -> None:
    """At the cap of attempts it is dead, with the reasons."""
    store.write([make_record()])
    for attempt in range(ATTEMPTS):
        assert len(store.claim(f"w{attempt}")) == 1
        assert store.release_jobs(f"w{attempt}") == 1
    assert store.queue_depth()["dead"] == 1


def test_a_result_after_the_lease_ran_out_counts_while_nobody_took_over(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """The fence is the token, not the clock."""
    store.write([make_record()])
    [job] = store.claim("a", lease_seconds=60, now=FAR)
    assert store.finish([make_finished(job)], now=FAR + 1_000) == 1


def test_a_heartbeat_prolongs_the_lease(store: Store, make_record: MakeRecord) -> None:
    """A job whose worker is alive is not taken over."""
    store.write([make_record()])
    [job] = store.claim("a", lease_seconds=60, now=FAR)
    assert store.heartbeat([job], 60, now=FAR + 50) == [job]
    assert store.claim("b", now=FAR + 100) == []
    assert len(store.claim("b", now=FAR + 111)) == 1


def test_a_failed_job_is_tried_again_later(store: Store, make_record: MakeRecord) -> None:
    """A failure puts the job back, to be claimed after the pause."""
    store.write([make_record()])
    [job] = store.claim("a", now=FAR)
    store.fail(job, "no model\x00", retry_in=30, now=FAR)
    assert store.queue_depth()["pending"] == 1
    assert store.claim("a", now=FAR + 29) == []
    assert [again.attempts for again in store.claim("a", now=FAR + 30)] == [2]


def test_a_job_that_fails_too_often_is_dead(store: Store, make_record: MakeRecord) -> None:
    """At the cap of attempts a failing job is set aside."""
    store.write([make_record()])
    for _ in range(ATTEMPTS):
        [job] = store.claim("a", now=FAR)
        store.fail(job, "broken", retry_in=0, now=FAR)
    assert store.claim("a", now=FAR) == []
    assert store.queue_depth() == {"pending": 0, "leased": 0, "done": 0, "dead": 1}


def test_a_job_that_kills_its_workers_is_dead(store: Store, make_record: MakeRecord) -> None:
    """At the cap of attempts a job whose leases all ran out is set aside."""
    store.write([make_record()])
    for attempt in range(ATTEMPTS):
        assert len(store.claim("a", lease_seconds=60, now=FAR + 61 * attempt)) == 1
    assert store.claim("a", now=FAR + 61 * ATTEMPTS) == []
    assert store.queue_depth()["dead"] == 1


def test_a_job_that_kills_its_workers_takes_no_other_along(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """After two leases in vain each of a batch goes alone, so that only the one at fault is buried."""
    store.write([make_record(f"r{number}") for number in range(1, 5)])
    now = FAR
    sizes = []
    while jobs := store.claim("w", lease_seconds=1, now=now):
        sizes.append(len(jobs))
        if all(job.request_id != "r2" for job in jobs):
            assert store.finish([make_finished(job) for job in jobs], now=now) == len(jobs)
        now += 10
    assert sizes == [4, 4, *[1] * 6]
    assert store.queue_depth() == {"pending": 0, "leased": 0, "done": 3, "dead": 1}


def test_the_backlog_tells_what_waits(store: Store, make_record: MakeRecord) -> None:
    """Jobs by state, and when the oldest that could run now was enqueued: not one that waits to be tried again, but one
    whose worker died."""
    assert store.backlog() == {}
    store.write([make_record("r1"), make_record("r2"), make_record("r3")])
    [one, two] = store.claim("w", limit=2, lease_seconds=10, now=FAR)
    waiting = store.backlog(now=FAR)["coverage"]
    assert (waiting.pending, waiting.leased, waiting.dead) == (1, 2, 0)
    assert waiting.oldest is not None
    store.fail(one, "no", for_good=True, now=FAR)
    [three] = store.claim("w", limit=1, lease_seconds=10, now=FAR)
    store.fail(three, "later", retry_in=100, now=FAR)
    assert store.backlog(now=FAR)["coverage"] == Backlog(pending=1, leased=1, dead=1, oldest=None)
    assert store.backlog(now=FAR + 11)["coverage"].oldest == waiting.oldest
    assert store.heartbeat([two], 1000.0, now=FAR + 1) == [two]
    assert store.backlog(now=FAR + 11)["coverage"].oldest is None
    assert store.backlog(now=FAR + 100)["coverage"].oldest == waiting.oldest


@pytest.mark.parametrize(
    ("query", "index", "sorts"),
    [
        (job_queue.claimable(["coverage"], 16, 1.0), "ix_job_pending", False),
        (job_queue.expired(1.0), "ix_job_leased", False),
        (job_queue.backlog_queries(1.0)["pending"], "ix_job_waiting", True),
        (job_queue.backlog_queries(1.0)["leased"], "ix_job_leased", True),
        (job_queue.backlog_queries(1.0)["dead"], "ix_job_dead", False),
    ],
)
def test_the_queue_reads_only_the_jobs_that_wait(
    tmp_path: Path, query: sa.Select[Any], index: str, sorts: bool
) -> None:
    """The done jobs, which stay, cost nothing: SQLite's plan takes the partial index."""
    path = tmp_path / "plan.db"
    with Store.open(f"sqlite:///{path}"):
        engine = sa.create_engine(f"sqlite:///{path}")
        written = query.compile(dialect=engine.dialect, compile_kwargs={"literal_binds": True})
        with engine.connect() as connection:
            plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {written}")]
        engine.dispose()
    assert f"{index} " in f"{plan[0]} "
    assert plan[1:] == (["USE TEMP B-TREE FOR GROUP BY"] if sorts else [])


def test_drawn_says_whose_job_no_flag_bought(store: Store, make_record: MakeRecord) -> None:
    """Of the requests that are asked for: those with a job of the kind that was drawn at random."""
    store.write([make_record("r1"), make_record("r2", flags=("slow",)), make_record("r3")])

    assert store.drawn(["r1", "r2", "unknown"], "coverage") == {"r1"}
    assert store.drawn(["r1"], "attribution") == set()


def test_what_another_analyzer_scored_is_analyzed_again(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """Once, and behind the requests that wait for their first analysis; a current analysis is left alone."""
    store.write([make_record("old"), make_record("flagged", flags=("slow",)), make_record("new")])
    for job in store.claim("w"):
        finished = make_finished(job)
        if job.request_id != "new":
            outdated = msgspec.structs.replace(finished.analysis, analyzer_version="coverage-0")
            finished = replace(finished, analysis=outdated)
        store.finish([finished])
    with store._database.write() as connection:  # as the jobs of that analyzer were called
        connection.execute(
            sa.update(job_table).where(job_table.c.request_id != "new").values(analyzer_version="coverage-0")
        )
    assert (store.redo(), store.redo()) == (2, 0)
    store.write([make_record("waits")])
    again = store.claim("w")
    assert (_ids(again)[0], sorted(_ids(again)[1:])) == ("waits", ["flagged", "old"])
    assert {job.analyzer_version for job in again} == {ANALYZER_VERSION}
    store.finish([make_finished(job) for job in again])
    assert store.redo() == 0


def test_all_is_analyzed_again_on_demand(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """Whoever scored it, of one service and from a time on where these are given; what waits or is in hand already is
    left alone, and so is what was never scored. Totals count nothing a second time."""
    store.write([make_record(f"r{at}", started_at=at) for at in range(4)])
    store.write([make_record("other", service="other", started_at=9)])
    done = [job for job in store.claim("w") if job.request_id != "r3"]
    store.finish([make_finished(job) for job in done])
    counted = store.totals()
    assert "done" in {each.name for each in counted}
    assert store.redo() == 0
    assert store.redo(again=True, service="nobody") == 0
    assert store.redo(again=True, service="shop", since=1) == 2
    assert store.redo(again=True, service="shop", since=1) == 0
    assert store.redo(again=True) == 2
    again = store.claim("w")
    assert sorted(_ids(again)) == ["other", "r0", "r1", "r2"]
    assert {job.attempts for job in again} == {1}
    assert store.redo(again=True) == 0
    assert store.finish([make_finished(job, value=0.75) for job in again]) == 4
    found = store.get_analysis("r1")
    assert found is not None
    assert found.score("query_coverage") == 0.75
    work = "ragtrace_analyses_total"  # counts what workers did, again and again
    assert [each for each in store.totals() if each.name != work] == [each for each in counted if each.name != work]


def test_what_is_analyzed_again_comes_last(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """Requests that wait for their first analysis go before, flagged or not; so it is where jobs were dropped."""
    store.write([make_record("old", flags=("slow",)), make_record("dropped")])
    store.finish([make_finished(job) for job in store.claim("w")])
    with store._database.write() as connection:
        connection.execute(sa.delete(job_table).where(job_table.c.request_id == "dropped"))
    assert store.redo(again=True) == 2
    store.write([make_record("new")])
    assert _ids(store.claim("w"))[0] == "new"


def test_only_the_newest_revision_is_analyzed_again(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """The job of an older one stays done."""
    for revision in (0, 1):
        store.write([make_record(record_revision=revision)])
        store.finish([make_finished(job) for job in store.claim("w")])
    assert store.redo(again=True) == 1
    assert [job.record_revision for job in store.claim("w")] == [1]


def test_what_another_analyzer_scored_may_be_chosen(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """By service and time."""
    store.write([make_record(name, service=name, started_at=at) for at, name in enumerate(["a", "b", "b2"])])
    for job in store.claim("w"):
        done = make_finished(job)
        outdated = msgspec.structs.replace(done.analysis, analyzer_version="coverage-0")
        store.finish([replace(done, analysis=outdated)])
    with store._database.write() as connection:
        connection.execute(sa.update(job_table).values(analyzer_version="coverage-0"))
    assert store.redo(service="a", since=1) == 0
    assert store.redo(since=2) == 1
    assert _ids(store.claim("w")) == ["b2"]
    assert store.redo(service="a") == 1


def test_redo_beside_a_writer(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """Whatever the order in which they were analyzed, requests are locked in that of their ids, as writers do it."""
    if store.url.startswith("sqlite"):
        pytest.skip("only one writes at a time")
    store.write([make_record("r2")])
    store.write([make_record("r1")])
    for each in store.claim("w"):
        done = make_finished(each)
        store.finish([replace(done, analysis=msgspec.structs.replace(done.analysis, analyzer_version="old"))])
    errors: list[Exception] = []

    def redo() -> None:
        try:
            store.redo()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=redo)
    rows = sa.select(request.c.request_id).with_for_update()
    with store._database.write() as writer:
        writer.execute(rows.where(request.c.request_id == "r1"))
        thread.start()
        waits(store, thread)
        writer.execute(rows.where(request.c.request_id == "r2"))
    thread.join(60)
    assert [str(each.__cause__ or each) for each in errors] == []


Make = Callable[..., RequestRecord]


def bury(store: Store, make_record: Make, *names: str) -> None:
    """Requests whose jobs are dead."""
    store.write([make_record(name) for name in names])
    for job in store.claim("worker", limit=len(names)):
        store.fail(job, "no model", for_good=True)


def test_find(store: Store, make_record: Make) -> None:
    """Newest first, by state, kind and service."""
    bury(store, make_record, "r1", "r2")
    store.write([make_record("r3", service="other")])

    assert [row.request_id for row in store.jobs()] == ["r3", "r2", "r1"]
    assert [row.request_id for row in store.jobs(state="dead", limit=1)] == ["r2"]
    assert [row.request_id for row in store.jobs(service="other")] == ["r3"]
    assert store.jobs(kind="attribution") == []
    assert store.jobs(state="dead")[0].error == "no model"


def test_retry(store: Store, make_record: Make) -> None:
    """Dead jobs are pending again with all their attempts; others are left alone."""
    bury(store, make_record, "r1", "r2")
    store.write([make_record("r3")])
    first = store.jobs(state="dead")[-1].id

    assert store.retry_jobs([first]) == 1
    assert store.retry_jobs() == 1
    assert store.retry_jobs() == 0
    assert [(row.state, row.attempts) for row in store.jobs()] == [("pending", 0)] * 3
    assert {job.request_id for job in store.claim("worker", limit=9)} == {"r1", "r2", "r3"}


def test_drop(store: Store, make_record: Make) -> None:
    """Dropped jobs are gone, their requests stay, and a newer revision is enqueued again."""
    bury(store, make_record, "r1")
    store.write([make_record("r2")])

    assert store.drop_jobs() == 1
    assert store.drop_jobs(state="pending", service="nobody") == 0
    assert [row.request_id for row in store.jobs()] == ["r2"]
    store.write([make_record("r1", record_revision=1)])
    assert {row.request_id for row in store.jobs(state="pending")} == {"r1", "r2"}


def test_leased_jobs_are_in_hand(store: Store, make_record: Make) -> None:
    """Nobody takes a job away from a worker."""
    store.write([make_record("r1")])
    (job,) = store.claim("worker")

    assert store.drop_jobs(state="leased") == 0
    assert store.drop_jobs([job.id], state="pending") == 0
    assert store.heartbeat([job]) == [job]


def test_an_analysis_that_a_person_waits_for(store: Store, make_record: MakeRecord) -> None:
    """It comes before what was drawn, is enqueued once, and a dead job of it runs again; nothing is enqueued of a
    request that is not stored."""
    store.write([make_record("r1"), make_record("r2")])
    for asked in ("r1", "r2"):
        assert store.ask(asked, "attribution", "a-1")
        assert store.ask(asked, "attribution", "a-1")
    assert not store.ask("nobody", "attribution", "a-1")
    second, first = store.jobs(kind="attribution")
    assert [(one.request_id, one.state, one.flagged) for one in (first, second)] == [
        ("r1", "pending", True),
        ("r2", "pending", True),
    ]
    assert [store.jobs_before(one) for one in (first, second)] == [0, 1]
    (leased,) = store.claim("w", kinds=("attribution",), limit=1)
    assert store.ask("r1", "attribution", "a-1")
    assert store.jobs(request_id="r1", kind="attribution")[0].state == "leased"
    store.fail(leased, "no memory", for_good=True)
    assert store.jobs(request_id="r1", kind="attribution")[0].state == "dead"
    assert store.ask("r1", "attribution", "a-1")
    assert store.jobs(request_id="r1", kind="attribution")[0].state == "pending"
