"""The bounded queue."""

from __future__ import annotations

from ragtrace.collect.queue import Queue, Waiting, weigh
from ragtrace.types import Addendum, Candidate, Fault, Feedback, RequestRecord, RetrieveRun
from tests.collect.drafts import FakeDraft

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
    weight = weigh(RequestRecord(request_id="r", service="s", stages=(run,)))
    assert 30_000 <= weight <= 100_000
    assert weigh(Addendum(request_id="r", service="s", addendum_id="a", stages=(run,))) == weight


def test_what_is_not_kept_has_half_of_the_room() -> None:
    """It is drained apart, and takes no room from what is kept."""
    queue = Queue(100)
    drafts = [FakeDraft(name) for name in "abc"]
    assert [queue.put(Waiting(draft, 25, is_kept=False)) for draft in drafts] == [True, True, False]
    assert queue.put(Waiting(ITEM, 50))
    drained = queue.drain()
    assert (drained.outside, [waiting.item for waiting in drained.waiting]) == (drafts[:2], [ITEM])


def test_the_drafts_of_a_request_are_taken_out() -> None:
    """All of them; nothing of another, no finished item, and their room is free again."""
    queue = Queue(100)
    drafts = [FakeDraft("r"), FakeDraft("r", kept=True), FakeDraft("other", kept=True)]
    for draft in drafts:
        assert queue.put(Waiting(draft, 25, is_kept=draft.is_kept))
    assert queue.put(Waiting(ITEM, 25))
    assert queue.take("r") == drafts[:2]
    assert queue.take("r") == []
    assert queue.put(Waiting(ITEM, 50))
    assert [waiting.item for waiting in queue.drain().waiting] == [drafts[2], ITEM, ITEM]
