"""A named lease has one holder."""

from __future__ import annotations

from ragtrace.store import Store


def test_one_owner_holds_a_lease(store: Store) -> None:
    """A second owner is refused until the lease is given back."""
    assert store.acquire("exporter", "a", 60, now=0)
    assert not store.acquire("exporter", "b", 60, now=59)
    assert store.acquire("other", "b", 60, now=59)
    store.release("exporter", "b")
    assert not store.acquire("exporter", "b", 60, now=59)
    store.release("exporter", "a")
    assert store.acquire("exporter", "b", 60, now=59)


def test_a_lease_is_prolonged_and_runs_out(store: Store) -> None:
    """Its owner may prolong it; at its end another may take it, and the first has lost it."""
    assert store.acquire("exporter", "a", 60, now=0)
    assert store.acquire("exporter", "a", 60, now=50)
    assert not store.acquire("exporter", "b", 60, now=109)
    assert store.acquire("exporter", "b", 60, now=110)
    assert not store.acquire("exporter", "a", 60, now=111)


def test_a_clock_that_was_set_back_leaves_no_lease_for_long(store: Store) -> None:
    """A lease that ends in more than an hour was taken by another clock, and is free."""
    assert store.acquire("exporter", "a", 60, now=86_400)
    assert store.acquire("exporter", "b", 60, now=0)
    assert store.acquire("other", "a", 60, now=3_500)
    assert not store.acquire("other", "b", 60, now=0)
