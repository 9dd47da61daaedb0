"""A real gunicorn that forks its workers: each records, nothing is doubled, and no end of a worker loses anything."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace.store import Store

pytest.importorskip("gunicorn", reason="gunicorn is not installed (pip install 'ragtrace[dev]')")

APPLICATION = """
import json, os, ragtrace

ragtrace.configure(service="web")

@ragtrace.retrieve
def search(query):
    return [{"id": query, "text": "the text of " + query}]

@ragtrace.request(request_id="name", flag="flag")
def ask(question, name, flag):
    return search(question)

def app(environ, start_response):
    name = environ["PATH_INFO"].strip("/")
    ask("q" + name, name, "vip" if name.startswith("flagged") else None)
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"name": name, "pid": os.getpid()}).encode()]
"""


class Server:
    """A running gunicorn."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self._port = port

    def get(self, name: str) -> dict[str, Any]:
        """Ask for it; again while no worker listens yet."""
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/{name}", timeout=30) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except OSError:
                assert self.process.poll() is None
                time.sleep(0.05)
        raise TimeoutError(f"no answer for {name}")


@contextmanager
def gunicorn(folder: Path, store: str, *options: str) -> Iterator[Server]:
    """Two workers on a free loopback port, ended as an operator ends them."""
    (folder / "application.py").write_text(APPLICATION)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        paths = os.pathsep.join((str(folder), str(Path(ragtrace.__file__).parents[1])))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "-w", "2", "-b", f"fd://{listener.fileno()}", *options]
                + ["--no-control-socket"] * has_control_socket()
                + ["application:app"],
                env={**os.environ, "PYTHONPATH": paths, "RAGTRACE_STORE": store},
                pass_fds=[listener.fileno()],
                stdout=log,
                stderr=log,
                cwd=folder,
            )
        try:
            yield Server(process, port)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (folder / "log").read_text()
        finally:
            process.kill()
            process.wait()
    assert "Traceback" not in (folder / "log").read_text()


def has_control_socket() -> bool:
    """Whether this gunicorn opens one, by default in the user's home."""
    settings = importlib.import_module("gunicorn.config").KNOWN_SETTINGS
    return any("--no-control-socket" in (setting.cli or ()) for setting in settings)


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["a configure() per worker", "one in the master"])
def test_each_worker_records(tmp_path: Path, options: tuple[str, ...]) -> None:
    """At the graceful end everything is stored, samples too, each request once and whole."""
    store = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    names: list[str] = []
    workers: set[int] = set()
    with gunicorn(tmp_path, store, *options) as server:
        while len(names) < 40 or len(workers) < 2:
            names.append(f"{'sample' if len(names) % 2 else 'flagged'}-{len(names)}")
            workers.add(server.get(names[-1])["pid"])
            assert len(names) < 5000, f"only {workers} answer"
    with Store.open(store) as opened:
        found = opened.get_records(names)
        assert sorted(found) == sorted(names)
        assert all(len(record.stages) == 1 and record.record_revision == 0 for record in found.values())
        assert opened.faults() == []


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["a configure() per worker", "one in the master"])
def test_a_killed_worker_loses_nothing_flagged(tmp_path: Path, options: tuple[str, ...]) -> None:
    """SIGKILL: what it had accepted is stored by its successor or the next start."""
    store = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    names = [f"flagged-{number}" for number in range(60)]
    with gunicorn(tmp_path, store, *options) as server:
        killed: set[int] = set()
        for number, name in enumerate(names):
            pid = server.get(name)["pid"]
            if number % 20 == 10:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        assert len(killed) == 3
    ragtrace.configure(store=store)
    assert ragtrace.shutdown(timeout=60)
    with Store.open(store) as opened:
        assert sorted(opened.get_records(names)) == sorted(names)
