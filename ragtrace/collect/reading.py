"""Reads what was submitted, on a thread that no database holds up: builds and finishes it, ends its spans, screens."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from ragtrace.collect.finishing import Finishing
from ragtrace.collect.outside import Outside
from ragtrace.collect.queue import Queue, Waiting
from ragtrace.collect.waiters import Waiters
from ragtrace.collect.weights import weigh
from ragtrace.record import Draft
from ragtrace.types import Fault

__all__ = ["Reading"]

T = TypeVar("T")


class Reading:
    """From the unread half of the queue to the read one.

    Args:
        lock: held around the queue.
        flushes: who waits in `flush`; up to `flushed` all that they wait for is read.
        hand_on: tells the storing thread.
    """

    def __init__(
        self,
        lock: threading.RLock,
        queue: Queue,
        finishing: Finishing,
        outside: Outside,
        flushes: Waiters,
        hand_on: Callable[[], None],
    ) -> None:
        self._lock = lock
        self._queue = queue
        self._finishing = finishing
        self._outside = outside
        self._flushes = flushes
        self._hand_on = hand_on
        self._unread: deque[Waiting] = deque()
        self._outsiders: deque[Draft] = deque()
        self._read: deque[Waiting] = deque()
        self.readers = Waiters()  # those who wait until spans are ended
        self.flushed = 0

    def step(self) -> None:
        """Read all that waits: what is kept first."""
        with self._lock:
            asked, flushes = self.readers.asked, self._flushes.asked
            unread = self._queue.take_unread()
            self._outside.hold(unread.outside)  # in this step, so that a late flag finds each here or in the queue
            self._unread.extend(unread.kept)
            self._outsiders.extend(unread.outside)
        for waiting in _out_of(self._unread):
            self._finish(waiting)
        self._put([])
        for draft in _out_of(self._outsiders):
            self._screen(draft)
        self._put(self._outside.end_cycle(at_once=flushes != self.flushed))
        self.readers.settle(asked)
        if flushes != self.flushed:
            self.flushed = flushes
            self._hand_on()

    def rest(self) -> tuple[list[Waiting], list[Waiting]]:
        """At the end: what is not read, and what is read and not handed on, each once, while the thread may still work.
        The spans of requests outside the sample end."""
        for draft in _out_of(self._outsiders):
            draft.discard()
        return list(_out_of(self._unread)), list(_out_of(self._read))

    def _finish(self, waiting: Waiting) -> None:
        finished = self._finishing.finished(waiting.item)
        if finished is not None:
            self._read.append(waiting._replace(item=finished, weight=weigh(finished)))

    def _screen(self, draft: Draft) -> None:
        """Keep a request outside the sample when there is a reason for it."""
        kept, faults = self._outside.read([draft])
        for item in kept:
            self._finish(Waiting(item, 0, is_durable=True))
        if faults:
            self._put(faults)

    def _put(self, faults: list[Fault]) -> None:
        """Hand on what was read."""
        with self._lock:
            read = list(_out_of(self._read))
            self._queue.put_read(read)
            self._queue.count(faults)
        if read or faults:
            self._hand_on()


def _out_of(waiting: deque[T]) -> Iterator[T]:
    """Take all out, one by one; another thread may do the same."""
    while waiting:
        try:
            yield waiting.popleft()
        except IndexError:
            return
