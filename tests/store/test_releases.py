"""Releases: from the requests that carry a version, and as somebody recorded them."""

from __future__ import annotations

from collections.abc import Callable

from ragtrace.store import ChunkSeen, Release, Store
from ragtrace.types import RequestRecord

MakeRecord = Callable[..., RequestRecord]


def test_a_recorded_time_wins_and_makes_no_second_release(store: Store, make_record: MakeRecord) -> None:
    """Before or after the first request that carries the version, in whatever order both arrive."""
    store.record_release("shop", "model", "a", 70)
    store.write([make_record("r1", started_at=50, versions={"model": "a", "index": "i"})])
    store.record_release("shop", "index", "i", 20)
    assert store.releases() == [
        Release("shop", "index", "i", 50, 20),
        Release("shop", "model", "a", 50, 70),
    ]
    assert [release.at for release in store.releases()] == [20, 70]


def test_an_earlier_request_moves_only_what_was_first_seen(store: Store, make_record: MakeRecord) -> None:
    """The recorded time stays."""
    store.record_release("shop", "model", "a", 70)
    store.write([make_record("r1", started_at=50, versions={"model": "a"})])
    store.write([make_record("r2", started_at=30, versions={"model": "a"})])
    assert store.releases() == [Release("shop", "model", "a", 30, 70)]


def test_a_later_word_replaces_an_earlier_one(store: Store) -> None:
    """A version that is rolled back to comes into use once more."""
    for at in (10, 90, 40):
        store.record_release("shop", "model", "a", at)
        store.record_release("shop", "model", "a", at)
    assert store.releases() == [Release("shop", "model", "a", None, 40)]


def test_what_was_recorded_can_be_taken_back(store: Store, make_record: MakeRecord) -> None:
    """What requests carried stays; taking back what nobody said changes nothing."""
    store.write([make_record("r1", started_at=50, versions={"model": "a", "index": "i"})])
    store.record_release("shop", "model", "a", 70)
    store.record_release("shop", "model", "typo", 70)
    assert store.forget_release("shop", "model", "a")
    assert store.forget_release("shop", "model", "typo")
    assert not store.forget_release("shop", "index", "i")
    assert not store.forget_release("shop", "model", "never")
    assert store.releases() == [Release("shop", "index", "i", 50), Release("shop", "model", "a", 50)]


def test_index_versions_are_compared_in_their_recorded_order(store: Store, make_record: MakeRecord) -> None:
    """A build whose first request came late is the older one when somebody says so."""
    store.write([make_record("r1", started_at=10, versions={"index": "v2"})])
    store.write([make_record("r2", started_at=20, versions={"index": "v1"})])
    store.record_release("shop", "index", "v1", 5)
    store.note_chunks([ChunkSeen("shop", "v1", "c", "one"), ChunkSeen("shop", "v2", "c", "two")])
    assert [(drift.previous_version, drift.version, drift.rewritten) for drift in store.drift()] == [("v1", "v2", 1)]


def test_names_that_no_database_takes_are_kept_readable(store: Store) -> None:
    """NUL becomes a replacement character, in recording as in taking back."""
    store.record_release("shop", "model", "a\x00", 1)
    assert store.releases() == [Release("shop", "model", "a\ufffd", None, 1)]
    assert store.forget_release("shop", "model", "a\x00")
