"""A replay: what is left to ask, asking it, and the analysis of what was recorded.

Each attempt at a question is one recorded request, and what fails is asked again. A run may be killed at any moment:
each answered question is on disk when its call returns, and `resume` asks the rest. One process at a time replays a
name: two at once would ask each question twice, with the same number of its attempt.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import queue
import re
import socket
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

import ragtrace
from ragtrace.analyze.worker import finish
from ragtrace.config import load
from ragtrace.errors import ConfigurationError, StoreError
from ragtrace.gate.replay_inputs import Caller, EventLoop, Pipeline, Question, load_pipeline
from ragtrace.privacy import Capture
from ragtrace.record import active, held
from ragtrace.record.requests import RequestRecording, current_recording
from ragtrace.record.stages import StageRecording
from ragtrace.store import Heartbeat, Replayed, Store
from ragtrace.store.address import Address

__all__ = ["Again", "Progress", "ReplaySummary", "check_options", "hold_run", "replay"]

Again: TypeAlias = Literal["no", "resume", "restart"]
"""The treatment of a run that is in the store already: refuse, ask what is missing or failed, or ask all anew."""

_NAME: Final = re.compile(r"[A-Za-z0-9._/@+:-]{1,100}")
_FLUSH_SECONDS: Final = 60.0
_NEEDED: Final = ("query", "chunks", "answer")
_GIVE_UP: Final = 5  # failures in a row from the start, after which nothing else is asked
_NO_STAGE: Final = 3  # answers without any stage from the start
_RUN: Final = "ragtrace.replay.run"
_QUESTION: Final = "ragtrace.replay.question"
_ATTEMPT: Final = "ragtrace.replay.attempt"
_DOCUMENT: Final = "ragtrace.replay.document"
_LONGEST_WAIT: Final = 30.0
_SETTLE: Final = 3
_LONGEST_MESSAGE: Final = 300  # characters of an exception's message
_LEASE_SECONDS: Final = 60.0  # after which another machine may take the place of one that was killed
_LOG: Final = logging.getLogger(__name__)


class Progress(Protocol):
    """Is told how far a replay is."""

    def asked(self, done: int, of: int, failed: int) -> None:
        """So many questions are through."""

    def analyzed(self, done: int, of: int) -> None:
        """So many requests are analyzed."""


class ReplaySummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay did. skipped: questions that the run had answered before; repeated: needed more than one attempt;
    not_asked: were left out after the first ones all failed; unstored: wait in the spool; unanalyzed: None where no
    analysis was asked for."""

    run: str
    service: str
    store: str
    questions: int
    skipped: int
    answered: int
    failed: int
    repeated: int
    not_asked: int
    failures: dict[str, str]  # question id -> what the last attempt raised
    has_versions: bool
    hidden: tuple[str, ...]  # content that the application does not capture, and that the metrics need
    unstored: int
    unanalyzed: int | None
    seconds: float


def check_options(run: str, timeout: float | None) -> None:
    """Raises: ConfigurationError for a name that no selection could name, and a time that is none."""
    if not _NAME.fullmatch(run):
        raise ConfigurationError.of("name", run, "1 to 100 letters, digits and . _ - / @ + :, no space and no &")
    if timeout is not None and not (timeout > 0 and isfinite(timeout)):
        raise ConfigurationError.of("timeout", timeout, "seconds above 0")


def replay(
    questions: Sequence[Question],
    pipeline: str,
    run: str,
    store_url: str,
    *,
    service: str | None = None,
    again: Again = "no",
    concurrency: int = 1,
    retries: int = 2,
    timeout: float | None = None,
    backoff: float = 1.0,
    analyze: bool = True,
    progress: Progress | None = None,
) -> ReplaySummary:
    """Ask the questions by `pipeline` (`module:function`), record them all as `run`, and analyze them.

    backoff: seconds before a failed question is asked again, doubled with each further time.
    Whatever the application gives to `ragtrace.configure`, it records into this store and samples all requests.

    Raises: ConfigurationError for a pipeline that cannot be used, records no stage, or a run that is there already, or
        is being replayed by another process; StoreError.
    """
    started = time.perf_counter()
    settings: dict[str, Any] = {"store": store_url, "sample_rate": 1.0, "enabled": True, "build": "host"}
    if service is not None:
        settings["service"] = service
    with Store.open(store_url) as store, hold_run(store, run), held(**settings):
        function = _load_function(pipeline, settings)
        try:
            name = _service()
            known = {row.question: row for row in store.replayed(run)}  # the last attempt at each
            tasks = _open_tasks(run, store.url, known, questions, again)
            _put_gold(store, name, questions)
            tally = _ask_and_tally(
                tasks, function, _ReplaySettings(run, concurrency, retries, timeout, backoff), pipeline, known, progress
            )
            hidden = _hidden_content()
            of_run = tally.service or next((row.service for row in known.values()), name)
            if of_run != name:  # the application says so only when it is asked
                name = of_run
                _put_gold(store, name, questions)
        finally:
            is_stored = ragtrace.shutdown(timeout=_FLUSH_SECONDS)
        unstored = 0 if is_stored else len(_unstored(store, run, tally.asked))
        left = None
        if analyze:
            left = finish(store, progress.analyzed if progress else _no_progress, load().low_score)
    return ReplaySummary(
        run=run,
        service=name,
        store=store.url,
        questions=len(questions),
        skipped=len(questions) - len(tasks),
        answered=len(tally.asked) - len(tally.failures),
        failed=len(tally.failures),
        repeated=tally.repeated,
        not_asked=len(tasks) - len(tally.asked),
        failures=tally.failures,
        has_versions=tally.has_versions or not tally.asked,
        hidden=hidden,
        unstored=unstored,
        unanalyzed=left,
        seconds=time.perf_counter() - started,
    )


def _no_progress(done: int, of: int) -> None:
    """Nobody watches."""


def _load_function(pipeline: str, settings: dict[str, Any]) -> Pipeline:
    """The application's function, with a recorder that has these settings, its own or ours."""
    function = load_pipeline(pipeline)
    recorder = active()
    if recorder is None or any(getattr(recorder.config, name) != value for name, value in settings.items()):
        ragtrace.configure()
    ragtrace.flush(_FLUSH_SECONDS)  # what a killed run has left in the spool is in the store then
    return function


def _service() -> str:
    recorder = active()
    assert recorder is not None
    return recorder.config.service


def _hidden_content() -> tuple[str, ...]:
    recorder = active()
    capture = recorder.config.capture_content if recorder is not None else Capture()
    return tuple(field for field in _NEEDED if getattr(capture, field) in ("off", "hash"))


def _put_gold(store: Store, service: str, questions: Iterable[Question]) -> None:
    store.put_gold(question.as_gold(service) for question in questions if question.says_what_is_needed)


def _open_tasks(
    run: str, store_url: str, known: Mapping[str, Replayed], questions: Sequence[Question], again: Again
) -> list[_Task]:
    """What is to be asked. A run holds no question that the file has not."""
    strange = sorted(known.keys() - {question.id for question in questions})
    if known and again == "no":
        raise ConfigurationError(
            f"run {run!r} is in store {store_url} already, with {len(known)} questions; go on with it (--resume), ask "
            "all again (--restart), or give another --name"
        )
    if strange:
        raise ConfigurationError(
            f"run {run!r} holds {len(strange)} questions that are not in the file ({', '.join(strange[:3])} ...); give "
            "another --name"
        )
    tasks = [_Task(question, known[question.id].attempt + 1 if question.id in known else 1) for question in questions]
    if again == "restart":
        return tasks
    return [task for task in tasks if task.attempt == 1 or known[task.question.id].status != "ok"]


@dataclass(slots=True)
class _ReplayTally:
    """What came of the questions that were asked."""

    asked: list[str]
    failures: dict[str, str]
    service: str | None = None
    repeated: int = 0
    stages: int = 0
    has_versions: bool = False

    def add(self, asked: _AskedQuestion) -> None:
        """Count one."""
        self.asked.append(asked.question.id)
        self.service = asked.service
        if asked.failure is not None:
            self.failures[asked.question.id] = asked.failure
        self.repeated += asked.attempts > 1
        self.stages += asked.stages
        self.has_versions |= asked.has_versions

    @property
    def is_hopeless(self) -> bool:
        """Whether the first questions have all failed."""
        return len(self.failures) == len(self.asked) >= _GIVE_UP

    def has_no_stage(self, *, at_end: bool) -> bool:
        """Whether questions were answered and nothing of how was recorded."""
        answered = len(self.asked) - len(self.failures)
        return not self.stages and answered >= (1 if at_end else _NO_STAGE)


def _ask_and_tally(
    tasks: Sequence[_Task],
    function: Pipeline,
    settings: _ReplaySettings,
    pipeline: str,
    known: Mapping[str, Replayed],
    progress: Progress | None,
) -> _ReplayTally:
    tally = _ReplayTally([], {})
    services = {row.service for row in known.values()}
    for asked in _ask_all(tasks, function, settings):
        tally.add(asked)
        if services - {asked.service}:
            raise ConfigurationError(
                f"run {settings.run!r} is one of service {min(services - {asked.service})!r}, not of "
                f"{asked.service!r}; give another --name"
            )
        services.add(asked.service)
        if progress is not None:
            progress.asked(len(tally.asked), len(tasks), len(tally.failures))
        if tally.has_no_stage(at_end=len(tally.asked) == len(tasks)):
            raise ConfigurationError(
                f"pipeline {pipeline!r} answered {len(tally.asked)} and recorded no stage; decorate its functions "
                "(@ragtrace.retrieve, @ragtrace.generate ...) or call ragtrace.instrument(...), then --restart"
            )
        if tally.is_hopeless:
            break
    return tally


def _unstored(store: Store, run: str, asked: Iterable[str]) -> set[str]:
    return set(asked) - {row.question for row in store.replayed(run)}


@dataclass(frozen=True, slots=True)
class _ReplaySettings:
    """How a replay asks. backoff: seconds before the first repetition, doubled with each further one."""

    run: str
    concurrency: int = 1
    retries: int = 2
    timeout: float | None = None
    backoff: float = 1.0


@dataclass(frozen=True, slots=True)
class _Task:
    """A question, and the number of its next attempt, from 1."""

    question: Question
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class _AskedQuestion:
    """How a question went. failure: of the last attempt; stages: how many runs of stages that one recorded."""

    question: Question
    service: str
    attempts: int
    failure: str | None
    stages: int
    has_versions: bool


def _ask_all(tasks: Sequence[_Task], pipeline: Pipeline, settings: _ReplaySettings) -> Iterator[_AskedQuestion]:
    """Ask every question, and give each when it is through. Leaving the loop stops it: what runs then is not awaited.

    One at a time, questions are asked in the caller's own thread, since not every pipeline may be used from another.
    So is the first one always: an application that configures itself when it is asked does it once then.
    """
    stop = threading.Event()
    with EventLoop() as loop:
        try:
            alone = tasks if settings.concurrency == 1 else tasks[:1]
            caller = Caller(pipeline, loop, settings.timeout)
            for task in alone:
                yield _ask_until_answered(task, caller, settings, stop.wait)
            yield from _ask_together(tasks[len(alone) :], pipeline, settings, loop, stop)
        finally:
            stop.set()


def _ask_together(
    tasks: Sequence[_Task], pipeline: Pipeline, settings: _ReplaySettings, loop: EventLoop, stop: threading.Event
) -> Iterator[_AskedQuestion]:
    left = deque(tasks)
    through: queue.SimpleQueue[_AskedQuestion | BaseException] = queue.SimpleQueue()

    def work() -> None:
        caller = Caller(pipeline, loop, settings.timeout)
        while not stop.is_set():
            try:
                task = left.popleft()
            except IndexError:
                return
            try:
                through.put(_ask_until_answered(task, caller, settings, stop.wait))
            except BaseException as error:
                through.put(error)

    for number in range(min(settings.concurrency, len(tasks))):
        threading.Thread(target=work, name=f"ragtrace-replay-{number}", daemon=True).start()
    for _ in tasks:
        asked = through.get()
        if isinstance(asked, BaseException):
            raise asked
        yield asked


def _ask_until_answered(
    task: _Task, caller: Caller, settings: _ReplaySettings, wait: Callable[[float], bool]
) -> _AskedQuestion:
    """Ask until an attempt does not fail, or no repetition is left, or `wait` says that all ends."""
    for number in range(settings.retries + 1):
        asked = _attempt_recorded(task, number, caller, settings)
        if asked.failure is None or number == settings.retries:
            break
        if wait(min(settings.backoff * 2**number, _LONGEST_WAIT)):
            break
    return asked


def _attempt_recorded(task: _Task, number: int, caller: Caller, settings: _ReplaySettings) -> _AskedQuestion:
    """An attempt in which the recording stayed what it was. Many applications configure themselves, and load their
    models, when they are first asked: what they did until then is not recorded, and the question is asked again."""
    for _ in range(_SETTLE):
        asked = _attempt(task, number, caller, settings)
        if asked is not None:
            return asked
    raise ConfigurationError("the pipeline calls ragtrace.configure() each time it is asked; call it once")


def _attempt(task: _Task, number: int, caller: Caller, settings: _ReplaySettings) -> _AskedQuestion | None:
    """One request: ours is the root, and one that the pipeline opens is a part of it. None: it is not recorded, since
    recording began anew in between."""
    if active() is None:  # the pipeline has called ragtrace.shutdown()
        ragtrace.configure()
    question, recording, failure, stages = task.question, None, None, 0
    try:
        with ragtrace.request(
            query=question.text, segment=question.segment, session_id=question.session, name=f"replay {settings.run}"
        ) as request:
            request.set(attributes=_attributes(settings.run, question, task.attempt + number))
            recording = _current_request()
            if recording is not None:
                try:
                    _call(caller, question, recording)
                finally:
                    stages = sum(isinstance(part, StageRecording) for part in recording.parts)
    except Exception as error:
        failure = _one_line(error)
    if recording is None:
        raise ConfigurationError("the replay cannot record; see what ragtrace logged, and run `ragtrace doctor`")
    if recording.recorder is not active():
        return None
    return _AskedQuestion(question, recording.service, number + 1, failure, stages, bool(recording.versions))


def _one_line(error: Exception) -> str:
    """An exception in one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:_LONGEST_MESSAGE]}" if words else type(error).__name__


def _attributes(run: str, question: Question, attempt: int) -> dict[str, Any]:
    attributes = {_RUN: run, _QUESTION: question.id, _ATTEMPT: attempt}
    return attributes if question.document is None else {**attributes, _DOCUMENT: question.document}


def _current_request() -> RequestRecording | None:
    recorder = active()
    return None if recorder is None else current_recording(recorder)


def _call(caller: Caller, question: Question, recording: RequestRecording) -> None:
    """Ask; what was answered is on disk when this returns. A question that Ctrl-C interrupts is not recorded."""
    recording.is_durable = True
    try:
        caller(question.text)
    except KeyboardInterrupt:
        recording.abandon()
        raise
    except SystemExit as error:
        raise RuntimeError(f"the pipeline ended the program (exit code {error.code})") from error
    finally:
        if recording.recorder is not active():
            recording.abandon()


@contextmanager
def hold_run(store: Store, run: str, seconds: float = _LEASE_SECONDS) -> Iterator[None]:
    """Hold the name of a run in a store.

    A lock of this machine keeps its other processes out, and ends with its process, so that a replay that was killed
    goes on at once. A lease in the store, which belongs to the machine, keeps other machines out.
    Raises: ConfigurationError while another process replays the name; StoreError.
    """
    with _locked(store, run):
        name, owner = f"replay {run}", f"{socket.gethostname()} {uuid.getnode():x} {os.getuid()}"
        if not store.acquire(name, owner, seconds):
            raise ConfigurationError(
                f"{_held_message(store, run)} (a machine that was stopped lets go after {seconds:g} s)"
            )

        def prolong() -> bool:
            if not store.acquire(name, owner, seconds):
                taken = "another machine has taken %s, as this one stood still; let one of the two be the last"
                _LOG.warning(taken, name)
            return True

        try:
            with Heartbeat(name, seconds, prolong):
                yield
        finally:
            with contextlib.suppress(StoreError):  # it runs out by itself
                store.release(name, owner)


@contextmanager
def _locked(store: Store, run: str) -> Iterator[None]:
    address = Address.parse(store.url)
    place = address.file.resolve() if address.is_sqlite else address.url
    key = hashlib.sha256(f"{place}\n{run}".encode()).hexdigest()[:32]
    file = Path(tempfile.gettempdir()) / f"ragtrace-replay-{os.getuid()}-{key}.lock"
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(_held_message(store, run)) from error
        yield  # the empty file stays: who removed it could remove the one that another process has just locked


def _held_message(store: Store, run: str) -> str:
    return (
        f"run {run!r} is being replayed into store {store.url} by another process; wait for it, or give another --name"
    )
