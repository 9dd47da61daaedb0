"""Brings what was read to the store, on a thread of its own, which a database may hold up; else to the spool."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from ragtrace.collect.chores import Chore
from ragtrace.collect.delivery import Delivery
from ragtrace.collect.finishing import Finishing
from ragtrace.collect.queue import ITEMS, Queue, Waiting
from ragtrace.collect.spool import Segment, Spool
from ragtrace.collect.spooling import Spooling
from ragtrace.collect.waiters import Waiters

__all__ = ["Storing"]

_ADOPT_EVERY: Final = 60.0  # seconds


class Storing:
    """From the read half of the queue to the store.

    Args:
        lock: held around the queue and the spool's durable lane.
        flushed: up to which flush all is read.
        flushes: who waits in `flush`.
    """

    def __init__(
        self,
        lock: threading.RLock,
        queue: Queue,
        spool: Spool,
        spooling: Spooling,
        delivery: Delivery,
        finishing: Finishing,
        flushes: Waiters,
        flushed: Callable[[], int],
    ) -> None:
        self._lock = lock
        self._queue = queue
        self._spool = spool
        self._spooling = spooling
        self._delivery = delivery
        self._finishing = finishing
        self._flushes = flushes
        self._flushed = flushed
        self._answered = 0  # flushes
        self._adopting = Chore(self._adopt, _ADOPT_EVERY)
        self._in_step = True  # the spool's open lanes hold nothing but what is in the queue
        self._left: tuple[Segment, ...] = ()
        self.in_flight: list[Waiting] = []  # what was taken and the spool does not hold

    @property
    def wait(self) -> float:
        """Seconds after which there is something to do."""
        return 0.0 if self._has_more else min(self._delivery.wait, self._adopting.wait)

    @property
    def _has_more(self) -> bool:
        """Whether all that was adopted is stored, and more of it waits."""
        return self._spool.has_more and not self._spool.pending

    def begin(self) -> None:
        """Take over what dead processes left, and open the store."""
        self._adopt()
        self._delivery.open()

    def step(self) -> None:
        """Store all that was read; while the store takes nothing and is not due, spool it."""
        self._adopting.do_if_due()
        if self._has_more:
            self._adopt()
        with self._lock:
            asked = self._flushed()
            is_due = asked != self._answered or self._delivery.is_due
            read = self._queue.take_read()
            if is_due:
                self._spool.durable.seal()
            loose = [waiting for waiting in read.waiting if not waiting.is_spooled]
            self.in_flight = loose
        in_step = self._in_step and read.is_whole
        if is_due:
            is_written = self._write(read.waiting, loose, in_step=in_step)
            self._in_step = is_written or not loose
            is_stored = is_written and self._delivery.replay() and self._deliver_faults()
            if not is_stored:
                self._spooling.join()
            self._left = tuple(self._spool.pending)
            self._answered = asked
            self._flushes.settle(asked, is_done=is_stored)
        else:
            self._in_step = in_step and not read.waiting
            self._put_back(self._spooling.put(loose))
            self.in_flight = []

    def _write(self, waiting: list[Waiting], loose: list[Waiting], *, in_step: bool) -> bool:
        """Write a batch: with the segments that it covers, or only what is not spooled."""
        self._spool.samples.seal()
        fresh = [segment for segment in self._spool.pending if segment not in self._left]
        self._spooling.sync(fresh)
        batch = [each.item for each in (waiting if in_step else loose) if isinstance(each.item, ITEMS)]
        covered = fresh if in_step else []
        is_written = not (batch or covered) or self._delivery.deliver(batch, covered)
        if not is_written:
            self._put_back(self._spooling.put(loose))
        self.in_flight = []
        return is_written

    def _adopt(self) -> None:
        if self._spool.adopt():
            self._left = tuple(self._spool.pending)

    def _deliver_faults(self) -> bool:
        """Last of a step, so that those that it met itself are among them."""
        with self._lock:
            faults = self._queue.take_faults()
        if not faults or self._delivery.deliver(faults, []):
            return True
        with self._lock:
            self._queue.count(faults)
        return False

    def _put_back(self, loose: list[Waiting]) -> None:
        """Keep in memory what found no room in the spool; samples only as far as there is room."""
        with self._lock:
            dropped = sum(not self._queue.put(waiting, is_read=True) for waiting in loose)
            if dropped:
                fault = self._finishing.fault("sink.spool", "full", "neither spool nor memory has room", dropped)
                self._queue.count([fault])
