"""The queue between the host's threads and ours: bounded by bytes, with the faults beside it.

What was submitted waits unread until it is read, then read until the store or the spool has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from ragtrace.record import Draft
from ragtrace.types import (
    Addendum,
    Fault,
    Feedback,
    GenerateRun,
    Item,
    PackRun,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    SourceReport,
    StageRun,
    TakenRequest,
    replace,
)

__all__ = ["ITEMS", "Queue", "Waiting", "weigh"]

ITEMS: Final = (RequestRecord, TakenRequest, Addendum, Feedback, Fault, SourceReport)  # all else in a queue is a draft
_FAULTS: Final = 1000  # kinds of them; all further ones are one
_MANY: Final = "more"
_FILLING: Final = 4  # the part of the room from which on it fills
_BASE: Final = 900  # bytes of an item without what JSON shows of it
_CHUNK: Final = 400
_PART: Final = 150
_encode: Final = msgspec.json.Encoder().encode


class Waiting(NamedTuple):
    """An item on its way, or the draft of one.

    `is_spooled`: it is finished and in the spool already. Not `is_kept`: the draft of a request outside the sample.
    """

    item: Item | Draft
    weight: int
    is_durable: bool = False
    is_spooled: bool = False
    is_kept: bool = True


class Unread(NamedTuple):
    """What is to be read: what is kept, and the drafts of what is not."""

    kept: list[Waiting]
    outside: list[Draft]


class Read(NamedTuple):
    """What is to be stored. `is_whole` is False when the spool holds items that the queue had no room for."""

    waiting: list[Waiting]
    is_whole: bool


class Queue:
    """Not thread-safe: its owner holds a lock around each call."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._in_hand = 0  # bytes of what was taken to be read
        self._unread: list[Waiting] = []
        self._read: list[Waiting] = []
        self._is_whole = True
        self._faults: dict[tuple[str, str, str], Fault] = {}

    @property
    def is_filling(self) -> bool:
        """Whether a good part of the room is taken, so that nothing should be waited for."""
        return self._bytes > self._limit // _FILLING

    def put(self, waiting: Waiting, *, is_read: bool = False) -> bool:
        """Add an item; False when there is no room.

        A durable one that is not in the spool always has room; what is not kept has half of it, so that it takes none
        from what is.
        """
        must = waiting.is_durable and not waiting.is_spooled
        limit = self._limit if waiting.is_kept else self._limit // 2
        if self._bytes + waiting.weight > limit and not must:
            self._is_whole = self._is_whole and not waiting.is_spooled
            return False
        (self._read if is_read else self._unread).append(waiting)
        self._bytes += waiting.weight
        return True

    def take_unread(self) -> Unread:
        """Take out what is to be read; it keeps its room until `put_read`."""
        taken, self._unread = self._unread, []
        self._in_hand += sum([waiting.weight for waiting in taken])
        kept = [waiting for waiting in taken if waiting.is_kept]
        return Unread(kept, [item for item, *_, is_kept in taken if not (is_kept or isinstance(item, ITEMS))])

    def put_read(self, read: Iterable[Waiting]) -> None:
        """Add what was read of that; nothing of it is refused, since it had been accepted."""
        self._bytes -= self._in_hand
        self._in_hand = 0
        for waiting in read:
            self._read.append(waiting)
            self._bytes += waiting.weight

    def take_read(self) -> Read:
        """Take out what is to be stored."""
        taken = Read(self._read, self._is_whole)
        self._bytes -= sum([waiting.weight for waiting in self._read])
        self._read, self._is_whole = [], True
        return taken

    def take(self, request_id: str) -> list[Draft]:
        """Take out the drafts of this request."""
        stay: list[Waiting] = []
        found: list[Draft] = []
        for waiting in self._unread:
            if isinstance(waiting.item, ITEMS) or waiting.item.known_id != request_id:
                stay.append(waiting)
            else:
                found.append(waiting.item)
                self._bytes -= waiting.weight
        self._unread = stay
        return found

    def count(self, faults: Iterable[Fault]) -> None:
        """Add faults; equal ones are one with their sum, so that a flood of them takes no memory."""
        for fault in faults:
            key = (fault.service, fault.where, fault.kind)
            if key not in self._faults and len(self._faults) >= _FAULTS:
                key, fault = (fault.service, fault.where, _MANY), replace(fault, kind=_MANY)
            known = self._faults.get(key)
            self._faults[key] = fault if known is None else replace(fault, count=known.count + fault.count)

    def take_faults(self) -> list[Fault]:
        """Take the faults out."""
        faults, self._faults = list(self._faults.values()), {}
        return faults


def weigh(item: Item) -> int:
    """The bytes of an item."""
    if isinstance(item, TakenRequest):
        return item.weight
    if not isinstance(item, RequestRecord | Addendum):
        return _BASE + _length(item)
    return _BASE + _length(replace(item, stages=())) + sum(map(_of_run, item.stages))


def _of_run(run: StageRun) -> int:
    if isinstance(run, RetrieveRun):
        texts = sum([len(found.text) for found in run.candidates if found.text])
        metadata = [found.metadata for found in run.candidates if found.metadata]
        said = len(run.query or "") if run.error is None and not metadata else _length((run.query, run.error, metadata))
        return texts + _CHUNK * len(run.candidates) + said
    if isinstance(run, RerankRun):
        return _PART * len(run.moves) + _length(run.error)
    if isinstance(run, PackRun):
        texts = sum([len(chunk.text) for chunk in run.packing.chunks if chunk.text])
        return texts + _CHUNK * (len(run.packing.chunks) + len(run.packing.dropped)) + _length(run.error)
    if isinstance(run, GenerateRun):
        return _PART * len(run.generation.citations) + _length(run)
    return 0


def _length(value: Any) -> int:
    """The length as JSON, which is C's work; of what JSON refuses, as Python shows it."""
    try:
        return len(_encode(value))
    except Exception:
        return len(repr(value))
