"""The bounded queue."""

from __future__ import annotations

import pytest

from ragtrace.collect._queue import Queue, Waiting, weigh
from ragtrace.types import (
    Addendum,
    Candidate,
    Citation,
    ErrorInfo,
    Facet,
    Fault,
    Feedback,
    GenerateRun,
    Generation,
    Item,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageRun,
)
from tests.collect.drafts import FakeDraft

ITEM = Feedback(request_id="r")


def of_run(run: StageRun) -> RequestRecord:
    """A record with this run."""
    return RequestRecord(request_id="r", service="s", stages=(run,))


def test_samples_beyond_the_limit_are_refused() -> None:
    """Memory is bounded by bytes."""
    queue = Queue(100)
    assert queue.put(Waiting(ITEM, 60))
    assert not queue.put(Waiting(ITEM, 60))
    assert len(queue.take_unread().kept) == 1
    assert not queue.put(Waiting(ITEM, 60))  # in hand
    queue.put_read([Waiting(ITEM, 50)])
    assert not queue.put(Waiting(ITEM, 60))
    assert len(queue.take_read().waiting) == 1
    assert queue.put(Waiting(ITEM, 60))


def test_what_was_accepted_is_not_refused_when_it_is_read() -> None:
    """It may weigh more than it seemed; what comes next has no room then."""
    queue = Queue(100)
    assert queue.put(Waiting(ITEM, 10))
    assert queue.take_unread().kept
    queue.put_read([Waiting(ITEM, 500)])
    assert not queue.put(Waiting(ITEM, 10))
    assert [waiting.weight for waiting in queue.take_read().waiting] == [500]
    assert queue.put(Waiting(ITEM, 100))


def test_it_fills_before_it_is_full() -> None:
    """So that what waits for company is stored before anything is refused."""
    queue = Queue(100)
    draft = FakeDraft("a", kept=True)
    assert queue.put(Waiting(draft, 25))
    assert not queue.is_filling
    assert queue.put(Waiting(draft, 1))
    assert queue.is_filling


def test_a_durable_item_without_a_spool_always_has_room() -> None:
    """It is nowhere else."""
    queue = Queue(100)
    assert queue.put(Waiting(ITEM, 1000, is_durable=True), is_read=True)
    assert queue.take_read().is_whole


def test_a_spooled_item_beyond_the_limit_is_left_to_the_spool() -> None:
    """The drained batch says that the spool holds more."""
    queue = Queue(100)
    assert not queue.put(Waiting(ITEM, 1000, is_durable=True, is_spooled=True), is_read=True)
    assert not queue.take_read().is_whole
    assert queue.take_read().is_whole


def test_equal_faults_are_one() -> None:
    """A flood of faults takes no memory."""
    queue = Queue(100)
    for _ in range(1000):
        queue.count([Fault(service="s", where="w", kind="k", count=2)])
    queue.count([Fault(service="s", where="w", kind="other")])
    assert [(fault.kind, fault.count) for fault in queue.take_faults()] == [("k", 2000), ("other", 1)]
    assert queue.take_faults() == []


def test_ever_new_faults_take_no_memory() -> None:
    """Of too many kinds, further ones are one, and none is uncounted."""
    queue = Queue(100)
    queue.count(Fault(service="s", where="w", kind=f"k{number}") for number in range(3000))
    faults = queue.take_faults()
    assert len(faults) == 1001
    assert sum(fault.count for fault in faults) == 3000


def test_a_records_weight_is_mostly_its_texts() -> None:
    """Fifty candidates of 600 characters weigh at least what their texts do."""
    run = RetrieveRun(candidates=tuple(Candidate(chunk_id="c", rank=1, text="x" * 600) for _ in range(50)))
    weight = weigh(RequestRecord(request_id="r", service="s", stages=(run,)))
    assert 30_000 <= weight <= 100_000
    assert 30_000 <= weigh(Addendum(request_id="r", service="s", addendum_id="a", stages=(run,))) <= 100_000


LONG = "x" * 100_000
HEAVY: dict[str, Item] = {
    "query": RequestRecord(request_id="r", service="s", query=Query(original=LONG)),
    "facet": RequestRecord(
        request_id="r", service="s", query=Query(facets=(Facet(kind="custom", value="v", aliases=(LONG,)),))
    ),
    "attributes": RequestRecord(request_id="r", service="s", attributes={"a": [{"b": LONG}]}),
    "versions": RequestRecord(request_id="r", service="s", versions={"model": LONG}),
    "error": RequestRecord(request_id="r", service="s", error=ErrorInfo(type="E", message=LONG)),
    "retriever's query": of_run(RetrieveRun(query=LONG)),
    "metadata": of_run(RetrieveRun(candidates=(Candidate(chunk_id="c", rank=1, metadata={"full": LONG}),))),
    "moves": of_run(RerankRun(moves=tuple(RankMove(chunk_id=f"c{number}") for number in range(1000)))),
    "packed": of_run(PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="c", position=1, text=LONG),)))),
    "prompt": of_run(GenerateRun(generation=Generation(prompt_template=LONG))),
    "citations": of_run(GenerateRun(generation=Generation(citations=(Citation(marker=LONG),)))),
    "comment": Feedback(request_id="r", comment=LONG),
    "what JSON refuses": Feedback(request_id="r", comment="\ud83d" + LONG),
}


@pytest.mark.parametrize("item", HEAVY.values(), ids=HEAVY)
def test_whatever_is_long_is_weighed(item: Item) -> None:
    """No field is a way around the bound."""
    assert 100_000 <= weigh(item) <= 400_000


def test_what_is_not_kept_has_half_of_the_room() -> None:
    """It is drained apart, and takes no room from what is kept."""
    queue = Queue(100)
    drafts = [FakeDraft(name) for name in "abc"]
    assert [queue.put(Waiting(draft, 25, is_kept=False)) for draft in drafts] == [True, True, False]
    assert queue.put(Waiting(ITEM, 50))
    kept, outside = queue.take_unread()
    assert (outside, [waiting.item for waiting in kept]) == (drafts[:2], [ITEM])


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
    assert [waiting.item for waiting in queue.take_unread().kept] == [drafts[2], ITEM, ITEM]
