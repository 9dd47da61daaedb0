"""The bench of executors has each of them do the whole work, and leaves the store that it copies as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.executors import Subject, apart, fill
from ragtrace.store import Store


@pytest.mark.parametrize("workers", [1, 2])
def test_apart(tmp_path: Path, workers: int) -> None:
    """A rate, the time of the start, and that of an analysis."""
    filled = fill(tmp_path, 30)
    found = apart(Subject("thread", workers), filled)
    assert min(found.rate, found.start, found.took) > 0
    with Store.open(f"sqlite:///{filled}") as store:
        assert store.queue_depth()["pending"] == 30
