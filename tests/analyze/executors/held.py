"""Workers that stop amid a batch for the test to kill them, and what the test sees of their processes.

`python -m tests.analyze.executors.held EXECUTOR STORE FOLDER` runs two workers and kills one that way; it prints what
they did as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragtrace.analyze import examine as whole, worker
from ragtrace.analyze.executors import Work, executor_of
from ragtrace.analyze.worker import OnResult, WorkerSettings
from ragtrace.types import Analysis, RequestRecord

FOLDER = "HELD_FOLDER"


@contextmanager
def held_once() -> Iterator[OnResult]:
    """In a worker's process: the first that comes to its sixth record writes its id, and waits for its signal."""
    seen = 0

    def examine(*arguments: Any, **named: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == 6:
            _wait_if_first(Path(os.environ[FOLDER]) / "held")
        return whole(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "examine", examine)
        yield _ignore


def _wait_if_first(file: Path) -> None:
    try:
        with file.open("x") as written:
            written.write(str(os.getpid()))
    except FileExistsError:
        return
    while not file.with_name("signaled").exists():
        time.sleep(0.01)


@contextmanager
def noted_gpus() -> Iterator[OnResult]:
    """In a worker's process: writes which GPUs it sees."""
    (Path(os.environ[FOLDER]) / str(os.getpid())).write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    yield _ignore


def _ignore(_record: RequestRecord, _analysis: Analysis) -> None:
    """A result that nobody wants."""


class Killer:
    """Sends a signal to the worker that is held, once; as `stop`, it never says so."""

    def __init__(self, folder: Path, number: signal.Signals = signal.SIGKILL) -> None:
        self._file = folder / "held"
        self._number = number
        self.killed: int | None = None
        self.listening: set[str] = set()

    def __call__(self) -> bool:
        """Called again and again while workers work."""
        if self.killed is None and self._file.exists() and (held := self._file.read_text()):
            self.listening = listening_addresses(os.getpid())
            self.killed = int(held)
            os.kill(self.killed, self._number)
            self._file.with_name("signaled").touch()
        return False


def listening_addresses(pid: int) -> set[str]:
    """The addresses on which a process and its descendants listen, as /proc has them."""
    family = {str(pid)}
    parents = {entry.name: _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    sockets = {inode for member in family for inode in _sockets(Path("/proc") / member)}
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets}


def _parent(process: Path) -> str:
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[1]
    except OSError:  # it has ended
        return ""


def _sockets(process: Path) -> Iterator[str]:
    try:
        for descriptor in process.joinpath("fd").iterdir():
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]
    except OSError:  # it has ended
        return


def main(executor: str, store: str, folder: str) -> None:
    """Two workers of an executor, one of them killed amid a batch."""
    killer = Killer(Path(folder))
    work = Work(store=store, settings=WorkerSettings(batch=8), results=held_once, environment={FOLDER: folder})
    summary = executor_of(executor, workers=2).run(work, stop=killer)
    told = {"done": summary.done, "failed": summary.failed, "lost": summary.lost}
    print(json.dumps({**told, "killed": killer.killed, "listening": sorted(killer.listening)}))


if __name__ == "__main__":
    from tests.analyze.executors import held  # by its own name, so that workers find it

    held.main(*sys.argv[1:])
