"""The guard: swallow, log once per kind, count; raise under test."""

from __future__ import annotations

import logging

import pytest

from ragtrace.record.guard import Guard
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
