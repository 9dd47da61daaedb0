"""Connections over HTTP on which nothing happens are closed: uvicorn waits for a request's head, and for a sender that
does not read its answers, for ever.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ragtrace.receive._limits import ReceiverLimits, affordable

__all__ = ["connections"]

_YOUNG: Final = 1.0  # seconds in which what a connection has sent may not have been read yet


def connections(limits: ReceiverLimits) -> Any:
    """What uvicorn's setting `http` takes, for one server."""
    return partial(_Connection, _Idle(affordable(limits.idle)), limits.head)


class _Idle:
    """The connections of a server that wait for a request. Beyond `most` the one that has waited longest is closed, so
    that there is always one for who asks whether the receiver lives.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._longest_first: dict[_Connection, float] = {}  # since when, by a clock
        self._later: asyncio.TimerHandle | None = None

    def add(self, connection: _Connection) -> None:
        """It waits from now on."""
        self.discard(connection)
        self._longest_first[connection] = time.monotonic()
        self._trim(connection.loop)

    def discard(self, connection: _Connection) -> None:
        """It waits no longer."""
        self._longest_first.pop(connection, None)

    def _trim(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those that are young give way later; without it none would while no descriptor is left for a new one."""
        while len(self._longest_first) > self._most:
            longest, since = next(iter(self._longest_first.items()))
            if (young := since + _YOUNG - time.monotonic()) > 0:
                if self._later is None:
                    self._later = loop.call_later(young, self._trim_later, loop)
                return
            longest.end_idle()

    def _trim_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._later = None
        self._trim(loop)


class _Connection(H11Protocol):
    """patience: seconds in which a request's head must have come, from the beginning of its connection or from the
    answer before, and in which a sender must read on."""

    def __init__(self, idle: _Idle, patience: float, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._idle, self._patience = idle, patience
        self._head: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._idle.discard(self)
        for timer in (self._head, self._reading):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the sender to read the answer where the connection is to be closed."""
        super().on_response_complete()
        self._wait()

    def pause_writing(self) -> None:
        """Give its sender a while to read."""
        super().pause_writing()
        self._reading = self.loop.call_later(self._patience, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def end_idle(self) -> None:
        """Close it, unless a request is under way."""
        self._idle.discard(self)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.abort()

    def _wait(self) -> None:
        if self._head is not None:
            self._head.cancel()
        self._head = self.loop.call_later(self._patience, self.end_idle)
        self._idle.add(self)
