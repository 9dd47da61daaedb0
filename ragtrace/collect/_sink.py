"""The background sink: the host's threads hand items over, one thread of ours reads them, another one stores them.

Nothing accepted is lost: a durable item is in the spool at once, any that cannot be stored is there until it is.
Memory and disk are bounded by bytes; random samples beyond them are dropped and counted, flagged ones never.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from ragtrace.collect import _threads as threads
from ragtrace.collect._delivery import Delivery, Finisher, SpoolWriter, StoreStep, Writer
from ragtrace.collect._queue import ITEMS, Queue, Waiting, weigh
from ragtrace.collect._screening import RecentRequests, UnsampledRequests, addendum
from ragtrace.collect._threads import BackgroundThread, FlushBarrier, Periodic
from ragtrace.collect.spool import Spool
from ragtrace.record import Draft
from ragtrace.types import Fault, Item

__all__ = ["BackgroundSink"]

T = TypeVar("T")
_LOG: Final = logging.getLogger("ragtrace")
_FORK_WAIT: Final = 2.0  # seconds that a fork waits for our threads to leave the database and the import system
_LAST_TRIES: Final = 2  # at the end: the first may meet a connection that broke since the last write
_GRACE: Final = 0.5  # seconds for the reading, which waits for nothing, to end
_GATHER: Final = 0.4  # seconds in which what was read gathers for one transaction: each costs milliseconds by itself


class BackgroundSink:
    """A `record.Sink` over a spool and a writer that is opened in the background.

    Args:
        open_writer: opens the store; called again after a failure.
        spool: where items wait.
        finish: the last step of an item (hashes, content policy), run in the background.
        scrub: makes an item writable that JSON refused.
        read: makes an item of the draft of a request that is kept.
        unsampled: sees to the requests that are outside the sample.
        periodic: what else the background does.
    """

    def __init__(
        self,
        open_writer: Callable[[], Writer],
        spool: Spool,
        *,
        service: str = "default",
        finish: Callable[[Item], Item] = lambda item: item,
        scrub: Callable[[Item], Item] = lambda item: item,
        read: Callable[[Draft], Item | None] = lambda draft: draft.build(),
        queue_bytes: int = 64 * 2**20,
        spool_bytes: int = 2**30,
        retry: tuple[float, float] = (1.0, 60.0),
        unsampled: UnsampledRequests | None = None,
        periodic: Periodic | None = None,
    ) -> None:
        self._spool = spool
        self._service = service
        self._finisher = Finisher(finish, scrub, service, self._count, read)
        self._unsampled = unsampled or UnsampledRequests(RecentRequests())
        self._periodic = periodic or Periodic()
        self._spool_writer = SpoolWriter(spool, self._finisher, spool_bytes, self._count)
        self._queue_bytes = queue_bytes
        self._delivery = Delivery(open_writer, spool, self._finisher, self._count, retry)
        self._abandoned: list[Writer | None] = []  # a forked child's: closing them would disturb the parent's database
        self._closed = False
        self._begin()
        self._start()
        threads.watch(self)

    def _begin(self) -> None:
        """All state that a process has for itself."""
        self._lock = threading.RLock()  # a stream that the garbage collector ends while it is held submits too
        self._queue = Queue(self._queue_bytes)
        self._flushes = FlushBarrier()
        self._has_threads = self._is_let_go = False
        self._reading = ReadStep(self._lock, self._queue, self._finisher, self._unsampled, self._flushes, self._hand_on)
        self._storing = StoreStep(
            self._lock,
            self._queue,
            self._spool,
            self._spool_writer,
            self._delivery,
            self._finisher,
            self._flushes,
            lambda: self._reading.flushed,
        )
        self._reader = BackgroundThread(
            "ragtrace-sink",
            self._read,
            end=self._end_reading,
            wait=lambda: self._periodic.wait,
            failed=self._has_no_thread,
        )
        self._storer = BackgroundThread(
            "ragtrace-store",
            self._storing.step,
            begin=self._storing.begin,
            end=self._let_go,
            linger=_GATHER,
            wait=lambda: self._storing.wait,
            failed=self._has_no_thread,
        )

    # the host's threads

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Take an item over; a durable one is in the spool when this returns."""
        if self._closed:
            self._submit_late(item)
        elif isinstance(item, Fault):
            self._count(item)
        elif durable:
            self._submit_durable(item)
        elif isinstance(item, ITEMS):
            self._accept(Waiting(item, weigh(item)))
        elif item.is_kept or self._unsampled.is_to_be_read(item):
            if not self._accept(Waiting(item, item.weight, is_kept=item.is_kept)):
                item.discard()
        else:
            self._unsampled.let_pass(item)

    def flag(self, request_id: str, flags: tuple[str, ...]) -> None:
        """Keep a request that has ended: whole where it is still here, else its flags, for the store to unite."""
        if not flags:
            return
        with self._lock:
            drafts = self._queue.take(request_id)
        built = [draft.build(flags) for draft in drafts]
        found = [item for item in built if item is not None] + self._unsampled.take(request_id, flags)
        for item in found or [addendum(request_id, self._service, flags)]:
            self.submit(item, durable=True)

    def _submit_durable(self, item: Item | Draft) -> None:
        encoded = self._finisher.encoded(item)
        if encoded is None:
            return
        waiting = Waiting(encoded.item, len(encoded.entry), is_durable=True)
        with self._lock:
            try:
                self._spool.durable.append(encoded.entry)
                waiting = waiting._replace(is_spooled=True)
            except OSError as error:
                self._queue.count([self._finisher.fault("sink.spool", type(error).__name__, str(error))])
            self._queue.put(waiting, is_read=True)
        if not self._has_threads:
            self._start()
        self._storer.wake()

    def _submit_late(self, item: Item | Draft) -> None:
        """What ends after `close` goes to the spool, for the next start; the guard has told of a fault."""
        if isinstance(item, Fault):
            return
        if not isinstance(item, ITEMS) and not item.is_kept:
            item.discard()
        else:
            _LOG.warning("ragtrace is shut down; a %s goes to the spool, for the next start", type(item).__name__)
            self._keep(item)

    def _accept(self, waiting: Waiting) -> bool:
        """Queue an item; False when there is no room, which is counted."""
        with self._lock:
            has_room = self._queue.put(waiting)
            if not has_room:
                where = "sink.queue" if waiting.is_kept else "screen"
                self._queue.count([self._finisher.fault(where, "full", f"more than {self._queue_bytes} bytes wait")])
        if not self._has_threads:
            self._start()
        self._reader.wake()
        return has_room

    def _count(self, fault: Fault) -> None:
        with self._lock:
            self._queue.count([fault])
        self._start()
        self._storer.wake()

    def flush(self, timeout: float) -> bool:
        """Wait until all that was submitted is stored; False when it could not be, or not within `timeout` seconds."""
        if self._closed or self._reader.is_current or self._storer.is_current:
            return not self._spool.size
        return self._start() and self._flushes.wait(lambda: self._reader.wake(at_once=True), timeout)

    def end_spans(self, timeout: float) -> bool:
        """Wait until the spans of all that was submitted are ended, whatever the store does."""
        if self._closed or self._reader.is_current:
            return True
        return self._start() and self._reading.readers.wait(lambda: self._reader.wake(at_once=True), timeout)

    def close(self, timeout: float) -> bool:
        """Flush and end the threads; what is not stored by then stays in the spool, and False says so."""
        if self._closed:
            return True
        deadline = time.monotonic() + timeout
        is_stored = not self._storer.is_started  # a forked child may have had nothing to do
        for _ in range(_LAST_TRIES):
            is_stored = is_stored or self.flush(deadline - time.monotonic())
        self._closed = True
        self._reader.stop()
        self._storer.stop()
        self._reader.join(max(_GRACE, deadline - time.monotonic()))
        self._storer.join(max(0.0, deadline - time.monotonic()))
        is_empty = self._keep_the_rest()
        is_stored = is_stored and is_empty and not self._spool.size
        if not self._storer.is_started:
            self._let_go()
        return is_stored

    # the background threads

    def _start(self) -> bool:
        """Start the threads; False while the system gives none: what is durable waits in the spool, all else here."""
        if not self._has_threads and not self._closed:
            self._has_threads = self._reader.start() and self._storer.start()
        return self._has_threads

    def _has_no_thread(self, error: Exception) -> None:
        _LOG.warning("ragtrace's background thread cannot start and is tried again: %s", error)
        with self._lock:
            self._queue.count([self._finisher.fault("sink.thread", type(error).__name__, str(error))])

    def _read(self) -> None:
        self._periodic.do_if_due()
        self._reading.step()

    def _end_reading(self) -> None:
        self._unsampled.close()
        self._keep_the_rest()

    def _hand_on(self, *, at_once: bool) -> None:
        self._storer.wake(at_once=at_once)

    def _let_go(self) -> None:
        """At the end of the storing thread, or without one: leave the rest to the next start."""
        self._keep_the_rest()
        with self._lock:
            self._is_let_go = True
            self._delivery.close()
            self._spool.close()

    def _keep_the_rest(self) -> bool:
        """At the end: bring to the spool what is still in memory; whether there was nothing."""
        with self._lock:
            unread, outside = self._queue.take_unread()
            in_hand, read = self._reading.rest()
            read = [*self._storing.in_flight, *self._queue.take_read().waiting, *read]
        for draft in outside:
            draft.discard()
        kept = [self._keep(waiting.item, is_finished=True) for waiting in read if not waiting.is_spooled]
        kept += [self._keep(waiting.item) for waiting in (*in_hand, *unread)]
        with self._lock:
            faults = [*self._storing.untold, *self._queue.take_faults()]
            self._storing.untold = []
        kept += [self._keep(fault) for fault in faults]
        return not any(kept)

    def _keep(self, item: Item | Draft, *, is_finished: bool = False) -> bool:
        """Spool an item at the end; False where there is nothing to keep of it."""
        if is_finished and isinstance(item, ITEMS):
            encoded = self._finisher.entry(item)
        else:
            encoded = self._finisher.encoded(item)
        if encoded is not None:
            with self._lock:
                self._spool_writer.keep(encoded)
                if self._is_let_go:
                    self._spool.close()
        return encoded is not None

    # forks

    def before_fork(self) -> None:
        """Wait (not forever) until our threads are out of the database, then hold still."""
        deadline = time.monotonic() + _FORK_WAIT
        self._reader.rest(_FORK_WAIT)
        self._storer.rest(deadline - time.monotonic())
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()
        self._reader.go_on()
        self._storer.go_on()

    def after_fork_in_child(self) -> None:
        """Begin anew; queue, spool segments and database connection are the parent's."""
        self._begin()
        self._unsampled.begin_anew()
        self._spool.close()
        self._abandoned.append(self._delivery.abandon())


class ReadStep:
    """From the unread half of the queue to the read one.

    Args:
        lock: held around the queue.
        flushes: who waits in `flush`; up to `flushed` all that they wait for is read.
        hand_on: tells the storing thread, which somebody waits for or not.
    """

    def __init__(
        self,
        lock: threading.RLock,
        queue: Queue,
        finisher: Finisher,
        unsampled: UnsampledRequests,
        flushes: FlushBarrier,
        hand_on: Callable[..., None],
    ) -> None:
        self._lock = lock
        self._queue = queue
        self._finisher = finisher
        self._unsampled = unsampled
        self._flushes = flushes
        self._hand_on = hand_on
        self._unread: deque[Waiting] = deque()
        self._outsiders: deque[Draft] = deque()
        self._read: deque[Waiting] = deque()
        self.readers = FlushBarrier()  # those who wait until spans are ended
        self.flushed = 0

    def step(self) -> None:
        """Read all that waits: what is kept first."""
        with self._lock:
            asked, flushes = self.readers.asked, self._flushes.asked
            unread = self._queue.take_unread()
            self._unsampled.hold(unread.outside)  # in this step, so that a late flag finds each here or in the queue
            self._unread.extend(unread.kept)
            self._outsiders.extend(unread.outside)
        for waiting in _out_of(self._unread):
            self._finish(waiting)
        self._put([])
        for draft in _out_of(self._outsiders):
            self._screen(draft)
        self._put(self._unsampled.end_cycle(at_once=flushes != self.flushed))
        self.readers.settle(asked)
        if flushes != self.flushed:
            self.flushed = flushes
            self._hand_on(at_once=True)

    def rest(self) -> tuple[list[Waiting], list[Waiting]]:
        """At the end: what is not read, and what is read and not handed on, each once, while the thread may still work.
        The spans of requests outside the sample end."""
        for draft in _out_of(self._outsiders):
            draft.discard()
        return list(_out_of(self._unread)), list(_out_of(self._read))

    def _finish(self, waiting: Waiting) -> None:
        finished = self._finisher.finished(waiting.item)
        if finished is not None:
            self._read.append(waiting._replace(item=finished, weight=weigh(finished)))

    def _screen(self, draft: Draft) -> None:
        """Keep a request outside the sample when there is a reason for it."""
        kept, faults = self._unsampled.read([draft])
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
            is_filling = self._queue.is_filling
        if read or faults:
            self._hand_on(at_once=is_filling)


def _out_of(waiting: deque[T]) -> Iterator[T]:
    """Take all out, one by one; another thread may do the same."""
    while waiting:
        try:
            yield waiting.popleft()
        except IndexError:
            return
