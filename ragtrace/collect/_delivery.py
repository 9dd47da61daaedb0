"""Delivery: items are finished, written to the store on a thread that a database may hold up, else to the spool."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Final, NamedTuple, Protocol, runtime_checkable

from ragtrace.collect._queue import ITEMS, Queue, Waiting
from ragtrace.collect._threads import FlushBarrier, Periodic
from ragtrace.collect.spool import Spool, SpoolFile, encode_entry
from ragtrace.errors import CorruptStore, NewerForm, RagtraceError, RecordError, SchemaMismatch, StoreUnavailable
from ragtrace.record import Draft
from ragtrace.record.guard import fault_now, is_of_the_host, place_of
from ragtrace.types import Fault, Item, replace

__all__ = ["Delivery", "Encoded", "Finisher", "SpoolWriter", "StoreStep", "Writer"]

_LOG: Final = logging.getLogger("ragtrace")
_BATCH: Final = 200
_ENVIRONMENT: Final = (CorruptStore, SchemaMismatch, StoreUnavailable, OSError, MemoryError)
_ADOPT_EVERY: Final = 60.0  # seconds


class Encoded(NamedTuple):
    """A finished item, and its spool entry."""

    item: Item
    entry: bytes


class Finisher:
    """Builds, finishes and encodes.

    Args:
        finish: the last step of an item (hashes, content policy).
        scrub: makes an item writable that JSON refused.
        read: makes an item of a draft.
    """

    def __init__(
        self,
        finish: Callable[[Item], Item],
        scrub: Callable[[Item], Item],
        service: str,
        count: Callable[[Fault], None],
        read: Callable[[Draft], Item | None] = lambda draft: draft.build(),
    ) -> None:
        self._read = read
        self._finish = finish
        self._scrub = scrub
        self._service = service
        self._count = count

    def finished(self, item: Item | Draft) -> Item | None:
        """The finished item; None when there is nothing to keep or, counted, it cannot be finished at all."""
        try:
            built = item if isinstance(item, Item) else self._read(item)
            return None if built is None else self._finish(built)
        except BaseException as error:
            if is_of_the_host(error):
                raise
            self._failed(item, error)
            return None

    def encoded(self, item: Item | Draft) -> Encoded | None:
        """The finished item with its entry; None where there is none, or, counted, it cannot be written at all."""
        finished = self.finished(item)
        return None if finished is None else self.entry(finished)

    def entry(self, finished: Item) -> Encoded | None:
        """The same of an item that is finished already."""
        try:
            return Encoded(finished, encode_entry(finished))
        except RecordError:
            mended = self.mended(finished)
        return None if mended is None else Encoded(mended, encode_entry(mended))

    def mended(self, finished: Item) -> Item | None:
        """An item that JSON refused, made writable; None when, counted, it cannot be."""
        try:
            scrubbed = self._scrub(finished)
            encode_entry(scrubbed)
        except Exception as error:
            self._failed(finished, error)
            return None
        return scrubbed

    def _failed(self, item: Item | Draft, error: BaseException) -> None:
        said = str(error) if isinstance(error, RecordError) else place_of(error)
        _LOG.warning("a %s cannot be written: %s %s", type(item).__name__, type(error).__name__, said)
        self._count(self.fault("sink.encode", type(error).__name__, said))

    def fault(self, where: str, kind: str, message: str, count: int = 1) -> Fault:
        """A fault of this service, now."""
        return fault_now(self._service, where, kind, message, count)


class SpoolWriter:
    """Spools finished items; `limit`: bytes of the spool beyond which samples find no room."""

    def __init__(self, spool: Spool, finisher: Finisher, limit: int, count: Callable[[Fault], None]) -> None:
        self._spool = spool
        self._finisher = finisher
        self._limit = limit
        self._count = count

    def put(self, loose: Iterable[Waiting]) -> list[Waiting]:
        """Put finished items into the spool, where they wait for the store; gives those that found no room."""
        left: list[Waiting] = []
        for waiting in loose:
            encoded = self._finisher.entry(waiting.item) if isinstance(waiting.item, ITEMS) else None
            if encoded is not None and not self._append(encoded.entry, waiting.is_durable):
                left.append(waiting._replace(item=encoded.item))
        return left

    def sync(self, segments: Iterable[SpoolFile]) -> None:
        """Bring segments to the disk itself."""
        for segment in segments:
            try:
                segment.sync()
            except OSError as error:
                self._failed(error)

    def join(self) -> None:
        """Hold few files open, however often the store has refused them."""
        try:
            self._spool.join()
        except OSError as error:
            self._failed(error)

    def keep(self, encoded: Encoded) -> None:
        """Spool an item at the end, when no sample can be in its way."""
        try:
            self._spool.durable.append(encoded.entry)
        except Exception as error:
            _LOG.error("a %s is lost at shutdown: %s", type(encoded.item).__name__, error)

    def _append(self, entry: bytes, is_durable: bool) -> bool:
        if not is_durable and self._spool.size + len(entry) > self._limit:
            return False
        try:
            self._spool.samples.append(entry)
        except OSError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: OSError) -> None:
        self._count(self._finisher.fault("sink.spool", type(error).__name__, str(error)))


class Writer(Protocol):
    """Where items end, the store. Writing an item twice changes nothing."""

    def write(self, items: Sequence[Item], /) -> None:
        """Write all of them, or none and raise."""

    def close(self) -> None:
        """Let go of it."""


@runtime_checkable
class TakesSegments(Protocol):
    """A writer to which whole segments can be given as they are."""

    def take_over(self, segment: SpoolFile, /) -> None:
        """Take one, which needs no room on the disk. Raises: OSError."""


class Delivery:
    """A writer that is opened when needed and closed when it fails; a failure pauses delivery, longer each time."""

    def __init__(
        self,
        open_writer: Callable[[], Writer],
        spool: Spool,
        finisher: Finisher,
        count: Callable[[Fault], None],
        retry: tuple[float, float],
    ) -> None:
        self._open_writer = open_writer
        self._writer: Writer | None = None
        self._spool = spool
        self._finisher = finisher
        self._fault = finisher.fault
        self._count = count
        self._shortest, self._longest = retry
        self._pause = 0.0
        self._retry_at = 0.0
        self._takes_segments = False
        self._newer: set[Path] = set()  # segments that wait for a newer ragtrace

    @property
    def is_due(self) -> bool:
        """Whether a delivery should be tried now."""
        return time.monotonic() >= self._retry_at

    @property
    def wait(self) -> float:
        """Seconds until the next try, while the writer fails; else without end."""
        return max(0.0, self._retry_at - time.monotonic()) if self._pause else inf

    def open(self) -> None:
        """Open the writer, so that trouble with the store shows at once."""
        self._deliver(lambda: None)

    def deliver(self, items: Sequence[Item], fresh: Sequence[SpoolFile]) -> bool:
        """Write a batch, all or as much of it as is in the `fresh` segments; those are deleted then."""
        return self._deliver(lambda: self._write_batch(items, fresh))

    def replay(self) -> bool:
        """Write what waits in the spool's pending segments."""
        return not self._spool.pending or self._deliver(self._replay)

    def hand_over(self) -> None:
        """Give pending segments to a writer that takes them whole, also one that has just refused a batch: its disk may
        be full, and this takes no room."""
        if not (self._takes_segments and self._spool.pending):
            return
        try:
            if self._writer is None:
                self._writer = self._open_writer()
            self._replay()
        except Exception as error:
            _LOG.warning("segments of the spool cannot be handed over: %s", error)

    def close(self) -> None:
        """Close the writer."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except Exception as error:
                _LOG.warning("the store did not close: %s", error)

    def abandon(self) -> Writer | None:
        """In a forked child: give up the parent's writer without closing it."""
        writer, self._writer = self._writer, None
        self._pause = self._retry_at = 0.0
        return writer

    def _deliver(self, step: Callable[[], None]) -> bool:
        try:
            if self._writer is None:
                self._writer = self._open_writer()
                self._takes_segments = isinstance(self._writer, TakesSegments)
            step()
        except Exception as error:
            self._failed(error)
            return False
        if self._pause:
            _LOG.warning("the store takes records again")
        self._pause = self._retry_at = 0.0
        return True

    def _failed(self, error: Exception) -> None:
        if not self._pause:
            said = str(error) if isinstance(error, RagtraceError) else f"{type(error).__name__}: {error}"
            place = "memory" if self._spool.folder is None else f"the spool ({self._spool.folder})"
            _LOG.error("records cannot be stored, they wait in %s: %s", place, said)
        self._count(self._fault("sink.write", type(error).__name__, str(error)))
        self._pause = min(self._longest, self._pause * 2 or self._shortest)
        self._retry_at = time.monotonic() + self._pause
        self.close()

    def _write_batch(self, items: Sequence[Item], fresh: Sequence[SpoolFile]) -> None:
        self._write(items)
        for segment in fresh:
            self._spool.remove(segment)

    def _replay(self) -> None:
        for segment in tuple(self._spool.pending):
            try:
                if isinstance(self._writer, TakesSegments):
                    self._writer.take_over(segment)
                    self._spool.pending.remove(segment)
                    segment.release()
                    continue
                self._replay_segment(segment)
            except NewerForm as error:  # it waits for another version, the others do not
                if segment.path not in self._newer:
                    self._newer.add(segment.path)
                    self._report(self._fault("sink.spool", "newer", f"{segment.path} waits: {error}"))
                continue
            except FileNotFoundError:
                self._report(self._fault("sink.spool", "missing", f"{segment.path} was deleted by somebody else"))
            self._spool.remove(segment)

    def _replay_segment(self, segment: SpoolFile) -> None:
        items: list[Item] = []
        for place, entry in enumerate(segment.entries()):
            if entry.item is not None:
                items.append(entry.item)
            else:
                self._set_aside(entry.raw)
                fault = self._fault("sink.spool", "damaged", "a damaged spool entry was set aside")
                self._report(replace(fault, at=segment.modified_at + place))  # read again, it is the same, counted once
            if len(items) >= _BATCH:
                self._write(items)
                items = []
        self._write(items)

    def _write(self, items: Sequence[Item]) -> None:
        """Write in one transaction; when the items themselves are refused, one by one."""
        if not items or self._writer is None:
            return
        try:
            self._writer.write(items)
        except _ENVIRONMENT:
            raise
        except Exception as error:
            if len(items) > 1:
                for item in items:
                    self._write([item])
            elif not isinstance(error, RecordError):
                self._reject(items[0], error)
            elif (mended := self._finisher.mended(items[0])) is not None:
                self._write_mended(mended)

    def _write_mended(self, item: Item) -> None:
        try:
            self._writer.write([item])  # type: ignore[union-attr] # `_write` has seen to it
        except RecordError as error:
            self._reject(item, error)

    def _reject(self, item: Item, error: Exception) -> None:
        """Set an item aside that the writer refuses, if it takes another: the fault that tells of it is the probe."""
        fault = self._fault("sink.refused", type(error).__name__, f"an item was refused and set aside: {error}")
        if self._writer is not None and not isinstance(item, Fault):
            self._writer.write([fault])
            self._set_aside(encode_entry(item))
            _LOG.error("%s (in %s)", fault.message, self._spool.folder)
        else:
            raise error

    def _set_aside(self, raw: bytes) -> None:
        try:
            self._spool.set_aside(raw)
        except OSError as error:
            self._report(self._fault("sink.spool", "lost", f"what was set aside could not be kept: {error}"))

    def _report(self, fault: Fault) -> None:
        _LOG.error("%s", fault.message)
        self._count(fault)


class StoreStep:
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
        spool_writer: SpoolWriter,
        delivery: Delivery,
        finisher: Finisher,
        flushes: FlushBarrier,
        flushed: Callable[[], int],
    ) -> None:
        self._lock = lock
        self._queue = queue
        self._spool = spool
        self._spool_writer = spool_writer
        self._delivery = delivery
        self._finisher = finisher
        self._flushes = flushes
        self._flushed = flushed
        self._answered = 0  # flushes
        self._adopting = Periodic(self._adopt, _ADOPT_EVERY)
        self._in_step = True  # the spool's open lanes hold nothing but what is in the queue
        self._left: tuple[SpoolFile, ...] = ()
        self.untold: list[Fault] = []  # faults whose delivery failed
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
                self._delivery.hand_over()
                self._spool_writer.join()
            self._left = tuple(self._spool.pending)
            self._answered = asked
            self._flushes.settle(asked, is_done=is_stored)
        else:
            self._in_step = in_step and not read.waiting
            self._put_back(self._spool_writer.put(loose))
            self.in_flight = []

    def _write(self, waiting: list[Waiting], loose: list[Waiting], *, in_step: bool) -> bool:
        """Write a batch: with the segments that it covers, or only what is not spooled."""
        self._spool.samples.seal()
        fresh = [segment for segment in self._spool.pending if segment not in self._left]
        self._spool_writer.sync(fresh)
        batch = [each.item for each in (waiting if in_step else loose) if isinstance(each.item, ITEMS)]
        covered = fresh if in_step else []
        is_written = not (batch or covered) or self._delivery.deliver(batch, covered)
        if not is_written:
            self._put_back(self._spool_writer.put(loose))
        self.in_flight = []
        return is_written

    def _adopt(self) -> None:
        if self._spool.adopt():
            self._left = tuple(self._spool.pending)

    def _deliver_faults(self) -> bool:
        """Last of a step, so that those that it met itself are among them. Those of a delivery that failed are told
        again as they were, not added up with later ones: where it failed past its commit, the store knows them."""
        if self.untold and not self._delivery.deliver(self.untold, []):
            return False
        with self._lock:
            self.untold = self._queue.take_faults()
        if self.untold and not self._delivery.deliver(self.untold, []):
            return False
        self.untold = []
        return True

    def _put_back(self, loose: list[Waiting]) -> None:
        """Keep in memory what found no room in the spool; samples only as far as there is room."""
        with self._lock:
            dropped = sum(not self._queue.put(waiting, is_read=True) for waiting in loose)
            if dropped:
                fault = self._finisher.fault("sink.spool", "full", "neither spool nor memory has room", dropped)
                self._queue.count([fault])
