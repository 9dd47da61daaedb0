"""Sinks across `os.fork` (gunicorn's pre-fork, multiprocessing): kept whole, and empty in a child."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Final, Protocol

__all__ = ["Forkable", "watch"]

_DEADLINE: Final = 5.0  # seconds


class Forkable(Protocol):
    """What a fork passes through."""

    def before_fork(self) -> None:
        """Come to rest: no lock held, no write under way."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Let go of all that is the parent's and begin anew."""

    def close(self, timeout: float) -> bool:
        """Bring what is left to the store or the spool, within `timeout` seconds."""


_watched: Final[weakref.WeakSet[Forkable]] = weakref.WeakSet()
_resting: Final[list[Forkable]] = []


def watch(sink: Forkable) -> None:
    """Take `sink` through the forks to come, for as long as it lives."""
    _watched.add(sink)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        _close_at_exit(sink)


def _before() -> None:
    _resting[:] = list(_watched)
    for sink in _resting:
        sink.before_fork()


def _in_parent() -> None:
    for sink in _resting:
        sink.after_fork_in_parent()
    _resting.clear()


def _in_child() -> None:
    for sink in _resting:
        sink.after_fork_in_child()
        if "multiprocessing.util" in sys.modules:
            sys.modules["multiprocessing.util"].register_after_fork(sink, _close_at_exit)
    _resting.clear()


def _close_at_exit(sink: Forkable) -> None:
    """A child of multiprocessing ends without `atexit`; it runs finalizers of its own, and no inherited ones."""
    from multiprocessing.util import Finalize

    Finalize(None, _close, args=(weakref.ref(sink),), exitpriority=0)


def _close(reference: weakref.ref[Forkable]) -> None:
    sink = reference()
    if sink is not None:
        sink.close(_DEADLINE)


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
