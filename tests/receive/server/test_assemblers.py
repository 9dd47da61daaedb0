"""The processes that assemble: what becomes of the receiver when one of them does not do as it should."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from ragtrace import config
from ragtrace.receive import server as serving
from ragtrace.receive._tenants import Everybody
from ragtrace.receive.server import Assemblers


def deaf(channel: Connection, *_: object) -> None:
    """A process that says that it lives, and then nothing more."""
    channel.send(("assembled", 1))
    Event().wait()


def made(tmp_path: Path, counted: Any = lambda fate, count: None) -> Assemblers:
    """One process, of a store that is not needed."""
    return Assemblers(1, f"sqlite:///{tmp_path}/spans.db", config.load(), keep=1, access=Everybody(), counted=counted)


def test_one_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time over, it is killed: the receiver ends."""
    monkeypatch.setattr(serving, "_assemble", deaf)
    monkeypatch.setattr(serving, "_PATIENCE", 0.1)
    monkeypatch.setattr(serving, "_ENDING", 0.1)
    lives = Event()
    running = made(tmp_path, lambda fate, count: lives.set())
    running.start()
    assert lives.wait(60)
    stopping = Thread(target=running.stop, daemon=True)
    stopping.start()
    stopping.join(30)

    assert not stopping.is_alive()


def test_one_that_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again: there may be memory later."""
    tried, again = list[int](), Event()

    class Process:
        def __init__(self, **_: object) -> None:
            tried.append(1)

        def start(self) -> None:
            if len(tried) > 1:
                again.set()
            raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(multiprocessing.get_context("spawn"), "Process", Process)
    monkeypatch.setattr(serving, "_PAUSE", 0.01)
    running = made(tmp_path)
    running.start()
    is_tried_again = again.wait(30)
    running.stop()

    assert is_tried_again
    assert "cannot be started: [Errno 12]" in caplog.text
