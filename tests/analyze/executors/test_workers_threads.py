"""Workers in threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragtrace.analyze import worker
from ragtrace.analyze.executors import ThreadExecutor, Work
from ragtrace.analyze.worker import OnResult, WorkerSettings, WorkSummary
from ragtrace.errors import ModelError
from tests.analyze.examples import fill, outcome


def test_one_worker_works_in_the_thread_that_called(tmp_path: Path) -> None:
    """So that Ctrl-C and what is raised are the caller's."""
    url = f"sqlite:///{tmp_path}/r.db"
    fill(url, 2)
    seen: list[threading.Thread] = []

    @contextmanager
    def noted() -> Iterator[OnResult]:
        yield lambda _record, _analysis: seen.append(threading.current_thread())

    assert ThreadExecutor().run(Work(store=url, results=noted)) == WorkSummary(done=2)
    assert seen == [threading.current_thread()] * 2


def test_several_do_what_one_does(tmp_path: Path) -> None:
    """Each job is done once, with the same scores and totals; the limit is of all together."""
    calm, shared = f"sqlite:///{tmp_path}/calm.db", f"sqlite:///{tmp_path}/shared.db"
    ids = fill(calm, 40)
    fill(shared, 40)
    worker.run(calm)
    executor = ThreadExecutor(workers=3)
    assert executor.run(Work(store=shared, settings=WorkerSettings(batch=4, limit=10))) == WorkSummary(done=10)
    assert executor.run(Work(store=shared, settings=WorkerSettings(batch=4))) == WorkSummary(done=30)
    assert outcome(shared, ids) == outcome(calm, ids)


def test_a_model_that_is_not_there_ends_them_with_its_own_error(tmp_path: Path) -> None:
    """As one worker would."""
    url = f"sqlite:///{tmp_path}/r.db"
    fill(url, 2)
    with pytest.raises(ModelError, match="no model folder at"):
        ThreadExecutor(workers=2).run(Work(store=url, verifier="./nowhere"))
