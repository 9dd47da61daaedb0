"""Workers as actors of a real Ray on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ragtrace.analyze import executors as ray_actors, worker
from ragtrace.analyze.executors import RayExecutor, Work, executor_of
from ragtrace.analyze.worker import WorkSummary
from ragtrace.errors import ConfigurationError, MissingExtraError, WorkerError
from tests.analyze.examples import fill, outcome
from tests.cli.conftest import environment

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_an_actor_killed_amid_a_batch_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Ray is started, listens on loopback only, an actor that holds leases is killed, another does its jobs, and scores
    and totals are those of one worker. Nothing of Ray is left."""
    pytest.importorskip("ray", reason="ray is not installed (pip install 'ragtrace[ray]')")
    calm, rough = f"sqlite:///{tmp_path}/calm.db", f"sqlite:///{tmp_path}/rough.db"
    ids = fill(calm, 40)
    fill(rough, 40)
    worker.run(calm)
    left = set(Path("/tmp").glob("ragtrace-ray-*"))
    command = [sys.executable, "-m", "tests.analyze.executors.held", "ray", "sqlite:///rough.db", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["killed"] is not None
    assert told["listening"]
    assert set(told["listening"]) <= LOOPBACK
    assert (told["done"], told["failed"], told["lost"]) == (40, 0, 0)
    assert "is replaced: The actor died unexpectedly" in done.stderr
    assert outcome(rough, ids) == outcome(calm, ids)
    assert set(Path("/tmp").glob("ragtrace-ray-*")) <= left


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that installs it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragtrace\[ray\]'"):
        RayExecutor(address="auto").run(Work(store="sqlite:///r.db"))


@pytest.mark.parametrize(
    ("address", "machines", "is_refused"),
    [("local", 1, False), ("auto", 1, False), ("auto", 2, True), ("ray://127.0.0.1:10001", 1, True)],
)
def test_a_file_is_no_store_for_several_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str, machines: int, is_refused: bool
) -> None:
    """SQLite serves actors of this machine; others need PostgreSQL, and that is said."""
    begun = WorkSummary(done=1)
    alive = [{"Alive": True}] * machines + [{"Alive": False}]
    ray = SimpleNamespace(
        nodes=lambda: alive, init=lambda *_, **__: None, shutdown=lambda: None, cluster_resources=dict
    )
    monkeypatch.setattr(ray_actors, "load_package", lambda *_, **__: ray)
    monkeypatch.setattr(ray_actors, "watch", lambda *_, **__: pytest.fail("work begins") if is_refused else begun)
    monkeypatch.setattr(ray_actors, "_knock", lambda _: None)
    for name, value in (
        ("AUTH_MODE", "disabled"),
        ("USAGE_STATS_ENABLED", "0"),
        ("ENABLE_WINDOWS_OR_OSX_CLUSTER", "0"),
    ):
        monkeypatch.setenv(f"RAY_{name}", value)  # what it would set for good
    run = RayExecutor(address=address).run
    if not is_refused:
        assert run(Work(store=f"sqlite:///{tmp_path}/r.db")) == begun
        return
    with pytest.raises(ConfigurationError, match="a PostgreSQL store, which all machines of Ray at"):
        run(Work(store=f"sqlite:///{tmp_path}/r.db"))


def test_a_ray_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, with what to do."""
    monkeypatch.setattr(ray_actors, "load_package", lambda *_, **__: SimpleNamespace(shutdown=lambda: None))
    with pytest.raises(WorkerError, match=r"Ray at 127\.0\.0\.1:1 cannot be used: .*refused; start one"):
        RayExecutor(address="127.0.0.1:1").run(Work(store="sqlite:///r.db"))


class Gone(Exception):
    """An actor that is gone."""

    def __init__(self, message: str, actor_init_failed: bool) -> None:
        super().__init__(message)
        self.actor_init_failed = actor_init_failed


def cluster(*answers: Exception | None) -> SimpleNamespace:
    """A Ray whose actor answers so, one after the other: None is not yet."""
    left = list(answers)
    actor = SimpleNamespace(next_state=SimpleNamespace(remote=lambda: "asked"))
    place = SimpleNamespace(remote=lambda *_: actor)

    def get(_asked: str) -> None:
        error = left.pop(0)
        assert error is not None
        raise error

    return SimpleNamespace(
        remote=lambda _class: SimpleNamespace(options=lambda **_: place),
        wait=lambda refs, timeout: ([], refs) if left[0] is None else (refs, []),
        get=get,
        exceptions=SimpleNamespace(RayError=Gone),
    )


def test_an_actor_for_which_there_is_no_room_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A cluster may grow, so it waits; whoever waits with it knows why."""
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr(ray_actors, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    waiting = ray_actors._RayWorker(cluster(None), 3, Work(store="sqlite:///r.db"), "w", 1.0)
    states = [waiting.state() for _ in range(5)]
    assert not any(state.has_begun or state.is_over for state in states)
    assert [record.message for record in caplog.records] == ["worker 3 of the analyzer waits for room in Ray's cluster"]


@pytest.mark.parametrize(
    ("error", "is_gone", "reason"),
    [
        (Gone("The actor died unexpectedly.\n\tpid: 7", False), True, "The actor died unexpectedly"),
        (Gone("creation task failed:\nNo module named 'ragtrace'", True), False, "No module named 'ragtrace'"),
    ],
)
def test_an_actor_that_was_never_made_is_told_from_one_that_died(error: Gone, is_gone: bool, reason: str) -> None:
    """The first would fail anywhere, the second is replaced; either is one line."""
    state = ray_actors._RayWorker(cluster(error), 0, Work(store="sqlite:///r.db"), "w", 0.0).state()
    assert (state.is_over, state.is_gone, str(state.error)) == (True, is_gone, reason)


@pytest.mark.parametrize(
    ("name", "gpus", "message"), [("dask", None, "thread, processes, ray"), ("thread", 1.0, "shares all GPUs")]
)
def test_what_no_executor_does_is_refused(name: str, gpus: float | None, message: str) -> None:
    """Another name, and GPUs for threads, which have one process."""
    with pytest.raises(ConfigurationError, match=message):
        executor_of(name, gpus_for_each=gpus)
