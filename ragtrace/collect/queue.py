"""The queue between the host's threads and the background thread: bounded by bytes, with the faults beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ragtrace.record import Draft
from ragtrace.types import Addendum, Fault, Feedback, GenerateRun, Item, PackRun, RequestRecord, RetrieveRun, replace

__all__ = ["Drained", "Queue", "Waiting", "weigh"]

ITEMS: Final = (RequestRecord, Addendum, Feedback, Fault)  # all else in a queue is a draft
_BASE = 1000  # bytes of a record without its texts, roughly
_CHUNK = 400


class Waiting(NamedTuple):
    """An item on its way, or the draft of one.

    `is_spooled`: it is finished and in the spool already. Not `is_kept`: the draft of a request outside the sample.
    """

    item: Item | Draft
    weight: int
    is_durable: bool = False
    is_spooled: bool = False
    is_kept: bool = True


class Drained(NamedTuple):
    """What was in the queue: what is kept, and the drafts of what is not.

    `is_whole` is False when the spool holds items that the queue had no room for.
    """

    waiting: list[Waiting]
    outside: list[Draft]
    is_whole: bool


class Queue:
    """Not thread-safe: its owner holds a lock around each call."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._waiting: list[Waiting] = []
        self._is_whole = True
        self._faults: dict[tuple[str, str, str], Fault] = {}

    def put(self, waiting: Waiting) -> bool:
        """Add an item; False when there is no room.

        A durable one that is not in the spool always has room; what is not kept has half of it, so that it takes none
        from what is.
        """
        must = waiting.is_durable and not waiting.is_spooled
        limit = self._limit if waiting.is_kept else self._limit // 2
        if self._bytes + waiting.weight > limit and not must:
            self._is_whole = self._is_whole and not waiting.is_spooled
            return False
        self._waiting.append(waiting)
        self._bytes += waiting.weight
        return True

    def drain(self) -> Drained:
        """Take everything out."""
        kept = [waiting for waiting in self._waiting if waiting.is_kept]
        outside = [item for item, *_, is_kept in self._waiting if not (is_kept or isinstance(item, ITEMS))]
        drained = Drained(kept, outside, self._is_whole)
        self._waiting, self._bytes, self._is_whole = [], 0, True
        return drained

    def take(self, request_id: str) -> list[Draft]:
        """Take out the drafts of this request."""
        stay: list[Waiting] = []
        found: list[Draft] = []
        for waiting in self._waiting:
            if isinstance(waiting.item, ITEMS) or waiting.item.known_id != request_id:
                stay.append(waiting)
            else:
                found.append(waiting.item)
                self._bytes -= waiting.weight
        self._waiting = stay
        return found

    def count(self, faults: Iterable[Fault]) -> None:
        """Add faults; equal ones are one with their sum, so that a flood of them takes no memory."""
        for fault in faults:
            key = (fault.service, fault.where, fault.kind)
            known = self._faults.get(key)
            self._faults[key] = fault if known is None else replace(fault, count=known.count + fault.count)

    def drain_faults(self) -> list[Fault]:
        """Take the faults out."""
        faults, self._faults = list(self._faults.values()), {}
        return faults


def weigh(item: Item | Draft) -> int:
    """Roughly how many bytes an item holds in memory."""
    if not isinstance(item, RequestRecord | Addendum):
        return _BASE if isinstance(item, Feedback | Fault) else item.weight
    weight = _BASE
    for run in item.stages:
        if isinstance(run, RetrieveRun):
            weight += sum(len(chunk.text) for chunk in run.candidates if chunk.text) + _CHUNK * len(run.candidates)
        elif isinstance(run, PackRun):
            weight += sum(len(chunk.text) for chunk in run.packing.chunks if chunk.text)
        elif isinstance(run, GenerateRun):
            weight += len(run.generation.answer or "") + len(run.generation.prompt_template or "")
    return weight
