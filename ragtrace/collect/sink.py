"""The background sink: the host's thread hands items over, one thread of ours writes them to the store.

Nothing accepted is lost: a durable item is in the spool at once, any that cannot be stored is there until it is.
Memory and disk are bounded by bytes; random samples beyond them are dropped and counted, flagged ones never.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from ragtrace.collect import forking
from ragtrace.collect.answers import Answers
from ragtrace.collect.chores import Chore
from ragtrace.collect.delivery import Delivery, Writer
from ragtrace.collect.finishing import Finishing, discard
from ragtrace.collect.outside import Outside, addendum
from ragtrace.collect.queue import ITEMS, Queue, Waiting, weigh
from ragtrace.collect.recent import Recent
from ragtrace.collect.spool import Segment, Spool
from ragtrace.collect.spooling import Spooling
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
        outside: sees to the requests that are outside the sample.
        chore: what else the background does.
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
        outside: Outside | None = None,
        chore: Chore | None = None,
    ) -> None:
        self._spool = spool
        self._service = service
        self._finishing = Finishing(finish, scrub, service, self._count)
        self._outside = outside or Outside(Recent())
        self._chore = chore or Chore()
        self._spooling = Spooling(spool, self._finishing, spool_bytes, self._count)
        self._queue_bytes = queue_bytes
        self._delivery = Delivery(open_writer, spool, self._finishing, self._count, retry)
        self._abandoned: list[Writer | None] = []  # a forked child's: closing them would disturb the parent's database
        self._closed = False
        self._begin()
        self._start()
        forking.watch(self)

    def _begin(self) -> None:
        """All state that a process has for itself."""
        self._queue = Queue(self._queue_bytes)
        self._lock = threading.Lock()
        self._answers = Answers()
        self._busy = threading.Lock()  # held while the thread is in the database or the import system
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._in_flight: list[Waiting] = []  # what the store is being given and the spool does not hold
        self._in_step = True  # the spool's open lanes hold nothing but what is in the queue
        self._left: tuple[Segment, ...] = ()
        self._is_resting = False
        self._closing = False

    # the host's threads

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Take an item over; a durable one is in the spool when this returns."""
        if self._closed:
            _LOG.warning("ragtrace is shut down; a %s is not recorded", type(item).__name__)
            discard(item)
        elif isinstance(item, Fault):
            self._count(item)
        elif durable:
            self._submit_durable(item)
        elif isinstance(item, ITEMS):
            self._accept(Waiting(item, weigh(item)), b"")
        elif item.is_kept or self._outside.wants(item):
            if not self._accept(Waiting(item, item.weight, is_kept=item.is_kept), b""):
                item.discard()
        else:
            item.discard()

    def flag(self, request_id: str, flags: tuple[str, ...]) -> None:
        """Keep a request that has ended: whole where it is still here, else its flags, for the store to unite."""
        if not flags:
            return
        with self._lock:
            drafts = self._queue.take(request_id)
        built = [draft.build(flags) for draft in drafts]
        found = [item for item in built if item is not None] + self._outside.take(request_id, flags)
        for item in found or [addendum(request_id, self._service, flags)]:
            self.submit(item, durable=True)

    def _submit_durable(self, item: Item | Draft) -> None:
        encoded = self._finishing.encoded(item)
        if encoded is not None:
            self._accept(Waiting(encoded.item, weigh(encoded.item), is_durable=True), encoded.entry)

    def _accept(self, waiting: Waiting, entry: bytes) -> bool:
        """Queue an item; False when there is no room."""
        with self._lock:
            if entry:
                try:
                    self._spool.durable.append(entry)
                    waiting = waiting._replace(is_spooled=True)
                except OSError as error:
                    self._queue.count([self._finishing.fault("sink.spool", type(error).__name__, str(error))])
            has_room = self._queue.put(waiting)
            if not has_room and not waiting.is_spooled:
                where = "sink.queue" if waiting.is_kept else "screen"
                self._queue.count([self._finishing.fault(where, "full", f"more than {self._queue_bytes} bytes wait")])
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
        return self._answers.wait(self._ask, timeout)

    def _ask(self) -> None:
        self._hurry.set()
        self._wake.set()

    def close(self, timeout: float) -> bool:
        """Flush and end the thread; what is not stored by then stays in the spool, and False says so."""
        if self._closed:
            return True
        deadline = time.monotonic() + timeout
        is_stored = self._thread is None or self.flush(timeout)  # a forked child may have had nothing to do
        self._closed = self._closing = True
        self._ask()
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        is_empty = self._keep_the_rest()
        return is_stored and is_empty and not self._spool.size

    # the background thread

    def _start(self) -> None:
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
            self._wake.wait(min(self._delivery.wait, self._chore.wait))
            self._wake.clear()
            self._hurry.wait(_LINGER)
            is_forced = self._hurry.is_set()
            self._hurry.clear()
            try:
                with self._busy:
                    self._chore.do_if_due()
                    self._cycle(is_forced)
            except Exception:
                _LOG.exception("ragtrace's background thread met a fault of its own and goes on")
        self._keep_the_rest()
        self._outside.close()
        with self._lock:
            self._delivery.close()
            self._spool.close()

    def _cycle(self, is_forced: bool) -> None:
        is_due = is_forced or self._delivery.is_due
        with self._lock:
            asked, drained = self._answers.asked, self._queue.drain()
            self._outside.hold(drained.outside)  # in this step, so that a late flag finds each here or in the queue
            if is_due:
                self._spool.durable.seal()
        in_step = self._in_step and drained.is_whole
        waiting = drained.waiting + self._screened(drained.outside, is_forced)
        spooled, loose = self._spooling.finish(waiting)
        if not is_due:
            self._in_step = in_step and not waiting
            self._put_back(self._spooling.put(loose))
            return
        self._spool.samples.seal()
        fresh = [segment for segment in self._spool.pending if segment not in self._left]
        self._spooling.sync(fresh)
        items = [each.item for each in loose if isinstance(each.item, ITEMS)]
        batch, covered = (spooled + items, fresh) if in_step else (items, [])
        self._in_flight = loose
        is_written = not (batch or covered) or self._delivery.deliver(batch, covered)
        if not is_written:
            self._put_back(self._spooling.put(loose))
        self._in_flight = []
        self._in_step = is_written or not loose
        is_stored = is_written and self._delivery.replay() and self._deliver_faults()
        self._left = tuple(self._spool.pending)
        self._answers.settle(asked if is_stored else None)

    def _screened(self, drafts: list[Draft], is_forced: bool) -> list[Waiting]:
        """Those of the requests outside the sample that there is a reason to keep."""
        kept, faults = self._outside.read(drafts)
        faults += self._outside.end_cycle(at_once=is_forced)
        with self._lock:
            self._queue.count(faults)
        return [Waiting(item, weigh(item), is_durable=True) for item in kept]

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
                fault = self._finishing.fault("sink.spool", "full", "neither spool nor memory has room", dropped)
                self._queue.count([fault])

    def _keep_the_rest(self) -> bool:
        """At the end: bring to the spool what is still in memory; whether there was nothing."""
        with self._lock:
            drained = self._queue.drain()
        for draft in drained.outside:
            draft.discard()
        rest = [waiting.item for waiting in (*self._in_flight, *drained.waiting) if not waiting.is_spooled]
        kept = [self._keep(item) for item in rest]
        with self._lock:
            faults = self._queue.drain_faults()
        kept += [self._keep(fault) for fault in faults]
        return not any(kept)

    def _keep(self, item: Item | Draft) -> bool:
        """Spool an item at the end; False where there is nothing to keep of it."""
        encoded = self._finishing.encoded(item)
        if encoded is not None:
            with self._lock:
                self._spooling.keep(encoded)
        return encoded is not None

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
        self._outside.begin_anew()
        self._spool.close()
        self._abandoned.append(self._delivery.abandon())
