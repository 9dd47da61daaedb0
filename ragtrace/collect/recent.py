"""Requests outside the sample that ended lately, for a flag that comes late: bounded by bytes and by age."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from ragtrace.record import Draft
from ragtrace.types import Item

__all__ = ["Recent"]


class _Held(NamedTuple):
    request_id: str
    item: Draft | Item
    weight: int
    at: float


class Recent:
    """Drafts, or the items built of them, oldest first; several of one request that ran in parts. Safe for threads.

    Args:
        limit: bytes; 0 holds nothing.
        seconds: for how long each is held.
    """

    def __init__(self, limit: int = 0, seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._held: dict[int, _Held] = {}
        self._bytes = 0

    def add(self, request_id: str, item: Draft | Item, weight: int) -> int:
        """Hold a part of a request, and give its number; `trim` sees to the bounds."""
        with self._lock:
            number = next(self._numbers)
            self._held[number] = _Held(request_id, item, weight, self._clock())
            self._bytes += weight
        return number

    def replace(self, number: int, item: Item, weight: int) -> None:
        """Hold what was built of a draft in its place."""
        with self._lock:
            known = self._held[number]
            self._held[number] = known._replace(item=item, weight=weight)
            self._bytes += weight - known.weight

    def holds(self, number: int) -> bool:
        """Whether a part is here."""
        return number in self._held

    def drop(self, number: int) -> bool:
        """Let go of a part; False when it is not here."""
        with self._lock:
            return self._remove(number) is not None

    def take(self, request_id: str) -> list[Draft | Item]:
        """Take out all parts of a request."""
        with self._lock:
            numbers = [number for number, held in self._held.items() if held.request_id == request_id]
            return [held.item for number in numbers if (held := self._remove(number)) is not None]

    def trim(self) -> list[Draft | Item]:
        """Let go of what is too old and, oldest first, of what is too much."""
        gone: list[Draft | Item] = []
        with self._lock:
            latest = self._clock() - self._seconds
            while self._held:
                number, oldest = next(iter(self._held.items()))
                if self._bytes <= self.limit and oldest.at >= latest:
                    break
                self._remove(number)
                gone.append(oldest.item)
        return gone

    def clear(self) -> list[Draft | Item]:
        """Let go of all."""
        with self._lock:
            gone = [held.item for held in self._held.values()]
            self._held, self._bytes = {}, 0
        return gone

    def emptied(self) -> Recent:
        """Another one with these bounds."""
        return Recent(self.limit, self._seconds, self._clock)

    def _remove(self, number: int) -> _Held | None:
        found = self._held.pop(number, None)
        if found is not None:
            self._bytes -= found.weight
        return found
