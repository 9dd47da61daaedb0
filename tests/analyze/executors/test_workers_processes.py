"""Workers in processes of their own, killed and told to end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ragtrace.analyze import executors as workers, worker
from ragtrace.analyze.executors import ProcessExecutor, Work
from ragtrace.analyze.worker import WorkerSettings, WorkSummary
from ragtrace.errors import ConfigurationError, WorkerError
from tests.analyze.examples import fill, outcome
from tests.analyze.executors.held import FOLDER, Killer, held_once, noted_gpus


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once in SQLite and once in PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rough.db"
    fresh: str = request.getfixturevalue("postgres_server").new_database()
    return fresh


def test_a_worker_killed_amid_a_batch_loses_and_doubles_nothing(url: str, tmp_path: Path) -> None:
    """SIGKILL while it holds leases: another takes its place and its jobs; scores and totals are as of one worker."""
    calm = f"sqlite:///{tmp_path}/calm.db"
    ids = fill(calm, 40)
    fill(url, 40)
    worker.run(calm)
    killer = Killer(tmp_path)
    work = Work(store=url, settings=WorkerSettings(batch=8), results=held_once, environment={FOLDER: str(tmp_path)})
    summary = ProcessExecutor(workers=2).run(work, stop=killer)
    assert killer.killed is not None
    assert summary == WorkSummary(done=40)
    assert outcome(url, ids) == outcome(calm, ids)


def test_processes_get_gpus_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sees what CUDA_VISIBLE_DEVICES gives it; more than there are is refused before one starts."""
    monkeypatch.setattr(workers, "visible_gpus", lambda: ["5", "7"])
    url = f"sqlite:///{tmp_path}/r.db"
    fill(url, 1)
    work = Work(store=url, results=noted_gpus, environment={FOLDER: str(tmp_path / "seen")})
    with pytest.raises(ConfigurationError, match="GPUs 2, workers 3"):
        ProcessExecutor(workers=3, gpus_for_each=1.0).run(work)
    (tmp_path / "seen").mkdir()
    ProcessExecutor(workers=2, gpus_for_each=1.0).run(work)
    assert sorted(file.read_text() for file in (tmp_path / "seen").iterdir()) == ["5", "7"]


def test_a_store_that_is_not_there_ends_them(tmp_path: Path) -> None:
    """With the message of the store, which no process could open."""
    with pytest.raises(WorkerError, match="nowhere"):
        ProcessExecutor(workers=2).run(Work(store=f"sqlite:///{tmp_path}/nowhere/r.db"))


def test_a_process_that_somebody_ended_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SIGTERM lets it commit what is at hand; the others and the next one do the rest."""
    url = f"sqlite:///{tmp_path}/r.db"
    ids = fill(url, 24)
    killer = Killer(tmp_path, signal.SIGTERM)
    work = Work(store=url, settings=WorkerSettings(batch=8), results=held_once, environment={FOLDER: str(tmp_path)})
    assert ProcessExecutor(workers=1).run(work, stop=killer) == WorkSummary(done=24)
    assert None not in outcome(url, ids)[0].values()
    assert "was told to end by SIGTERM" in caplog.text
