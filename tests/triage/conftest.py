"""Stores with traffic whose faults are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from bench.traffic import MINUTE, Traffic, store_traffic
from ragtrace.store import Store
from ragtrace.triage import Window

END = 1_700_000_000_000_000_000
START = END - 240 * MINUTE
WINDOW = Window.of(END - 120 * MINUTE, END)
"""The second half of the traffic, compared with the first."""

Fill: TypeAlias = Callable[..., Store]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An open SQLite store with nothing in it."""
    with Store.open(f"sqlite:///{tmp_path}/traffic.db") as opened:
        yield opened


@pytest.fixture
def fill(store: Store) -> Fill:
    """Writes four hours of traffic into the store; any field of it may be given."""

    def fill(*breaks: Any, count: int = 600, start: int = START, end: int = END, **fields: Any) -> Store:
        store_traffic(store, Traffic(count, start, end, breaks, **fields))
        return store

    return fill
