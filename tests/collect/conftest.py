"""A writer that keeps what it gets, fails on demand, and a factory of sinks that are closed with the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragtrace.collect import BackgroundSink, Spool
from ragtrace.types import Fault, Item, RequestRecord


class ListWriter:
    """Keeps every item; raises `error` as long as it is set; writing waits while `gate` is closed."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.error: Exception | None = None
        self.refused: Callable[[Item], bool] = lambda item: False
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.opened = self.closed = 0

    def open(self) -> ListWriter:
        """As a factory."""
        self.opened += 1
        return self

    def write(self, items: Sequence[Item], /) -> None:
        """Keep the items, all or none."""
        self.entered.set()
        self.gate.wait(30)
        if self.error is not None:
            raise self.error
        if any(map(self.refused, items)):
            raise ValueError("an item is refused")
        self.items.extend(items)

    def close(self) -> None:
        """Count."""
        self.closed += 1

    @property
    def ids(self) -> list[str]:
        """The request ids that arrived, each once, sorted."""
        return sorted({item.request_id for item in self.items if isinstance(item, RequestRecord)})

    @property
    def faults(self) -> dict[tuple[str, str], int]:
        """Counts by where and kind."""
        counts: dict[tuple[str, str], int] = {}
        for item in self.items:
            if isinstance(item, Fault):
                counts[item.where, item.kind] = counts.get((item.where, item.kind), 0) + item.count
        return counts


@pytest.fixture
def writer() -> ListWriter:
    """A writer."""
    return ListWriter()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The spool's folder."""
    return tmp_path / "spool"


MakeSink = Callable[..., BackgroundSink]


@pytest.fixture
def make_sink(writer: ListWriter, folder: Path) -> Iterator[MakeSink]:
    """Sinks over the writer and the folder."""
    made: list[BackgroundSink] = []

    def make(**settings: Any) -> BackgroundSink:
        spool = settings.pop("spool", None) or Spool.open(folder, "sqlite:///x.db")
        made.append(BackgroundSink(writer.open, spool, service="svc", **settings))
        return made[-1]

    yield make
    writer.gate.set()
    for sink in made:
        sink.close(10)
