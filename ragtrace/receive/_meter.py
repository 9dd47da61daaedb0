"""The receiver's own metrics, for Prometheus, and the backlog: what waits in the store for its assembly.

Names and labels come from the registry, and none names a tenant. The store is asked in a thread of its own, one
question at a time: one that does not answer holds up that thread alone, and nobody who asks for longer than a moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Final, Literal, NamedTuple, TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ragtrace.receive._assembly import Fate
from ragtrace.receive._bodies import SIGNALS, DecodedBody
from ragtrace.receive._tenants import Claim
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import (
    ATTRIBUTES,
    RECEIVER_BYTES,
    RECEIVER_CLAIMS,
    RECEIVER_COMMIT,
    RECEIVER_ITEMS,
    RECEIVER_OLDEST,
    RECEIVER_REQUESTS,
    RECEIVER_ROOM,
    RECEIVER_TRACES,
    RECEIVER_WAITING,
)
from ragtrace.store import Store

__all__ = ["CONTENT_TYPE_LATEST", "PATIENCE", "BacklogProbe", "Meter", "Protocol", "StoreTimeout", "Waits"]

PATIENCE: Final = 2.0
"""Seconds for which a question is waited for."""


class Waits(NamedTuple):
    """How many traces are to be assembled, and when the first is due, in Unix seconds."""

    traces: int
    first_due: float | None


class StoreTimeout(Exception):
    """The store has not answered in time; what it is asked is still under way."""


class BacklogProbe:
    """Asks a store. All who ask from one event loop while a question is under way get the answer of that one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._answer: Future[Waits] | None = None
        self._asked = 0.0

    async def ask(self) -> Waits:
        """What waits. Raises: StoreTimeout, StoreError."""
        if self._answer is None or self._answer.done():
            self._asked, self._answer = time.monotonic(), Future()
            Thread(target=self._read, args=(self._answer,), name="ragtrace-backlog", daemon=True).start()
        left = self._asked + PATIENCE - time.monotonic()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._answer), max(0.0, left))
        except TimeoutError:
            since = time.monotonic() - self._asked
            raise StoreTimeout(f"the store has not answered for {since:.0f} seconds") from None

    def _read(self, answer: Future[Waits]) -> None:
        answer.set_running_or_notify_cancel()  # from now on nobody who waits no longer can cancel it for the others
        try:
            answer.set_result(Waits(*self._store.traces_waiting()))
        except BaseException as error:
            answer.set_exception(error)


Protocol: TypeAlias = Literal["http", "grpc"]

_FATES: Final = ("accepted", "rejected", "ignored")
_TRACE_FATES: Final = ("assembled", "failed")


class Meter:
    """Counts of one receiver since it started. All series that may be are there from the start."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests, self._items = self._counter(RECEIVER_REQUESTS), self._counter(RECEIVER_ITEMS)
        self._bytes, self._traces = self._counter(RECEIVER_BYTES), self._counter(RECEIVER_TRACES)
        self._commit = Histogram(
            RECEIVER_COMMIT.name, RECEIVER_COMMIT.brief, buckets=RECEIVER_COMMIT.buckets, registry=self._registry
        )
        for signal in SIGNALS:
            for protocol in ATTRIBUTES["protocol"]:
                self._bytes.labels(protocol, signal.name)
                for answer in ATTRIBUTES["answer"]:
                    self._requests.labels(protocol, signal.name, answer)
            for fate in _FATES:
                self._items.labels(signal.name, fate)
        for fate in _TRACE_FATES:
            self._traces.labels(fate)
        self._claims = self._counter(RECEIVER_CLAIMS)
        for claim in ATTRIBUTES["claim"]:
            self._claims.labels(claim)

    def _counter(self, instrument: Instrument) -> Counter:
        return Counter(instrument.name, instrument.brief, instrument.attributes, registry=self._registry)

    def watch(self, load: Callable[[], float]) -> None:
        """Show the share of the room that is taken, at each scrape."""
        Gauge(RECEIVER_ROOM.name, RECEIVER_ROOM.brief, registry=self._registry).set_function(load)

    def answered(self, protocol: Protocol, signal: str, answer: str) -> None:
        """A request has its answer."""
        self._requests.labels(protocol, signal, answer).inc()

    def received(self, protocol: Protocol, signal: str, size: int) -> None:
        """The body of a request, inflated."""
        self._bytes.labels(protocol, signal).inc(size)

    def took(self, signal: str, taken: DecodedBody) -> None:
        """What became of the records of a request."""
        for fate, count in zip(_FATES, (taken.accepted, taken.rejected, taken.ignored), strict=True):
            self._items.labels(signal, fate).inc(count)

    def committed(self, seconds: float) -> None:
        """A transaction of the intake was committed."""
        self._commit.observe(seconds)

    def assembled(self, fate: Fate | Claim, count: int) -> None:
        """Traces became requests, or could not, or what their senders say of sampling was believed, or was not."""
        (self._traces if fate in _TRACE_FATES else self._claims).labels(fate).inc(count)

    def exposition(self, waits: Waits | None = None) -> bytes:
        """All of it as text. waits: what waits in the store; None: it does not say so now, which leaves that out."""
        text = generate_latest(self._registry)
        return text if waits is None else text + generate_latest(_Waiting(waits))


class _Waiting(Collector):
    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The traces that wait, and for how long the first is due."""
        first = self._waits.first_due
        yield _gauge(RECEIVER_WAITING, self._waits.traces)
        yield _gauge(RECEIVER_OLDEST, 0.0 if first is None else max(0.0, time.time() - first))


def _gauge(instrument: Instrument, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(instrument.name, instrument.brief, value)
