"""A recorder that keeps what it submits in a list, with spans in memory; ragtrace's own faults are raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragtrace.config import load
from ragtrace.record import Draft, Recorder, install
from ragtrace.types import Addendum, Fault, Item, RequestRecord, StageRun

T = TypeVar("T")
Run = TypeVar("Run", bound=StageRun)


class Recorded:
    """A sink that keeps everything, and the spans that were exported."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.durable: list[Item] = []
        self.flagged: list[tuple[str, tuple[str, ...]]] = []
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Keep it; a draft as what it builds."""
        if not isinstance(item, Item):
            if not item.is_kept:
                item.discard()
                return
            built = item.build()
            if built is None:
                return
            item = built
        self.items.append(item)
        if durable:
            self.durable.append(item)

    def flag(self, request_id: str, flags: tuple[str, ...]) -> None:
        """Note it."""
        self.flagged.append((request_id, flags))

    def flush(self, timeout: float) -> bool:
        """Nothing waits."""
        return True

    def end_spans(self, timeout: float) -> bool:
        """Nothing waits."""
        return True

    def close(self, timeout: float) -> bool:
        """Nothing waits."""
        return True

    @property
    def records(self) -> list[RequestRecord]:
        """The records so far."""
        return [item for item in self.items if isinstance(item, RequestRecord)]

    @property
    def addenda(self) -> list[Addendum]:
        """The addenda so far."""
        return [item for item in self.items if isinstance(item, Addendum)]

    @property
    def record(self) -> RequestRecord:
        """The only record."""
        (record,) = self.records
        return record

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Where and kind of each fault."""
        return [(item.where, item.kind) for item in self.items if isinstance(item, Fault)]

    def run(self, kind: type[Run]) -> Run:
        """The only run of this kind in the only record."""
        (run,) = [run for run in self.record.stages if isinstance(run, kind)]
        return run

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The ended spans by name."""
        return {span.name: span for span in self.exporter.get_finished_spans()}


Configure = Callable[..., Recorded]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Configure]:
    """Puts a recorder with these settings in use; `spans=False` is a host without OpenTelemetry's SDK."""
    monkeypatch.delenv("RAGTRACE_RAISE_ERRORS", raising=False)

    def use(*, spans: bool = True, raise_errors: bool = True, **settings: object) -> Recorded:
        recorded = Recorded()
        config = load(raise_errors=raise_errors, **settings)
        install(Recorder(config, recorded, recorded.provider if spans else None))
        return recorded

    yield use
    install(None)


@pytest.fixture
def recorded(configure: Configure) -> Recorded:
    """A recorder with the default settings in use."""
    return configure()
