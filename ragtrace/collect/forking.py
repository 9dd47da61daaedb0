"""Keeps sinks whole across `os.fork` (gunicorn's pre-fork, multiprocessing): a child starts with an empty one."""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol

__all__ = ["Forking", "watch"]


class Forking(Protocol):
    """What a fork passes through."""

    def before_fork(self) -> None:
        """Come to rest: no lock held, no write under way."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Let go of all that is the parent's and begin anew."""


_watched: Final[weakref.WeakSet[Forking]] = weakref.WeakSet()
_resting: Final[list[Forking]] = []


def watch(sink: Forking) -> None:
    """Take `sink` through the forks to come, for as long as it lives."""
    _watched.add(sink)


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
    _resting.clear()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
