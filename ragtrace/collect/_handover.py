"""The way of `build="worker"`: an application hands over what it recorded as files, `ragtrace build` stores it.

What was handed over lies in the folder `handed` of the spool, in segments that nobody holds. They survive `kill -9`
once `write` has returned, as what is committed to a database does.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ragtrace.collect._delivery import Delivery, Finisher, Writer
from ragtrace.collect.spool import (
    NO_FOLDER,
    SEGMENT_BYTES,
    Spool,
    SpoolFile,
    encode_entries,
    handed_folder,
    lock_segment,
    segment_paths,
)
from ragtrace.errors import StoreUnavailable
from ragtrace.record import build_record, scrub
from ragtrace.types import Fault, Item, TakenRequest

__all__ = ["Builder", "HandOver", "RecordWriter"]

_MEASURE_EVERY: Final = 10.0  # seconds
_LOG: Final = logging.getLogger("ragtrace")


class HandOver:
    """A `Writer` into segments for `ragtrace build`, which need not run.

    Args:
        folder: the spool's.
        limit: bytes of what may wait there; beyond it nothing more is taken.
    """

    def __init__(self, folder: Path | None, limit: int) -> None:
        self._spool = Spool(None if folder is None else handed_folder(folder))
        self._limit = limit
        self._size = 0
        self._measured_at = -_MEASURE_EVERY
        self._last: Path | None = None

    def write(self, items: Sequence[Item], /) -> None:
        """Write all of them to the disk itself. Raises: OSError, RecordError."""
        entries = encode_entries(items)
        self._refuse_too_much()
        segment = self._segment()
        is_new = not segment.size
        try:
            segment.append(*entries)
            segment.sync()
            if is_new:
                _sync_folder(segment.path.parent)
            self._size += sum(map(len, entries))
            self._last = segment.path
        except OSError:
            if not segment.size:
                segment.path.unlink(missing_ok=True)
            raise
        finally:
            segment.release()

    def take_over(self, segment: SpoolFile) -> None:
        """Hand over a segment of the application's own as it is, which takes no room. Raises: OSError."""
        folder = self._spool.folder
        if folder is None:
            raise OSError(errno.EROFS, NO_FOLDER)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.rename(segment.path, folder / segment.path.name)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self.write([entry.item for entry in segment.entries() if entry.item is not None])
            segment.path.unlink(missing_ok=True)
        else:
            try:
                _sync_folder(folder)
            except OSError as error:  # it is handed over all the same: what is tried again would not be there
                _LOG.warning("the names in %s may be lost when power fails: %s", folder, error)
        self._measured_at = -_MEASURE_EVERY

    def close(self) -> None:
        """Nothing is held."""

    def _segment(self) -> SpoolFile:
        """The last one where it is still there and has room, so that few files wait however long nobody builds."""
        last = None if self._last is None else lock_segment(self._last)
        if last is not None and last.size < SEGMENT_BYTES:
            return last
        if last is not None:
            last.release()
        return self._spool.new_segment()

    def _refuse_too_much(self) -> None:
        now, folder = time.monotonic(), self._spool.folder
        if folder is not None and now - self._measured_at >= _MEASURE_EVERY:
            self._size, self._measured_at = sum(map(_size, segment_paths(folder))), now
        if self._size >= self._limit:  # one batch may pass it: else a large one would never be taken
            raise OSError(
                errno.ENOSPC,
                f"{self._size:,} bytes wait in {folder} and spool_bytes allows {self._limit:,}; run `ragtrace build "
                "--follow` on this machine",
            )


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk itself: a new file is lost with its name when power fails."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it has just been stored
        return 0


class RecordWriter:
    """A `Writer` that builds the records of requests that were taken, and passes all on to another one.

    stored: told how many items were written.
    """

    def __init__(self, writer: Writer, stored: Callable[[int], object] = lambda count: None) -> None:
        self._writer = writer
        self._stored = stored

    def write(self, items: Sequence[Item], /) -> None:
        """Write all of them, or none and raise. Raises: RecordError for a request that cannot be built."""
        built: list[Item] = []
        for item in items:
            if isinstance(item, TakenRequest):
                record, faults = build_record(item)
                built += [record, *faults]
            else:
                built.append(item)
        self._writer.write(built)
        self._stored(len(items))

    def close(self) -> None:
        """Let go of the other one."""
        self._writer.close()


class Builder:
    """Stores what applications have handed over, and what dead ones have left in their spool.

    A segment is deleted once all of it is stored. What can't be built lies in `damaged/` then, and a fault tells of it;
    while the database is away, or a newer ragtrace has written something, everything stays where it is.

    Args:
        open_writer: opens the store.
        folders: the spool's, and the one in which it lies while that cannot be used.

    Raises: StoreUnavailable where another user owns one of them.
    """

    def __init__(self, open_writer: Callable[[], Writer], folders: Sequence[Path], retry: tuple[float, float]) -> None:
        for folder in folders:
            if folder.is_dir() and (owner := folder.stat().st_uid) != os.getuid():
                raise StoreUnavailable(
                    f"the spool {folder} belongs to the user {owner} and this process runs as {os.getuid()}; run "
                    "`ragtrace build` as the user that the application runs as"
                )
        usable = sorted(folders, key=lambda folder: not folder.is_dir())
        handed, *others = [*map(handed_folder, usable), *usable]
        self._spool = Spool(handed, tuple(others))
        self._faults: list[Fault] = []
        finisher = Finisher(lambda item: item, scrub, "ragtrace", self._faults.append)
        self._delivery = Delivery(
            lambda: RecordWriter(open_writer(), self._count), self._spool, finisher, self._faults.append, retry
        )
        self.stored = 0

    def step(self) -> bool:
        """Store what waits; whether any of it could be."""
        if not self._delivery.is_due:
            return False
        self._spool.adopt()
        segments = len(self._spool.pending)
        if not segments:
            return False
        is_stored = self._delivery.replay()
        if is_stored and self._faults:
            told = len(self._faults)
            if self._delivery.deliver(self._faults[:told], []):
                del self._faults[:told]
        return is_stored and len(self._spool.pending) < segments

    def _count(self, items: int) -> None:
        self.stored += items

    @property
    def waiting(self) -> int:
        """Bytes that could not be stored yet."""
        return self._spool.size

    def close(self) -> None:
        """Leave the rest where it is."""
        self._delivery.close()
        self._spool.close()
