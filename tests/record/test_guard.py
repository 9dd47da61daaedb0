"""The guard: swallow, log once per kind, count; raise under test."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ragtrace.record.guard import Guard, attempt, guarded, put_in_use
from ragtrace.types import Fault


def test_each_fault_is_counted_and_each_kind_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A thousand equal faults are one line in the log."""
    faults: list[Fault] = []
    guard = Guard("svc", faults.append)
    with caplog.at_level(logging.WARNING, "ragtrace"):
        for _ in range(3):
            guard.caught("coerce.retrieve", TypeError("odd"))
        guard.count("coerce.retrieve", "Thing")
    assert [(fault.service, fault.where, fault.kind) for fault in faults] == [
        *[("svc", "coerce.retrieve", "TypeError")] * 3,
        ("svc", "coerce.retrieve", "Thing"),
    ]
    assert len(caplog.records) == 2


def test_under_test_exceptions_are_raised_again() -> None:
    """raise_errors shows our own bugs to us."""
    guard = Guard("svc", lambda fault: None, raise_errors=True)
    with pytest.raises(TypeError, match="odd"):
        guard.caught("coerce.retrieve", TypeError("odd"))


def test_counting_never_raises() -> None:
    """Neither an exception without a readable message nor a broken sink gets out."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def refuse(fault: Fault) -> None:
        raise OSError

    faults: list[Fault] = []
    Guard("svc", faults.append).caught("x", Unspeakable())
    assert faults[0].message == "(its message cannot be read)"
    Guard("svc", refuse).caught("x", Unspeakable())


def test_a_guarded_block_is_left_at_a_fault() -> None:
    """What stands behind the fault in the block does not run, what stands behind the block does."""
    faults: list[Fault] = []
    guard, reached = Guard("svc", faults.append), []
    with guarded("feedback", guard):
        reached.append("before")
        raise KeyError("x")
    reached.append("behind")
    assert (reached, [(fault.where, fault.kind) for fault in faults]) == (
        ["before", "behind"],
        [("feedback", "KeyError")],
    )


def test_a_guarded_block_under_test_raises() -> None:
    """raise_errors shows the fault with its own traceback, and nothing is counted."""
    faults: list[Fault] = []
    with pytest.raises(KeyError, match="x"), guarded("feedback", Guard("svc", faults.append, raise_errors=True)):
        raise KeyError("x")
    assert faults == []


def test_a_cancellation_passes_a_guarded_hook() -> None:
    """An event loop that cancels what runs is obeyed, with a recorder and without one."""

    @guarded("instrument.example")
    def hook() -> None:
        raise asyncio.CancelledError

    for guard in (None, Guard("svc", lambda fault: None)):
        put_in_use(guard)
        try:
            with pytest.raises(asyncio.CancelledError):
                hook()
        finally:
            put_in_use(None)


def test_a_hook_counts_with_the_guard_in_use(caplog: pytest.LogCaptureFixture) -> None:
    """A hook that was decorated before `configure` counts with the guard of it; without one it is logged."""
    faults: list[Fault] = []

    @guarded("instrument.example")
    def half(number: int) -> float:
        return 1 / number

    with caplog.at_level(logging.WARNING, "ragtrace"):
        assert half(0) is None
    assert "instrument.example: ZeroDivisionError" in caplog.text
    put_in_use(Guard("svc", faults.append))
    try:
        assert (half(2), half(0)) == (0.5, None)
    finally:
        put_in_use(None)
    assert [fault.kind for fault in faults] == ["ZeroDivisionError"]


def test_what_a_host_object_raises_is_read_otherwise() -> None:
    """An object that raises when it is looked at has the other value; a cancellation passes."""

    def cancelled(value: object) -> None:
        raise asyncio.CancelledError

    assert (attempt(int, "7", None), attempt(int, "seven", None)) == (7, None)
    with pytest.raises(asyncio.CancelledError):
        attempt(cancelled, "x", None)
