"""The background's threads: a worker with its steps, periodic ones, the barrier of those who wait for it, and forks.

A fork (gunicorn's pre-fork, multiprocessing) keeps the parent's sink whole, and leaves the child's empty.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Final, Protocol

from ragtrace.file_locks import is_held_by

__all__ = ["BackgroundThread", "FlushBarrier", "Forkable", "Periodic", "watch"]

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


_LOG: Final = logging.getLogger("ragtrace")
_LINGER: Final = 0.1  # seconds in which work gathers
_SHORT: Final = 0.01  # seconds between two looks
_PATIENCE: Final = 60.0  # seconds that a fork waits at most for an import, or the end of what writes a SQLite file
_RETRY: Final = 1.0  # seconds until a thread that the system did not give is asked for again


class BackgroundThread:
    """One thread.

    Args:
        begin, step, end: what it does first, each time it is woken, and last.
        linger: seconds in which work gathers before a step that nobody hurries.
        wait: seconds after which it wakes by itself.
        failed: told when the system gives no thread.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        *,
        begin: Callable[[], None] = lambda: None,
        end: Callable[[], None] = lambda: None,
        linger: float = _LINGER,
        wait: Callable[[], float],
        failed: Callable[[Exception], None],
    ) -> None:
        self._name = name
        self._begin, self._step, self._end = begin, step, end
        self._linger = linger
        self._wait = wait
        self._failed = failed
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._retry_at = 0.0
        self._woken = threading.Event()
        self._hurried = threading.Event()
        self._is_stopping = False
        self._busy = threading.Lock()  # held while it does anything
        self._is_resting = False

    @property
    def is_started(self) -> bool:
        """Whether it was started."""
        return self._thread is not None

    @property
    def is_current(self) -> bool:
        """Whether this is its thread."""
        return threading.current_thread() is self._thread

    def start(self) -> bool:
        """Start it, once; False while the system gives no thread."""
        failure: Exception | None = None
        with self._starting:
            if not self.is_started and not self._is_stopping and time.monotonic() >= self._retry_at:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                try:
                    thread.start()
                    self._thread = thread
                except Exception as error:  # no more threads, or the interpreter ends
                    self._retry_at = time.monotonic() + _RETRY
                    failure = error
        if failure is not None:
            self._failed(failure)
        return self.is_started

    def wake(self, *, at_once: bool = False) -> None:
        """Let it do a step, soon or `at_once`."""
        if at_once:
            self._hurried.set()
        if not self._woken.is_set():
            self._woken.set()

    def stop(self) -> None:
        """Let it end after a last step."""
        self._is_stopping = True
        self.wake(at_once=True)

    def join(self, timeout: float) -> bool:
        """Wait until it has ended; False when it has not within `timeout` seconds."""
        if self._thread is None or self.is_current:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def rest(self, timeout: float) -> None:
        """Hold it still between two steps, when one ends within `timeout` seconds. Two things are waited for, since a
        child would inherit a lock for good: an import, which it could never do, and the write lock of a SQLite file."""
        until = time.monotonic() + _PATIENCE
        self._is_resting = self._busy.acquire(timeout=max(0.0, timeout))
        while not self._is_resting and self._holds_a_lock() and time.monotonic() < until:
            self._is_resting = self._busy.acquire(timeout=_SHORT)

    def _holds_a_lock(self) -> bool:
        return self._is_importing() or is_held_by(None if self._thread is None else self._thread.ident)

    def _is_importing(self) -> bool:
        frame = None if self._thread is None else sys._current_frames().get(self._thread.ident or 0)
        while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        return frame is not None

    def go_on(self) -> None:
        """After `rest`."""
        if self._is_resting:
            self._is_resting = False
            self._busy.release()

    def _run(self) -> None:
        self._thread = threading.current_thread()
        self._do(self._begin)
        while not self._is_stopping:
            self._woken.wait(min(self._wait(), threading.TIMEOUT_MAX))
            self._woken.clear()
            self._hurried.wait(self._linger)
            self._hurried.clear()
            self._do(self._step)
        self._do(self._end)

    def _do(self, what: Callable[[], None]) -> None:
        with self._busy:
            try:
                what()
            except BaseException:  # nothing ends this thread but `stop`: not a host's redactor that calls exit()
                _LOG.exception("ragtrace's background thread met a fault of its own and goes on")


class Periodic:
    """Something to be done every `seconds`."""

    def __init__(self, do: Callable[[], None] = lambda: None, seconds: float = 60.0) -> None:
        self._do = do
        self._seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def wait(self) -> float:
        """Seconds until it is due."""
        return max(0.0, self._at - time.monotonic())

    def do_if_due(self) -> None:
        """Do it when it is due."""
        if not self.wait:
            self._at = time.monotonic() + self._seconds
            self._do()


class FlushBarrier:
    """Those who wait: told when all that was there when they asked is done, or that it cannot be. Safe for threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._done = self._failed = 0
        self.asked = 0

    def wait(self, ask: Callable[[], None], timeout: float) -> bool:
        """Ask, and wait up to `timeout` seconds; whether it is done."""
        with self._changed:
            self.asked += 1
            mine = self.asked
            ask()
            self._changed.wait_for(lambda: max(self._done, self._failed) >= mine, timeout)
            return self._done >= mine

    def settle(self, asked: int, *, is_done: bool = True) -> None:
        """Answer all up to this one."""
        with self._changed:
            if is_done:
                self._done = max(self._done, asked)
            else:
                self._failed = max(self._failed, asked)
            self._changed.notify_all()
