"""What waits in the store for its assembly, as load balancers and scrapers ask for it.

The store is asked in a thread of its own, one question at a time: one that does not answer holds up that thread alone,
and nobody who asks for longer than a moment.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from threading import Thread
from typing import Final, NamedTuple

from ragtrace.store import Store

__all__ = ["PATIENCE", "Backlog", "NoAnswer", "Waits"]

PATIENCE: Final = 2.0
"""Seconds for which a question is waited for."""


class Waits(NamedTuple):
    """How many traces are to be assembled, and when the first is due, in Unix seconds."""

    traces: int
    first_due: float | None


class NoAnswer(Exception):
    """The store has not answered in time; what it is asked is still under way."""


class Backlog:
    """Asks a store. All who ask from one event loop while a question is under way get the answer of that one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._answer: Future[Waits] | None = None
        self._asked = 0.0

    async def ask(self) -> Waits:
        """What waits. Raises: NoAnswer, StoreError."""
        if self._answer is None or self._answer.done():
            self._asked, self._answer = time.monotonic(), Future()
            Thread(target=self._read, args=(self._answer,), name="ragtrace-backlog", daemon=True).start()
        left = self._asked + PATIENCE - time.monotonic()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._answer), max(0.0, left))
        except TimeoutError:
            since = time.monotonic() - self._asked
            raise NoAnswer(f"the store has not answered for {since:.0f} seconds") from None

    def _read(self, answer: Future[Waits]) -> None:
        answer.set_running_or_notify_cancel()  # from now on nobody who waits no longer can cancel it for the others
        try:
            answer.set_result(Waits(*self._store.traces_waiting()))
        except BaseException as error:
            answer.set_exception(error)
