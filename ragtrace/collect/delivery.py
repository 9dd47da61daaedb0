"""Brings batches and spool segments to the writer, on the storing thread: retries, replays, sets poison aside."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Final, Protocol

from ragtrace.collect.entries import encode
from ragtrace.collect.finishing import Finishing
from ragtrace.collect.spool import Segment, Spool
from ragtrace.errors import CorruptStore, RagtraceError, RecordError, SchemaMismatch, StoreUnavailable
from ragtrace.types import Fault, Item

__all__ = ["Delivery", "Writer"]

_LOG: Final = logging.getLogger("ragtrace")
_BATCH: Final = 200
_ENVIRONMENT: Final = (CorruptStore, SchemaMismatch, StoreUnavailable, OSError, MemoryError)


class Writer(Protocol):
    """Where items end, the store. Writing an item twice changes nothing."""

    def write(self, items: Sequence[Item], /) -> None:
        """Write all of them, or none and raise."""

    def close(self) -> None:
        """Let go of it."""


class Delivery:
    """A writer that is opened when needed and closed when it fails; a failure pauses delivery, longer each time."""

    def __init__(
        self,
        open_writer: Callable[[], Writer],
        spool: Spool,
        finishing: Finishing,
        count: Callable[[Fault], None],
        retry: tuple[float, float],
    ) -> None:
        self._open_writer = open_writer
        self._writer: Writer | None = None
        self._spool = spool
        self._finishing = finishing
        self._fault = finishing.fault
        self._count = count
        self._shortest, self._longest = retry
        self._pause = 0.0
        self._retry_at = 0.0

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

    def deliver(self, items: Sequence[Item], fresh: Sequence[Segment]) -> bool:
        """Write a batch, all or as much of it as is in the `fresh` segments; those are deleted then."""
        return self._deliver(lambda: self._write_batch(items, fresh))

    def replay(self) -> bool:
        """Write what waits in the spool's pending segments."""
        return not self._spool.pending or self._deliver(self._replay)

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
            _LOG.error("records cannot be stored, they wait in the spool (%s): %s", self._spool.folder, said)
        self._count(self._fault("sink.write", type(error).__name__, str(error)))
        self._pause = min(self._longest, self._pause * 2 or self._shortest)
        self._retry_at = time.monotonic() + self._pause
        self.close()

    def _write_batch(self, items: Sequence[Item], fresh: Sequence[Segment]) -> None:
        self._write(items)
        for segment in fresh:
            self._spool.remove(segment)

    def _replay(self) -> None:
        for segment in tuple(self._spool.pending):
            try:
                self._replay_segment(segment)
            except FileNotFoundError:
                self._report(self._fault("sink.spool", "missing", f"{segment.path} was deleted by somebody else"))
            self._spool.remove(segment)

    def _replay_segment(self, segment: Segment) -> None:
        items: list[Item] = []
        for entry in segment.entries():
            if entry.item is not None:
                items.append(entry.item)
            else:
                self._set_aside(entry.raw)
                self._report(self._fault("sink.spool", "damaged", "a damaged spool entry was set aside"))
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
            elif (mended := self._finishing.mended(items[0])) is not None:
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
            self._set_aside(encode(item))
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
