"""The background sink: the host's thread hands items over, one thread of ours writes them to the spool and the store.

Nothing accepted is lost: an item that cannot be stored stays in the spool until it is. Nothing in the host is hurt:
memory and disk are bounded by bytes; random samples beyond them are dropped and counted, flagged ones never.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from ragtrace.collect import forking
from ragtrace.collect.delivery import Delivery, Writer
from ragtrace.collect.entries import encode
from ragtrace.collect.queue import Queue, Waiting, weigh
from ragtrace.collect.spool import Segment, Spool
from ragtrace.errors import RecordError
from ragtrace.record import Draft
from ragtrace.types import Fault, Item

__all__ = ["BackgroundSink", "Writer"]

_LOG: Final = logging.getLogger("ragtrace")
_LINGER: Final = 0.1  # seconds in which a batch gathers
_FORK_WAIT: Final = 2.0  # seconds that a fork waits for our thread to leave the database and the import system


class BackgroundSink:
    """A `record.Sink` over a spool and a writer that is opened in the background.

    Args:
        open_writer: opens the store; called again after a failure.
        spool: where items wait.
        finish: the last step of an item (hashes, content policy), run in the background.
        scrub: makes an item writable that JSON refused.
    """

    def __init__(
        self,
        open_writer: Callable[[], Writer],
        spool: Spool,
        *,
        service: str = "default",
        finish: Callable[[Item], Item] = lambda item: item,
        scrub: Callable[[Item], Item] = lambda item: item,
        queue_bytes: int = 64 * 2**20,
        spool_bytes: int = 2**30,
        retry: tuple[float, float] = (1.0, 60.0),
    ) -> None:
        self._spool = spool
        self._service = service
        self._finish = finish
        self._scrub = scrub
        self._spool_bytes = spool_bytes
        self._queue = Queue(queue_bytes)
        self._queue_bytes = queue_bytes
        self._delivery = Delivery(open_writer, spool, service, self._count, retry)
        self._abandoned: list[Writer | None] = []  # a forked child's: closing them would disturb the parent's database
        self._closed = False
        self._begin()
        self._start()
        forking.watch(self)

    def _begin(self) -> None:
        """All state that a process has for itself."""
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._busy = threading.Lock()  # held while the thread is in the database or the import system
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked = self._answered = self._failures = 0  # flushes, and cycles that could not store
        self._in_step = True  # the spool's open lanes hold nothing but what is in the queue
        self._left: tuple[Segment, ...] = ()
        self._is_resting = False
        self._closing = False

    # the host's threads

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Take an item over; a durable one is in the spool when this returns."""
        if self._closed:
            _LOG.warning("ragtrace is shut down; a %s is not recorded", type(item).__name__)
            _discard(item)
        elif isinstance(item, Fault):
            self._count(item)
        elif durable:
            self._submit_durable(item)
        elif not self._accept(Waiting(item, weigh(item)), b""):
            _discard(item)

    def _submit_durable(self, item: Item | Draft) -> None:
        encoded = self._encoded(item)
        if encoded is not None:
            self._accept(Waiting(encoded[0], weigh(encoded[0]), is_durable=True), encoded[1])

    def _accept(self, waiting: Waiting, entry: bytes) -> bool:
        """Queue an item; False when there is no room."""
        with self._lock:
            if entry:
                try:
                    self._spool.durable.append(entry)
                    waiting = waiting._replace(is_spooled=True)
                except OSError as error:
                    self._queue.count([self._fault("sink.spool", type(error).__name__, str(error))])
            has_room = self._queue.put(waiting)
            if not has_room and not waiting.is_spooled:
                self._queue.count([self._fault("sink.queue", "full", f"more than {self._queue_bytes} bytes wait")])
        if self._thread is None:
            self._start()
        if not self._wake.is_set():
            self._wake.set()
        return has_room

    def _count(self, fault: Fault) -> None:
        with self._lock:
            self._queue.count([fault])
        self._start()
        self._wake.set()

    def flush(self, timeout: float) -> bool:
        """Wait until all that was submitted is stored; False when it could not be, or not within `timeout` seconds."""
        if self._closed or threading.current_thread() is self._thread:
            return not self._spool.size
        self._start()
        with self._settled:
            self._asked += 1
            mine, failures = self._asked, self._failures
            self._hurry.set()
            self._wake.set()
            self._settled.wait_for(lambda: self._answered >= mine or self._failures > failures, timeout)
            return self._answered >= mine

    def close(self, timeout: float) -> bool:
        """Flush and end the thread; what is not stored by then stays in the spool, and False says so."""
        if self._closed:
            return True
        deadline = time.monotonic() + timeout
        is_stored = self.flush(timeout)
        self._closed = self._closing = True
        self._hurry.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        is_empty = self._keep_the_rest()
        return is_stored and is_empty and not self._spool.size

    # the background thread

    def _start(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._wake.set()
                self._thread = threading.Thread(target=self._run, name="ragtrace-sink", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        with self._busy:
            self._spool.adopt()
            self._left = tuple(self._spool.pending)
            self._delivery.open()
        while not self._closing:
            self._wake.wait(self._delivery.wait)
            self._wake.clear()
            self._hurry.wait(_LINGER)
            is_forced = self._hurry.is_set()
            self._hurry.clear()
            try:
                with self._busy:
                    self._cycle(is_forced)
            except Exception:
                _LOG.exception("ragtrace's background thread met a fault of its own and goes on")
        self._keep_the_rest()
        with self._lock:
            self._delivery.close()
            self._spool.close()

    def _cycle(self, is_forced: bool) -> None:
        is_due = is_forced or self._delivery.is_due
        with self._lock:
            asked, drained = self._asked, self._queue.drain()
            if is_due:
                self._spool.durable.seal()
        in_step = self._in_step and drained.is_whole
        items, loose = self._spool_samples(drained.waiting)
        if not is_due:
            self._in_step = in_step and not drained.waiting
            self._put_back(loose)
            return
        self._spool.samples.seal()
        fresh = [segment for segment in self._spool.pending if segment not in self._left]
        self._sync(fresh)
        batch, covered = (items, fresh) if in_step else (_items(loose), [])
        is_written = self._delivery.deliver(batch, covered)
        if not is_written:
            self._put_back(loose)
        self._in_step = True
        is_stored = is_written and self._delivery.replay() and self._deliver_faults()
        self._left = tuple(self._spool.pending)
        self._settle(asked if is_stored else None)

    def _settle(self, answered: int | None) -> None:
        """Tell those who wait in `flush` how far it is, or that it failed."""
        with self._settled:
            if answered is None:
                self._failures += 1
            else:
                self._answered = answered
            self._settled.notify_all()

    def _spool_samples(self, drained: list[Waiting]) -> tuple[list[Item], list[Waiting]]:
        """Finish what is not in the spool yet and put it there; gives all items, and those that found no room."""
        items: list[Item] = []
        loose: list[Waiting] = []
        for waiting in drained:
            if waiting.is_spooled and isinstance(waiting.item, Item):
                items.append(waiting.item)
                continue
            encoded = self._encoded(waiting.item)
            if encoded is None:
                continue
            items.append(encoded[0])
            if not self._spool_sample(encoded[1]):
                loose.append(waiting._replace(item=encoded[0]))
        return items, loose

    def _spool_sample(self, entry: bytes) -> bool:
        if self._spool.size + len(entry) > self._spool_bytes:
            return False
        try:
            self._spool.samples.append(entry)
        except OSError as error:
            self._count(self._fault("sink.spool", type(error).__name__, str(error)))
            return False
        return True

    def _sync(self, segments: list[Segment]) -> None:
        for segment in segments:
            try:
                segment.sync()
            except OSError as error:
                self._count(self._fault("sink.spool", type(error).__name__, str(error)))

    def _encoded(self, item: Item | Draft) -> tuple[Item, bytes] | None:
        """The finished item with its spool entry; None when it is not kept or, counted, cannot be written at all."""
        try:
            built = _built(item)
            if built is None:
                return None
            finished = self._finish(built)
            try:
                return finished, encode(finished)
            except RecordError:
                scrubbed = self._scrub(finished)
                return scrubbed, encode(scrubbed)
        except Exception as error:
            _LOG.warning("a %s cannot be written: %s", type(item).__name__, error)
            self._count(self._fault("sink.encode", type(error).__name__, str(error)))
            return None

    def _deliver_faults(self) -> bool:
        """Last of a cycle, so that those that it met itself are among them."""
        with self._lock:
            faults = self._queue.drain_faults()
        if not faults or self._delivery.deliver(faults, []):
            return True
        with self._lock:
            self._queue.count(faults)
        return False

    def _put_back(self, loose: list[Waiting]) -> None:
        """Keep in memory what found no room in the spool; samples only as far as there is room."""
        with self._lock:
            dropped = sum(not self._queue.put(waiting) for waiting in loose)
            if dropped:
                self._queue.count([self._fault("sink.spool", "full", "neither spool nor memory has room", dropped)])

    def _keep_the_rest(self) -> bool:
        """At the end: bring to the spool what is still in memory; whether there was nothing."""
        with self._lock:
            drained = self._queue.drain()
        rest = [waiting.item for waiting in drained.waiting if not waiting.is_spooled]
        kept = [self._keep(item) for item in rest]
        with self._lock:
            faults = self._queue.drain_faults()
        kept += [self._keep(fault) for fault in faults]
        return not any(kept)

    def _keep(self, item: Item | Draft) -> bool:
        """Spool an item at the end; False for a draft that is not kept anyway."""
        try:
            built = _built(item)
            if built is None:
                return False
            entry = encode(self._scrub(self._finish(built)))
            with self._lock:
                self._spool.durable.append(entry)
        except Exception as error:
            _LOG.error("a %s is lost at shutdown: %s", type(item).__name__, error)
        return True

    def _fault(self, where: str, kind: str, message: str, count: int = 1) -> Fault:
        return Fault(service=self._service, where=where, kind=kind, message=message, count=count, at=time.time_ns())

    # forks

    def before_fork(self) -> None:
        """Wait (not forever) until our thread is out of the database, then hold still."""
        self._is_resting = self._busy.acquire(timeout=_FORK_WAIT)
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()
        if self._is_resting:
            self._busy.release()

    def after_fork_in_child(self) -> None:
        """Begin anew; queue, spool segments and database connection are the parent's."""
        self._begin()
        self._queue = Queue(self._queue_bytes)
        self._spool.close()
        self._abandoned.append(self._delivery.abandon())


def _items(waiting: list[Waiting]) -> list[Item]:
    """Those that are built."""
    return [each.item for each in waiting if isinstance(each.item, Item)]


def _built(item: Item | Draft) -> Item | None:
    return item if isinstance(item, Item) else item.build()


def _discard(item: Item | Draft) -> None:
    """What is not taken over holds no spans open."""
    if not isinstance(item, Item):
        item.discard()
