"""What is held for late flags: bounded by bytes and age."""

from __future__ import annotations

import weakref

from ragtrace.collect import RecentRequests
from ragtrace.types import RequestRecord
from tests.collect.drafts import FakeDraft


class Clock:
    """A time of our own."""

    now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def test_all_parts_of_a_request_are_taken_once() -> None:
    """And nothing of another."""
    recent = RecentRequests(10_000, 60.0)
    drafts = [FakeDraft("a"), FakeDraft("b"), FakeDraft("a")]
    for draft in drafts:
        recent.add(draft.request_id, draft, draft.weight)
    assert recent.take("a") == [drafts[0], drafts[2]]
    assert recent.take("a") == []
    assert recent.take("b") == [drafts[1]]


def test_beyond_the_bytes_the_oldest_goes() -> None:
    """What was taken no longer counts."""
    recent = RecentRequests(2500, 60.0)
    drafts = [FakeDraft(str(number)) for number in range(4)]
    for draft in drafts:
        recent.add(draft.request_id, draft, draft.weight)
    recent.take("3")
    assert recent.trim() == [drafts[0]]
    assert recent.trim() == []
    assert recent.take("1") == [drafts[1]]


def test_what_is_too_old_goes() -> None:
    """By the time at which it came."""
    clock = Clock()
    recent = RecentRequests(10_000, 60.0, clock)
    first, second = FakeDraft("first"), FakeDraft("second")
    recent.add(first.request_id, first, first.weight)
    clock.now = 50.0
    recent.add(second.request_id, second, second.weight)
    clock.now = 61.0
    assert recent.trim() == [first]
    assert recent.clear() == [second]
    assert recent.take("second") == []


def test_a_record_takes_the_place_of_its_draft() -> None:
    """With its own weight; the draft is let go."""
    recent = RecentRequests(2500, 60.0)
    draft = FakeDraft("a")
    record = RequestRecord(request_id="a", service="svc")
    number = recent.add("a", draft, draft.weight)
    recent.replace(number, record, 2600)
    alive = weakref.ref(draft)
    del draft
    assert alive() is None
    recent.replace(number, record, 10)
    assert recent.trim() == []
    assert recent.holds(number)
    assert recent.take("a") == [record]
    assert not recent.holds(number)
    assert not recent.drop(number)
