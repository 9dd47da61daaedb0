"""Commits what arrives: requests that come together share a transaction, and each waits until that is committed.

What waits is bounded in bytes; beyond, a sender is asked to come back later, which loses nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Final

from ragtrace.errors import StoreUnavailable
from ragtrace.receive.server.bodies import Refused
from ragtrace.receive.server.signals import Item
from ragtrace.store import SpanPart, Store, TraceJudgement

__all__ = ["Intake"]

_LOG: Final = logging.getLogger("ragtrace.receive")
_BATCH: Final = 8 << 20  # bytes of a transaction
_LATER: Final = 1  # seconds
_REFUSING: Final = 5.0  # seconds after a refusal, in which others are likely
_JUDGEMENT: Final = 256  # bytes of one beside its comment


@dataclass(slots=True)
class _Waiting:
    items: Sequence[Item]
    size: int
    done: Future[None] = field(default_factory=Future)


class Intake:
    """One thread that writes. grace, ttl: seconds, see `Store.add_spans`; most: bytes that may wait. committed: is told
    what each transaction took, in seconds.
    """

    def __init__(
        self,
        store: Store,
        *,
        grace: float,
        ttl: float,
        most: int,
        committed: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self._store = store
        self._committed = committed
        self._grace, self._ttl = grace, ttl
        self._most = most
        self._waiting: list[_Waiting] = []
        self._size = 0
        self._refused_at = float("-inf")
        self._changed = Condition()
        self._closing = False
        self._thread = Thread(target=self._run, name="ragtrace-intake", daemon=True)
        self._thread.start()

    def submit(self, items: Sequence[Item]) -> Future[None]:
        """Hand items over; the future is done when they are committed, or fails as the store does.

        Raises: Refused (503) when too much waits already, or the receiver is closing.
        """
        one = _Waiting(items, sum(map(_size, items)))
        with self._changed:
            if self._closing:
                raise Refused(503, "the receiver is shutting down", _LATER)
            if self._waiting and self._size + one.size > self._most:
                self._refused_at = time.monotonic()
                raise Refused(503, f"{self._size:,} bytes wait to be written; come back later", _LATER)
            self._waiting.append(one)
            self._size += one.size
            self._changed.notify()
        return one.done

    @property
    def load(self) -> float:
        """The share of the room that is taken, in [0, 1] and a little above."""
        return self._size / self._most

    @property
    def is_full(self) -> bool:
        """Whether there is no room, or was none a moment ago: a large request may find none where a small one does."""
        return self.load >= 1 or time.monotonic() - self._refused_at < _REFUSING

    def close(self) -> None:
        """Write what waits, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            try:
                self._write(item for one in batch for item in one.items)
            except Exception as error:
                if len(batch) > 1 and not isinstance(error, OSError | StoreUnavailable):
                    self._one_by_one(batch)
                    continue
                self._end(batch, error)
            else:
                self._end(batch, None)

    def _write(self, items: Iterable[Item]) -> None:
        """Parts in one transaction, judgements in another; both may be written again."""
        began, given = time.monotonic(), list(items)
        parts = [each for each in given if isinstance(each, SpanPart)]
        judgements = [each for each in given if isinstance(each, TraceJudgement)]
        if parts:
            self._store.add_spans(parts, grace=self._grace, ttl=self._ttl)
        if judgements:
            self._store.add_judgements(judgements)
        self._committed(time.monotonic() - began)

    def _one_by_one(self, batch: list[_Waiting]) -> None:
        """Find out whose parts cannot be written."""
        for one in batch:
            try:
                self._write(one.items)
            except Exception as error:
                self._end([one], error)
            else:
                self._end([one], None)

    def _next(self) -> list[_Waiting] | None:
        with self._changed:
            while not self._waiting:
                if self._closing:
                    return None
                self._changed.wait()
            batch, size = [self._waiting.pop(0)], 0
            size = batch[0].size
            while self._waiting and size + self._waiting[0].size <= _BATCH:
                size += self._waiting[0].size
                batch.append(self._waiting.pop(0))
            return batch

    def _end(self, batch: list[_Waiting], error: Exception | None) -> None:
        with self._changed:
            self._size -= sum(one.size for one in batch)
        for one in batch:
            if one.done.set_running_or_notify_cancel():
                if error is None:
                    one.done.set_result(None)
                else:
                    one.done.set_exception(error)
        if error is not None:
            _LOG.warning("what %d requests brought was not written: %s", len(batch), error)


def _size(item: Item) -> int:
    return len(item.body) if isinstance(item, SpanPart) else _JUDGEMENT + len(item.said.comment or "")
