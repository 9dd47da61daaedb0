"""Workers on this machine: threads of this process, or processes of their own, each with a GPU where there are some.

A process is told to stop through its pipe. It stops as well when the pipe breaks, since nobody is left to sum up what
it does, and when it gets SIGTERM. Ctrl-C is the parent's to hear.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Final

from ragtrace.analyze.executors._work import (
    VISIBLE,
    OnProgress,
    State,
    Stop,
    Work,
    do,
    gpus_for_each,
    gpus_of,
    report,
    sendable,
    visible_gpus,
    watch,
)
from ragtrace.analyze.worker import WorkSummary, rare_collections
from ragtrace.errors import WorkerError

__all__ = ["ProcessExecutor", "ThreadExecutor"]

_STOP: Final = b"stop"
_log = logging.getLogger("ragtrace.analyze")


@dataclass(frozen=True, slots=True)
class ThreadExecutor:
    """Python runs one thread at a time, so several pay where models behind servers or on a GPU are waited for. A worker
    that fails ends the others, too: they share its process."""

    workers: int = 1

    def run(self, work: Work, *, on_progress: OnProgress | None = None, stop: Stop | None = None) -> WorkSummary:
        """Do the work. Raises: what `do` raises."""
        if self.workers == 1:
            return do(work, on_progress=on_progress, stop=stop)
        shared = replace(work, torch_threads=work.beside_others)
        return watch(_ThreadWorker, shared, self.workers, replaces=False, on_progress=on_progress, stop=stop)


class _ThreadWorker:
    def __init__(self, number: int, work: Work, owner: str) -> None:
        self._state = State()
        self._stopped = threading.Event()
        arguments = (work, owner, self._note, self._stopped.is_set)
        threading.Thread(target=report, args=arguments, name=f"ragtrace-worker-{number}", daemon=True).start()

    def state(self) -> State:
        return self._state

    def stop(self) -> None:
        self._stopped.set()

    def kill(self) -> None:
        """A thread cannot be ended from outside; it ends behind its batch."""
        self._stopped.set()

    def _note(self, state: State) -> None:
        self._state = state


@dataclass(frozen=True, slots=True)
class ProcessExecutor:
    """So many processes. gpus_for_each: GPUs for each, also a part of one; None: as many as there are, evenly."""

    workers: int = 1
    gpus_for_each: float | None = None

    def run(self, work: Work, *, on_progress: OnProgress | None = None, stop: Stop | None = None) -> WorkSummary:
        """Do the work. Raises: ConfigurationError for more GPUs than there are, WorkerError."""
        wants_gpus = self.gpus_for_each is not None or work.has_local_models
        gpus = visible_gpus() if wants_gpus else []
        share = gpus_for_each(self.workers, len(gpus), self.gpus_for_each)
        given = work.beside_others if self.workers > 1 else None

        def start(number: int, its: Work, owner: str) -> _ProcessWorker:
            if wants_gpus and (gpus or self.gpus_for_each is not None):
                its = replace(its, environment={**its.environment, VISIBLE: ",".join(gpus_of(number, share, gpus))})
            return _ProcessWorker(number, replace(its, torch_threads=given), owner)

        return watch(start, work, self.workers, on_progress=on_progress, stop=stop)


class _ProcessWorker:
    def __init__(self, number: int, work: Work, owner: str) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share connections, threads and CUDA
        self._ours, theirs = context.Pipe()
        name = f"ragtrace-worker-{number}"
        self._process = context.Process(target=_main, args=(theirs, work, owner), name=name, daemon=True)
        with _without_interrupts():
            self._process.start()
        theirs.close()
        self._state = State()

    def state(self) -> State:
        is_alive = self._process.is_alive()
        self._read()
        if not is_alive and not self._state.is_over:
            error = WorkerError(_how_it_ended(self._process.exitcode))
            self._state = replace(self._state, is_over=True, is_gone=True, error=error)
        return self._state

    def stop(self) -> None:
        try:
            self._ours.send_bytes(_STOP)
        except OSError:
            _log.debug("%s had ended when it was told to stop", self._process.name)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._ours.close()

    def _read(self) -> None:
        try:
            while self._ours.poll():
                self._state = self._ours.recv()
        except (EOFError, OSError):  # the other end is gone, and the exit code will say how
            return


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What starts meanwhile hears no Ctrl-C, which a terminal sends to all processes at once."""
    resource_tracker.ensure_running()  # it would start with the first process, and let signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _main(connection: Connection, work: Work, owner: str) -> None:
    """What a worker's process runs."""
    signals: list[int] = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))

    def tell(state: State) -> None:
        if signals and state.is_over and state.error is None:
            state = replace(state, error=WorkerError("its process was told to end by SIGTERM"))
        try:
            connection.send(sendable(state))
        except OSError:
            _log.debug("nobody is left to hear of %s", owner)

    with rare_collections():
        report(work, owner, tell, lambda: bool(signals) or connection.poll())
