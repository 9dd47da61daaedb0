"""A named lease has one holder."""

from __future__ import annotations

import threading
import time

import pytest

from ragtrace.errors import StoreUnavailable
from ragtrace.store import Heartbeat, Store


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


def test_a_heartbeat_prolongs_until_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """It goes on where the store cannot be asked, and no beat comes behind the block."""
    beats: list[int] = []
    enough = threading.Event()

    def prolong() -> bool:
        beats.append(1)
        if len(beats) == 1:
            raise StoreUnavailable("nobody is there")
        if len(beats) == 3:
            enough.set()
        return True

    with Heartbeat("a thing", 0.03, prolong):
        assert enough.wait(20.0)
    count = len(beats)
    time.sleep(0.1)
    assert len(beats) == count >= 3
    assert "the lease of a thing could not be prolonged: nobody is there" in caplog.text


def test_a_heartbeat_ends_with_what_it_prolongs() -> None:
    """Where nothing is left to prolong, nothing is asked any more."""
    beats: list[int] = []
    ended = threading.Event()

    def prolong() -> bool:
        beats.append(1)
        ended.set()
        return False

    with Heartbeat("a thing", 0.03, prolong):
        assert ended.wait(20.0)
        time.sleep(0.1)
    assert beats == [1]
