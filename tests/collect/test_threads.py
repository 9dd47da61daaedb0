"""Threads of ours: nothing that happens in one ends it, and one that cannot start is tried again."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ragtrace.collect import _threads as threads
from ragtrace.collect._threads import BackgroundThread, FlushBarrier
from ragtrace.types import RequestRecord


def refuse(thread: threading.Thread) -> None:
    """As the system does when it has no more threads."""
    raise RuntimeError("can't start new thread")


def test_an_exit_in_a_step_does_not_end_it() -> None:
    """A host's redactor may call sys.exit(); the next step is done all the same, and so is the end."""
    done: list[str] = []
    stepped = threading.Event()

    def step() -> None:
        done.append("step")
        stepped.set()
        raise SystemExit(1)

    worker = BackgroundThread("w", step, end=lambda: done.append("end"), wait=lambda: 60.0, failed=lambda error: None)
    assert worker.start()
    for _ in range(2):
        stepped.clear()
        worker.wake(at_once=True)
        assert stepped.wait(10)
    worker.stop()
    assert worker.join(10)
    assert done[:2] == ["step", "step"]
    assert done[-1] == "end"


def test_work_gathers_until_somebody_hurries() -> None:
    """A step that nobody waits for lets further work come."""
    stepped = threading.Event()
    worker = BackgroundThread("w", stepped.set, linger=60.0, wait=lambda: 60.0, failed=lambda error: None)
    assert worker.start()
    worker.wake()
    assert not stepped.wait(0.2)
    worker.wake(at_once=True)
    assert stepped.wait(10)
    worker.stop()
    assert worker.join(10)


def test_while_it_rests_it_does_nothing() -> None:
    """For a fork."""
    stepped = threading.Event()
    worker = BackgroundThread("w", stepped.set, wait=lambda: 60.0, failed=lambda error: None)
    assert worker.start()
    worker.rest(10)
    worker.wake(at_once=True)
    assert not stepped.wait(0.05)
    worker.go_on()
    assert stepped.wait(10)
    worker.stop()


def test_a_fork_waits_for_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little time it has: a child that inherits the lock of a half-imported module can never import it."""
    (tmp_path / "half_imported.py").write_text("import sys\nsys._half.wait(30)\nsys._whole.set()\n")
    monkeypatch.syspath_prepend(tmp_path)
    go_on, whole, begun = threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "_half", go_on, raising=False)
    monkeypatch.setattr(sys, "_whole", whole, raising=False)

    def step() -> None:
        begun.set()
        importlib.import_module("half_imported")

    worker = BackgroundThread("w", step, wait=lambda: 60.0, failed=lambda error: None)
    assert worker.start()
    worker.wake(at_once=True)
    assert begun.wait(10)
    while not worker._is_importing():
        pass
    asked = worker._is_importing

    def ask() -> bool:
        found = asked()
        go_on.set()
        return found

    monkeypatch.setattr(worker, "_is_importing", ask)
    worker.rest(0.0)
    assert whole.is_set()
    worker.go_on()
    worker.stop()


def test_without_threads_nothing_raises_and_nothing_is_lost(
    make_sink: Any, writer: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is durable waits in the spool, and all is stored once the system gives threads again."""
    monkeypatch.setattr(threads, "_RETRY", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        sink = make_sink()
        sink.submit(RequestRecord(request_id="sample", service="svc"))
        sink.submit(RequestRecord(request_id="flagged", service="svc"), durable=True)
        assert any(b'"flagged"' in path.read_bytes() for path in folder.iterdir())
        assert not sink.flush(10)
    assert sink.flush(10)
    assert writer.ids == ["flagged", "sample"]
    assert writer.faults["sink.thread", "RuntimeError"] >= 1


def test_an_end_without_threads_leaves_all_to_the_next_start(
    make_sink: Any, writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples too; the next start finds the segments unlocked."""
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        sink = make_sink()
        sink.submit(RequestRecord(request_id="sample", service="svc"))
        sink.submit(RequestRecord(request_id="flagged", service="svc"), durable=True)
        assert not sink.close(10)
    assert make_sink().flush(10)
    assert writer.ids == ["flagged", "sample"]


def test_a_forked_child_without_threads_ends_without_an_exception(
    make_sink: Any, writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has accepted is stored by the next start."""
    sink = make_sink()
    assert sink.flush(10)
    child = os.fork()
    if child == 0:
        os._exit(_in_child(sink, monkeypatch))
    assert os.waitpid(child, 0)[1] == 0
    assert make_sink().flush(10)
    assert writer.ids == ["child", "child sample"]


def _in_child(sink: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """0 when nothing raised and the end says that something is left."""
    try:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        sink.submit(RequestRecord(request_id="child", service="svc"), durable=True)
        sink.submit(RequestRecord(request_id="child sample", service="svc"))
        return int(sink.close(10))
    except BaseException:
        return 2


def test_an_answer_is_for_those_who_had_asked() -> None:
    """Neither a success nor a failure of what began before one asked answers that one."""
    barrier = FlushBarrier()
    assert barrier.wait(lambda: barrier.settle(1), 10)
    assert not barrier.wait(lambda: barrier.settle(2, is_done=False), 10)
    assert not barrier.wait(lambda: barrier.settle(2), 0.01)


def test_an_earlier_failure_is_not_ones_own() -> None:
    """What had begun before may fail; the answer comes after it."""
    barrier = FlushBarrier()

    def answer() -> None:
        barrier.settle(barrier.asked - 1, is_done=False)
        barrier.settle(barrier.asked)

    assert barrier.wait(answer, 10)
    assert barrier.wait(answer, 10)


def test_a_later_answer_is_for_all_before_it() -> None:
    """One cycle may answer several."""
    barrier = FlushBarrier()
    assert barrier.wait(lambda: barrier.settle(7), 10)
    assert barrier.wait(lambda: None, 10)
