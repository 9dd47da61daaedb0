"""The bounded queue."""

from __future__ import annotations

from ragtrace.collect.queue import Queue, Waiting, weigh
from ragtrace.types import Candidate, Fault, Feedback, RequestRecord, RetrieveRun

ITEM = Feedback(request_id="r")


def test_samples_beyond_the_limit_are_refused() -> None:
    """Memory is bounded by bytes."""
    queue = Queue(100)
    assert queue.put(Waiting(ITEM, 60))
    assert not queue.put(Waiting(ITEM, 60))
    assert len(queue.drain().waiting) == 1
    assert queue.put(Waiting(ITEM, 60))


def test_a_durable_item_without_a_spool_always_has_room() -> None:
    """It is nowhere else."""
    queue = Queue(100)
    assert queue.put(Waiting(ITEM, 1000, is_durable=True))
    assert queue.drain().is_whole


def test_a_spooled_item_beyond_the_limit_is_left_to_the_spool() -> None:
    """The drained batch says that the spool holds more."""
    queue = Queue(100)
    assert not queue.put(Waiting(ITEM, 1000, is_durable=True, is_spooled=True))
    assert not queue.drain().is_whole
    assert queue.drain().is_whole


def test_equal_faults_are_one() -> None:
    """A flood of faults takes no memory."""
    queue = Queue(100)
    for _ in range(1000):
        queue.count([Fault(service="s", where="w", kind="k", count=2)])
    queue.count([Fault(service="s", where="w", kind="other")])
    assert [(fault.kind, fault.count) for fault in queue.drain_faults()] == [("k", 2000), ("other", 1)]
    assert queue.drain_faults() == []


def test_a_records_weight_is_mostly_its_texts() -> None:
    """Fifty candidates of 600 characters weigh at least what their texts do."""
    run = RetrieveRun(candidates=tuple(Candidate(chunk_id="c", rank=1, text="x" * 600) for _ in range(50)))
    assert 30_000 <= weigh(RequestRecord(request_id="r", service="s", stages=(run,))) <= 100_000
