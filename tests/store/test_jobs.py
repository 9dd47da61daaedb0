"""The queue for the hand: look at jobs, run dead ones again, take jobs out."""

from __future__ import annotations

from collections.abc import Callable

from ragtrace.store import Store
from ragtrace.types import RequestRecord

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
