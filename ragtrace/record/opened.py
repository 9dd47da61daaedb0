"""The requests that have begun and not ended: found by their id, and closed when they are open for too long."""

from __future__ import annotations

import itertools
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ragtrace.record.guard import Guard

if TYPE_CHECKING:
    from ragtrace.record.requests import RequestRecording

__all__ = ["OpenRequests"]

_LIMIT: Final = 10_000
_SECOND: Final = 1_000_000_000


class OpenRequests:
    """Knows them without keeping them alive; at most `limit`: beyond it the oldest is closed for each new one.

    Args:
        ttl: seconds after which a request that has not ended is closed; 0 for never.
    """

    def __init__(self, ttl: float, guard: Guard, limit: int = _LIMIT) -> None:
        self._ttl = int(ttl * _SECOND)
        self._guard = guard
        self._limit = limit
        self._numbers = itertools.count()
        self._requests: dict[int, weakref.ref[RequestRecording]] = {}  # oldest first

    def add(self, request: RequestRecording) -> int:
        """A request begins; gives its number."""
        number = next(self._numbers)
        self._requests[number] = weakref.ref(request)
        if len(self._requests) > self._limit:
            self._make_room()
        return number

    def leave(self, number: int) -> bool:
        """A request ends: True for the first that says so, of the host's thread and ours."""
        return self._requests.pop(number, None) is not None

    def find(self, request_id: str) -> RequestRecording | None:
        """The open request with this id, of those whose id was ever asked for."""
        for reference in list(self._requests.values()):
            request = reference()
            if request is not None and request.known_id == request_id:
                return request
        return None

    def close_overdue(self) -> None:
        """Close what is open for too long, and count what the host dropped without an end."""
        now, dropped = perf_counter_ns(), 0
        for number, reference in list(self._requests.items()):
            request = reference()
            if request is None:
                dropped += self.leave(number)
            elif self._ttl and now - request.clock > self._ttl:
                self._close(request)
        if dropped:
            message = "a request was dropped by the application before it ended"
            self._guard.count("request", "dropped", message, count=dropped)

    def _make_room(self) -> None:
        try:
            number = next(iter(self._requests))
        except (RuntimeError, StopIteration):  # other threads begin and end requests in this moment: they make room
            return
        request = self._requests[number]() if number in self._requests else None
        if request is None:
            self.leave(number)
        else:
            self._guard.count("request", "too_many", f"more than {self._limit} requests are open; the oldest is closed")
            self._close(request)

    def _close(self, request: RequestRecording) -> None:
        try:
            request.expire()
        except BaseException as error:
            self._guard.caught("request.expire", error)
