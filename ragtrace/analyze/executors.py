"""Executors of workers: threads of this process, processes of their own, or actors of Ray, each with a GPU where there
are some, behind one interface.

A process is told to stop through its pipe. It stops as well when the pipe breaks, since nobody is left to sum up what
it does, and when it gets SIGTERM. Ctrl-C is the parent's to hear.

Ray places actors on this machine, or on the machines of a cluster that runs already, and gives them their GPUs. No data
passes through Ray: each actor leases its jobs from the store, and all that the caller asks it is how far it is.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Protocol

from ragtrace.analyze._executor_work import (
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
from ragtrace.config import PREFIX
from ragtrace.engines.models import load_package
from ragtrace.errors import ConfigurationError, WorkerError
from ragtrace.store.address import Address, from_anywhere

__all__ = ["EXECUTORS", "Executor", "ProcessExecutor", "RayExecutor", "ThreadExecutor", "Work", "executor_of"]

EXECUTORS: Final = ("thread", "processes", "ray")

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


_LOCAL: Final = "local"
_CLIENT: Final = "ray://"
_OBJECTS: Final = 80 << 20  # bytes; Ray refuses less than 75 MiB
_TAKEN_ALONG: Final = (PREFIX, "OTEL_", "PG")  # variables of this process that workers read as well
_LONG: Final = 30.0
_PATIENCE: Final = 5.0


@dataclass(frozen=True, slots=True)
class RayExecutor:
    """So many actors, each with one CPU.

    gpus_for_each: GPUs for each, also a part of one; None: where models are named, as many as there are, evenly.
    address: `local` starts a Ray of its own that listens on loopback only and ends with the work; `auto`, HOST:PORT or
    ray://HOST:PORT is one that runs, with this version of ragtrace on each machine.
    """

    workers: int = 1
    gpus_for_each: float | None = None
    address: str = _LOCAL

    def run(self, work: Work, *, on_progress: OnProgress | None = None, stop: Stop | None = None) -> WorkSummary:
        """Do the work.

        Raises: MissingExtraError, ConfigurationError for a SQLite store on several machines and for more GPUs than
        there are, WorkerError also when Ray does not start or is not there.
        """
        ray = _load(self.address)
        store = Address.parse(work.store)
        taken = {name: value for name, value in os.environ.items() if name.startswith(_TAKEN_ALONG)}
        environment = {**taken, **work.environment}
        placed = replace(
            work, store=from_anywhere(work.store), environment=environment, torch_threads=work.beside_others
        )
        with _running(ray, self.address, self.workers):
            if store.is_sqlite:
                self._check_reach(ray, store)
            share = self._share(ray, work)

            def start(number: int, its: Work, owner: str) -> _RayWorker:
                return _RayWorker(ray, number, its, owner, share)

            return watch(start, placed, self.workers, on_progress=on_progress, stop=stop)

    def _check_reach(self, ray: Any, store: Address) -> None:
        """A file of this machine is no store for others."""
        machines = len([node for node in ray.nodes() if node["Alive"]])
        if self.address.startswith(_CLIENT) or machines > 1:
            allowed = f"a PostgreSQL store, which all machines of Ray at {self.address} reach, or --ray-address local"
            raise ConfigurationError.of("store", store.shown, allowed)

    def _share(self, ray: Any, work: Work) -> float:
        if self.address != _LOCAL and self.gpus_for_each is not None:
            return self.gpus_for_each  # a cluster may grow
        gpus = int(ray.cluster_resources().get("GPU", 0))
        if self.gpus_for_each is None and not work.has_local_models:
            return 0.0
        return gpus_for_each(self.workers, gpus, self.gpus_for_each)


class _RayWorker:
    def __init__(self, ray: Any, number: int, work: Work, owner: str, share: float) -> None:
        self._ray = ray
        self._number = number
        place = {"num_cpus": 1, "num_gpus": share, "max_restarts": 0, "max_concurrency": 2}
        self._actor = ray.remote(_Actor).options(**place).remote(work, owner)
        self._asked = self._actor.next_state.remote()
        self._state = State()
        self._waits_since: float | None = time.monotonic()

    def state(self) -> State:
        try:
            if not self._state.is_over and self._ray.wait([self._asked], timeout=0)[0]:
                self._state = self._ray.get(self._asked)
                self._asked = self._actor.next_state.remote()
                self._waits_since = None
        except self._ray.exceptions.RayError as error:
            is_gone = not getattr(error, "actor_init_failed", False)  # such an error is told by the actor itself
            line = _first_line(error) if is_gone else _last_line(error)
            self._state = replace(self._state, is_over=True, is_gone=is_gone, error=WorkerError(line))
        if self._waits_since is not None and time.monotonic() - self._waits_since > _LONG:
            self._waits_since = None
            _log.warning("worker %d of the analyzer waits for room in Ray's cluster", self._number)
        return self._state

    def stop(self) -> None:
        self._actor.stop.remote()

    def kill(self) -> None:
        self._ray.kill(self._actor)


def _report(*arguments: Any) -> None:
    """`report` in a process of its own."""
    with rare_collections():
        report(*arguments)


class _Actor:
    """Works in a thread of its own; Ray's threads answer how far that is."""

    def __init__(self, work: Work, owner: str) -> None:
        self._stopped = threading.Event()
        self._told: queue.SimpleQueue[State] = queue.SimpleQueue()
        self._told.put(State())  # there was room for it
        arguments = (work, owner, lambda state: self._told.put(sendable(state)), self._stopped.is_set)
        threading.Thread(target=_report, args=arguments, name="ragtrace-worker", daemon=True).start()

    def next_state(self) -> State:
        """The newest state, as soon as there is one that was not given."""
        state = self._told.get()
        while not self._told.empty():
            state = self._told.get()
        return state

    def stop(self) -> None:
        """Commit what is at hand and end."""
        self._stopped.set()


def _load(address: str) -> Any:
    """Ray, with the settings that it reads when it is imported. Raises: MissingExtraError."""
    if address == _LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # all of it listens on loopback
        if "RAY_AUTH_MODE" not in os.environ:  # other users of this machine reach loopback, too
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return load_package("ray", extra="ray")


@contextmanager
def _running(ray: Any, address: str, workers: int) -> Iterator[None]:
    """A Ray that is connected meanwhile. One that was started for it ends, with all of its processes and files."""
    # Ray's sockets have the folder in their names, which must be short.
    folder = tempfile.mkdtemp(prefix="ragtrace-ray-", dir="/tmp") if address == _LOCAL else None
    own = {"num_cpus": workers, "object_store_memory": _OBJECTS, "include_dashboard": False, "_temp_dir": folder}
    with redirect_stdout(sys.stderr):  # Ray prints what its processes say, and stdout is for the result
        try:
            _connect(ray, address, own if folder is not None else {})
            yield
        finally:
            ray.shutdown()
            if folder is not None:
                _remove(Path(folder))


def _remove(folder: Path) -> None:
    """Ray's last processes may still write a log while they end."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
    _log.warning("the files of Ray in %s could not be removed", folder)


def _connect(ray: Any, address: str, options: dict[str, Any]) -> None:
    try:
        _knock(address)
        with _kept_signals():
            ray.init(address, logging_level="error", **options)
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        remedy = "start one (ray start --head), or give --ray-address local"
        if address == _LOCAL:
            remedy = "look for memory and free space in /tmp and /dev/shm, or take --executor processes"
        raise WorkerError(f"Ray at {address} cannot be used: {_first_line(error)}; {remedy}") from error


def _knock(address: str) -> None:
    """Ray itself tries for minutes. Raises: OSError when nobody answers where a host and a port are given."""
    host, found, port = address.removeprefix(_CLIENT).partition("/")[0].rpartition(":")
    if found and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


@contextmanager
def _kept_signals() -> Iterator[None]:
    """What is called meanwhile leaves this process's signals as they are; Ray would end it at a SIGTERM."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if is_main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _first_line(error: BaseException) -> str:
    return (_lines(error) or [type(error).__name__])[0].rstrip(".")


def _last_line(error: BaseException) -> str:
    return (_lines(error) or [type(error).__name__])[-1]


def _lines(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()]


class Executor(Protocol):
    """Has workers do their work somewhere."""

    def run(self, work: Work, *, on_progress: OnProgress | None = None, stop: Stop | None = None) -> WorkSummary:
        """Until no job is left (`follow`: until `stop()` is true). Returns what all workers did together.

        Raises: RagtraceError when workers cannot start, or end again and again.
        """


def executor_of(
    name: str, *, workers: int = 1, gpus_for_each: float | None = None, ray_address: str = "local"
) -> Executor:
    """The executor of this name. Raises: ConfigurationError for another name, and for GPUs of threads."""
    if name == "thread" and gpus_for_each is not None:
        raise ConfigurationError.of("gpus per worker", gpus_for_each, "none: the executor thread shares all GPUs")
    if name == "thread":
        return ThreadExecutor(workers)
    if name == "processes":
        return ProcessExecutor(workers, gpus_for_each)
    if name == "ray":
        return RayExecutor(workers, gpus_for_each, ray_address)
    raise ConfigurationError.of("executor", name, ", ".join(EXECUTORS))
