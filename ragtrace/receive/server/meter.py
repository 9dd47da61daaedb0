"""The receiver's own metrics, for Prometheus. Names and labels come from the registry, and none names a tenant."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ragtrace.errors import StoreError
from ragtrace.receive.assembling import Fate
from ragtrace.receive.server.intake import Intake
from ragtrace.receive.server.signals import SIGNALS, Taken
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import (
    ATTRIBUTES,
    RECEIVER_BYTES,
    RECEIVER_COMMIT,
    RECEIVER_ITEMS,
    RECEIVER_OLDEST,
    RECEIVER_REQUESTS,
    RECEIVER_ROOM,
    RECEIVER_TRACES,
    RECEIVER_WAITING,
)
from ragtrace.store import Store

__all__ = ["CONTENT_TYPE_LATEST", "Meter", "Protocol"]

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

    def _counter(self, instrument: Instrument) -> Counter:
        return Counter(instrument.name, instrument.brief, instrument.attributes, registry=self._registry)

    def watch(self, intake: Intake, store: Store) -> None:
        """Show the room that is taken, and what waits in the store, at each scrape."""
        self._registry.register(_Waiting(intake, store))

    def answered(self, protocol: Protocol, signal: str, answer: str) -> None:
        """A request has its answer."""
        self._requests.labels(protocol, signal, answer).inc()

    def received(self, protocol: Protocol, signal: str, size: int) -> None:
        """The body of a request, inflated."""
        self._bytes.labels(protocol, signal).inc(size)

    def took(self, signal: str, taken: Taken) -> None:
        """What became of the records of a request."""
        for fate, count in zip(_FATES, (taken.accepted, taken.rejected, taken.ignored), strict=True):
            self._items.labels(signal, fate).inc(count)

    def committed(self, seconds: float) -> None:
        """A transaction of the intake was committed."""
        self._commit.observe(seconds)

    def assembled(self, fate: Fate, count: int) -> None:
        """Traces became requests, or could not."""
        self._traces.labels(fate).inc(count)

    def exposition(self) -> bytes:
        """All of it as text."""
        return generate_latest(self._registry)


class _Waiting(Collector):
    def __init__(self, intake: Intake, store: Store) -> None:
        self._intake, self._store = intake, store

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing is asked of the store for it."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What the store cannot tell now is left out."""
        yield _gauge(RECEIVER_ROOM, self._intake.load)
        try:
            waiting, first = self._store.traces_waiting()
        except StoreError:
            return
        yield _gauge(RECEIVER_WAITING, waiting)
        yield _gauge(RECEIVER_OLDEST, 0.0 if first is None else max(0.0, time.time() - first))


def _gauge(instrument: Instrument, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(instrument.name, instrument.brief, value)
