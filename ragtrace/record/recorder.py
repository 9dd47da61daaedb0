"""The recorder: settings, sink, guard and tracing of one `configure()`, and which of them is active."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol

from opentelemetry.trace import TracerProvider

from ragtrace.config import Config
from ragtrace.record.content import ContentPolicy
from ragtrace.record.descriptions import Descriptions
from ragtrace.record.guard import Guard
from ragtrace.record.opened import OpenRequests
from ragtrace.record.sampling import HeadSampler
from ragtrace.record.spans import Tracing
from ragtrace.types import Item

__all__ = ["Draft", "Recorder", "Sink", "active", "close_overdue", "install"]


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
    def known_id(self) -> str | None:
        """The request's id when anybody was told it."""

    def build(self, flags: Iterable[str] = ()) -> Item | None:
        """The record, kept or not, with further flags; ends the spans. None when there is nothing to store."""

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


_active: Recorder | None = None


def active() -> Recorder | None:
    """The recorder in use; None before `configure()` and after `shutdown()`."""
    return _active


def install(recorder: Recorder | None) -> Recorder | None:
    """Put another recorder in use and return the former one."""
    global _active
    former, _active = _active, recorder
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
