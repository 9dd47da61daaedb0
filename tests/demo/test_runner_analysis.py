"""The worker process beside the pipeline."""

from __future__ import annotations

from pathlib import Path

from rich.progress import Progress

from ragtrace.demo.runner import finish_analysis, worker_process
from ragtrace.store import Store
from ragtrace.types import Query, RequestRecord


def _store(folder: Path, requests: int) -> Store:
    store = Store.open(f"sqlite:///{folder}/demo.db")
    store.write(
        [
            RequestRecord(request_id=f"{number:032x}", service="s", query=Query(original="How long?"))
            for number in range(requests)
        ]
    )
    return store


def test_all_is_analyzed_without_help(tmp_path: Path) -> None:
    """Where the other worker does not run, all jobs are done here."""
    with _store(tmp_path, 20) as store, Progress(disable=True) as bar:
        finish_analysis(store, bar)
        assert {state: count for state, count in store.queue_depth().items() if count} == {"done": 20}


def test_two_workers_share_the_queue(tmp_path: Path) -> None:
    """With a worker process beside it nothing is lost, nothing done twice, and the process ends with the block."""
    with _store(tmp_path, 60) as store, Progress(disable=True) as bar:
        with worker_process(store.url):
            finish_analysis(store, bar)
        assert {state: count for state, count in store.queue_depth().items() if count} == {"done": 60}
        assert len(list(store.analyses(service="s"))) == 60


def test_an_empty_queue(tmp_path: Path) -> None:
    """Nothing to do ends at once."""
    with _store(tmp_path, 0) as store, Progress(disable=True) as bar:
        finish_analysis(store, bar)
        assert not any(store.queue_depth().values())
