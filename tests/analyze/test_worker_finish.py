"""The queue is worked until nothing of it waits."""

from __future__ import annotations

from pathlib import Path

from ragtrace.analyze.worker import finish
from ragtrace.store import Store
from tests.analyze.examples import request


def test_all_is_analyzed_and_told(tmp_path: Path) -> None:
    """The progress grows to what waited; nothing is left; an empty queue ends at once."""
    told: list[tuple[int, int]] = []
    with Store.open(f"sqlite:///{tmp_path}/kept.db") as store:
        store.write([request(request_id=f"r{number}") for number in range(40)])
        assert finish(store, lambda done, of: told.append((done, of))) == 0
        assert told[-1] == (40, 40)
        assert told == sorted(told)
        assert store.queue_depth()["done"] == 40
        assert finish(store) == 0
