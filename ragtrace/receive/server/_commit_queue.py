"""Commits what arrives: requests that come together share a transaction, and each waits until that is committed.

What waits is bounded in bytes; beyond, a sender is asked to come back later, which loses nothing.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Final

from ragtrace.errors import StoreUnavailable
from ragtrace.receive.server._bodies import Item, Refused
from ragtrace.store import SpanPart, Store, TraceJudgment

__all__ = ["Intake"]

_LOG: Final = logging.getLogger("ragtrace.receive")
_BATCH: Final = 8 << 20  # bytes of a transaction
_LATER: Final = 1  # seconds
_REFUSING: Final = 5.0  # seconds after a refusal, in which others are likely
_JUDGMENT: Final = 256  # bytes of one beside its comment


@dataclass(slots=True)
class _Waiting:
    items: Sequence[Item]
    tenant: str
    size: int
    done: Future[None] = field(default_factory=Future)


class Intake:
    """One thread that writes what tenants bring, in turn. grace, ttl: seconds, see `Store.add_spans`; most: bytes that
    may wait; share: a tenant's part of these. committed: is told what each transaction took, in seconds.
    """

    def __init__(
        self,
        store: Store,
        *,
        grace: float,
        ttl: float,
        most: int,
        share: float = 0.5,
        committed: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self._store = store
        self._committed = committed
        self._grace, self._ttl = grace, ttl
        self._most, self._of_tenant = most, most * share
        self._waiting: dict[str, deque[_Waiting]] = {}  # by tenant
        self._sizes = Counter[str]()
        self._refused_at = float("-inf")
        self._changed = Condition()
        self._closing = False
        self._thread = Thread(target=self._run, name="ragtrace-intake", daemon=True)
        self._thread.start()

    def submit(self, items: Sequence[Item]) -> Future[None]:
        """Hand items of one tenant over; the future is done when they are committed, or fails as the store does.

        Raises: Refused (503) when too much waits already, or the receiver is closing.
        """
        one = _Waiting(items, items[0].tenant, sum(map(_size, items)))
        with self._changed:
            if self._closing:
                raise Refused(503, "the receiver is shutting down", _LATER)
            size, own = self._sizes.total(), self._sizes[one.tenant]
            if self._waiting and size + one.size > self._most:
                self._refused_at = time.monotonic()
                raise Refused(503, f"{size:,} bytes wait to be written; come back later", _LATER)
            if one.tenant in self._waiting and one.tenant and own + one.size > self._of_tenant:
                raise Refused(503, f"{own:,} bytes of this tenant wait to be written; come back later", _LATER)
            self._waiting.setdefault(one.tenant, deque()).append(one)
            self._sizes[one.tenant] += one.size
            self._changed.notify()
        return one.done

    @property
    def load(self) -> float:
        """The share of the room that is taken, in [0, 1] and a little above."""
        return self._sizes.total() / self._most

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
        """Parts in one transaction, judgments in another; both may be written again."""
        began, given = time.monotonic(), list(items)
        parts = [each for each in given if isinstance(each, SpanPart)]
        judgments = [each for each in given if isinstance(each, TraceJudgment)]
        if parts:
            self._store.add_spans(parts, grace=self._grace, ttl=self._ttl)
        if judgments:
            self._store.add_judgments(judgments)
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
            batch, size = list[_Waiting](), 0
            while self._waiting:
                tenant, waiting = next(iter(self._waiting.items()))
                size += waiting[0].size
                if batch and size > _BATCH:
                    break
                batch.append(waiting.popleft())
                del self._waiting[tenant]
                if waiting:  # behind the others
                    self._waiting[tenant] = waiting
            return batch

    def _end(self, batch: list[_Waiting], error: Exception | None) -> None:
        with self._changed:
            for one in batch:
                self._sizes[one.tenant] -= one.size
                if not self._sizes[one.tenant]:
                    del self._sizes[one.tenant]
        for one in batch:
            if one.done.set_running_or_notify_cancel():
                if error is None:
                    one.done.set_result(None)
                else:
                    one.done.set_exception(error)
        if error is not None:
            _LOG.warning("what %d requests brought was not written: %s", len(batch), error)


def _size(item: Item) -> int:
    return len(item.body) if isinstance(item, SpanPart) else _JUDGMENT + len(item.said.comment or "")
