"""The recorder: settings, sink, guard, tracing and open requests of one `configure()`, and which recorder is active;
the ids of requests, and the head decision: which are in the random sample, and with what probability.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any, Final, Protocol

from opentelemetry.trace import TracerProvider

from ragtrace.config import Config
from ragtrace.record._span_attributes import Descriptions
from ragtrace.record._spans import Tracing
from ragtrace.record.content import ContentPolicy
from ragtrace.record.guard import Guard, guarded, put_in_use
from ragtrace.types import Item

__all__ = [
    "Draft",
    "HeadSampler",
    "OpenRequests",
    "Recorder",
    "Sink",
    "active",
    "close_overdue",
    "held",
    "held_settings",
    "install",
    "is_sampled",
    "new_request_id",
]

_active: Recorder | None = None
_LIMIT: Final = 10_000
_SECOND: Final = 1_000_000_000
_held: Mapping[str, Any] = MappingProxyType({})


class Draft(Protocol):
    """A request that has ended and is not read yet: what its stages returned, and its spans, which are still open.

    `build` or `discard` is called, one of them once.
    """

    @property
    def weight(self) -> int:
        """Roughly how many bytes it holds."""

    @property
    def is_kept(self) -> bool:
        """Whether it is to be stored: in the sample, or flagged."""

    @property
    def is_read(self) -> bool:
        """Whether it was built or discarded."""

    @property
    def has_spans(self) -> bool:
        """Whether spans have to be ended."""

    @property
    def is_outlined(self) -> bool:
        """Whether its spans say only what it is, so that nothing has to be read for them."""

    @property
    def known_id(self) -> str | None:
        """The request's id when anybody was told it."""

    def build(self, flags: Iterable[str] = ()) -> Item | None:
        """The record, kept or not, with further flags; ends the spans. None when there is nothing to store."""

    def end_spans(self) -> None:
        """End the spans; what was taken stays, and `build` or `discard` is called later."""

    def discard(self) -> None:
        """Give up the record and end the spans."""


class Sink(Protocol):
    """Where finished items go. Called in the host's path: `submit` is quick and never waits for the store."""

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Take an item over. A durable one survives the end of this process once this returns."""

    def flag(self, request_id: str, flags: tuple[str, ...]) -> None:
        """Keep a request that has ended, whatever its sampling, and say why."""

    def flush(self, timeout: float) -> bool:
        """Wait until everything submitted so far is stored; False when it is not within `timeout` seconds."""

    def end_spans(self, timeout: float) -> bool:
        """Wait until the spans of everything submitted so far are ended; False when not within `timeout` seconds."""

    def close(self, timeout: float) -> bool:
        """Flush, then stop; False when something remains for the next start."""


class Recorder:
    """Everything that recording needs, made by one `configure()`."""

    __slots__ = ("config", "descriptions", "guard", "open", "policy", "sampler", "sink", "tracing")

    def __init__(
        self,
        config: Config,
        sink: Sink,
        tracer_provider: TracerProvider | None = None,
        policy: ContentPolicy | None = None,
    ) -> None:
        self.config = config
        self.sink = sink
        self.policy = policy or ContentPolicy(config)
        self.guard = Guard(config.service, sink.submit, raise_errors=config.raise_errors, kept=self.policy.message)
        self.policy.report = self.guard.count
        self.descriptions = Descriptions(config, self.policy)
        self.tracing = Tracing(tracer_provider, sink.end_spans)
        self.open = OpenRequests(config.request_ttl, self.guard)
        self.sampler: HeadSampler | None = None  # everything is sampled
        if config.sample_rate < 1.0:
            self.sampler = HeadSampler(config.sample_rate, config.sample_floor)

    @property
    def is_abandoned(self) -> bool:
        """Whether its requests are another process's."""
        return isinstance(self.sink, _Nowhere)

    def flag(self, request_id: str, flags: tuple[str, ...]) -> None:
        """Keep a request, open or ended, whatever its sampling."""
        running = self.open.find(request_id)
        if running is not None:
            running.flags.update(dict.fromkeys(flags))
        if running is None or running.ended:  # also when it ended in this moment
            self.sink.flag(request_id, flags)


def active() -> Recorder | None:
    """The recorder in use; None before `configure()` and after `shutdown()`."""
    return _active


def install(recorder: Recorder | None) -> Recorder | None:
    """Put another recorder in use and return the former one."""
    global _active
    former, _active = _active, recorder
    put_in_use(None if recorder is None else recorder.guard)
    return former


class _Nowhere:
    """The sink of requests that a fork has copied: they are the parent's to record. Their spans stay open for the
    same reason."""

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Leave it."""

    def flag(self, request_id: str, flags: tuple[str, ...]) -> None:
        """Leave it."""

    def flush(self, timeout: float) -> bool:
        """Nothing waits."""
        return True

    def end_spans(self, timeout: float) -> bool:
        """They are the parent's."""
        return True

    def close(self, timeout: float) -> bool:
        """Nothing waits."""
        return True


def _begin_anew() -> None:
    """In a forked child: what runs belongs to the recorder of before, and no stage of the child joins it."""
    former = _active
    if former is not None:
        install(Recorder(former.config, former.sink, former.tracing.given, former.policy))
        former.sink = _Nowhere()


os.register_at_fork(after_in_child=_begin_anew)


def close_overdue() -> None:
    """Close the requests that are open for too long; for the background to call now and then."""
    if _active is not None:
        _active.open.close_overdue()


class OpenRequest(Protocol):
    """A request that has begun and not ended."""

    clock: int
    ended: bool
    flags: dict[str, None]

    @property
    def known_id(self) -> str | None:
        """Its id when anybody was told it."""

    def expire(self) -> None:
        """Close it, since it does not end."""


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
        self._requests: dict[int, weakref.ref[OpenRequest]] = {}  # oldest first

    def add(self, request: OpenRequest) -> int:
        """A request begins; gives its number."""
        number = next(self._numbers)
        self._requests[number] = weakref.ref(request)
        if len(self._requests) > self._limit:
            self._make_room()
        return number

    def leave(self, number: int) -> bool:
        """A request ends: True for the first that says so, of the host's thread and ours."""
        return self._requests.pop(number, None) is not None

    def find(self, request_id: str) -> OpenRequest | None:
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

    def _close(self, request: OpenRequest) -> None:
        with guarded("request.expire", self._guard):
            request.expire()


@contextmanager
def held(**settings: Any) -> Iterator[None]:
    """In the block, every `configure()` of this process takes these settings, whatever the application says."""
    global _held
    before = _held
    _held = MappingProxyType({**before, **settings})
    try:
        yield
    finally:
        _held = before


def held_settings() -> Mapping[str, Any]:
    """What is held now."""
    return _held


_RANGE: Final = 2**64
_HOUR: Final = 3_600_000_000_000  # nanoseconds
_SEGMENTS: Final = 1000  # that are counted apart; all further ones of an hour are counted as one
_OTHER: Final = "other"

_random: Final = random.Random(os.urandom(32))  # the host's own seeding must not make ids repeat
os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))


class HeadSampler:
    """Samples at a rate, and the first requests of every segment and hour more often: of the n-th of them, the share
    `floor / n` where that is more.

    The probability depends on how many came before, never on which of those were drawn; so 1 / probability weights a
    sampled request without bias. Takes no lock: threads that meet at the turn of the hour may begin it twice, which
    raises a floor and falsifies no probability.
    """

    def __init__(self, rate: float, floor: int = 0) -> None:
        self._rate = rate
        self._floor = floor
        self._window: tuple[int, dict[str, itertools.count[int]]] = (0, {})

    def probability(self, segment: str) -> float:
        """With which probability the next request of `segment` is to be sampled; counts it."""
        if not self._floor:
            return self._rate
        hour, (began, counters) = time.monotonic_ns() // _HOUR, self._window
        if hour != began:
            self._window = (hour, counters := {})
        counter = counters.get(segment)
        if counter is None:
            known = segment if len(counters) < _SEGMENTS else _OTHER
            counter = counters.setdefault(known, itertools.count(1))
        return max(self._rate, min(1.0, self._floor / next(counter)))


def is_sampled(key: str, probability: float) -> bool:
    """Whether the request with this trace id (or request id) is in the random sample.

    The same key gives the same answer everywhere, and a sample at a lower probability is a subset of one at a higher.
    """
    if probability >= 1.0:
        return True
    drawn = int.from_bytes(hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return drawn < probability * _RANGE


def new_request_id(at: int | None = None) -> str:
    """32 hexadecimal digits in the layout of a UUID version 7: they sort by time, `at` (nanoseconds), else now."""
    drawn = _random.getrandbits(74)
    low = (drawn & (2**62 - 1)) | (2 << 62)
    return f"{(time.time_ns() if at is None else at) // 1_000_000:012x}7{drawn >> 62:03x}{low:016x}"
