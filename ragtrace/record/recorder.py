"""The recorder: settings, sink, guard and tracing of one `configure()`, and which of them is active."""

from __future__ import annotations

from typing import Protocol

from opentelemetry.trace import TracerProvider

from ragtrace.config import Config
from ragtrace.record.guard import Guard
from ragtrace.record.spans import Tracing
from ragtrace.types import Item

__all__ = ["Draft", "Recorder", "Sink", "active", "install"]


class Draft(Protocol):
    """A request that has ended and is not read yet: what its stages returned, and its spans, which are still open."""

    @property
    def weight(self) -> int:
        """Roughly how many bytes it holds."""

    def build(self) -> Item | None:
        """The record, None when it is not kept; ends the spans. To be called once."""

    def discard(self) -> None:
        """Give up the record and end the spans."""


class Sink(Protocol):
    """Where finished items go. Called in the host's path: `submit` is quick and never waits for the store."""

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Take an item over. A durable one survives the end of this process once this returns."""

    def flush(self, timeout: float) -> bool:
        """Wait until everything submitted so far is stored; False when it is not within `timeout` seconds."""

    def close(self, timeout: float) -> bool:
        """Flush, then stop; False when something remains for the next start."""


class Recorder:
    """Everything that recording needs, made by one `configure()`."""

    __slots__ = ("config", "guard", "sink", "tracing")

    def __init__(self, config: Config, sink: Sink, tracer_provider: TracerProvider | None = None) -> None:
        self.config = config
        self.sink = sink
        self.guard = Guard(config.service, sink.submit, raise_errors=config.raise_errors)
        self.tracing = Tracing(tracer_provider, sink.flush)


_active: Recorder | None = None


def active() -> Recorder | None:
    """The recorder in use; None before `configure()` and after `shutdown()`."""
    return _active


def install(recorder: Recorder | None) -> Recorder | None:
    """Put another recorder in use and return the former one."""
    global _active
    former, _active = _active, recorder
    return former
