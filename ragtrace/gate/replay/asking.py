"""Asks the questions of a replay: each attempt is one recorded request, and what fails is asked again."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ragtrace
from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay.pipelines import Caller, EventLoop, Pipeline
from ragtrace.gate.replay.questions import Question
from ragtrace.record import active
from ragtrace.record.requests import RequestRecording, current_recording
from ragtrace.record.stages import StageRecording

__all__ = ["ATTEMPT", "DOCUMENT", "QUESTION", "RUN", "Asked", "Settings", "Task", "ask_all"]

RUN: Final = "ragtrace.replay.run"
QUESTION: Final = "ragtrace.replay.question"
ATTEMPT: Final = "ragtrace.replay.attempt"
DOCUMENT: Final = "ragtrace.replay.document"

_LONGEST_WAIT: Final = 30.0
_SETTLE: Final = 3
_LONGEST: Final = 300  # characters of an exception's message


@dataclass(frozen=True, slots=True)
class Settings:
    """How a replay asks. backoff: seconds before the first repetition, doubled with each further one."""

    run: str
    concurrency: int = 1
    retries: int = 2
    timeout: float | None = None
    backoff: float = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """A question, and the number of its next attempt, from 1."""

    question: Question
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """How a question went. failure: of the last attempt; stages: how many runs of stages that one recorded."""

    question: Question
    service: str
    attempts: int
    failure: str | None
    stages: int
    has_versions: bool


def ask_all(tasks: Sequence[Task], pipeline: Pipeline, settings: Settings) -> Iterator[Asked]:
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
                yield _ask(task, caller, settings, stop.wait)
            yield from _ask_together(tasks[len(alone) :], pipeline, settings, loop, stop)
        finally:
            stop.set()


def _ask_together(
    tasks: Sequence[Task], pipeline: Pipeline, settings: Settings, loop: EventLoop, stop: threading.Event
) -> Iterator[Asked]:
    left = deque(tasks)
    through: queue.SimpleQueue[Asked | BaseException] = queue.SimpleQueue()

    def work() -> None:
        caller = Caller(pipeline, loop, settings.timeout)
        while not stop.is_set():
            try:
                task = left.popleft()
            except IndexError:
                return
            try:
                through.put(_ask(task, caller, settings, stop.wait))
            except BaseException as error:
                through.put(error)

    for number in range(min(settings.concurrency, len(tasks))):
        threading.Thread(target=work, name=f"ragtrace-replay-{number}", daemon=True).start()
    for _ in tasks:
        asked = through.get()
        if isinstance(asked, BaseException):
            raise asked
        yield asked


def _ask(task: Task, caller: Caller, settings: Settings, wait: Callable[[float], bool]) -> Asked:
    """Ask until an attempt does not fail, or no repetition is left, or `wait` says that all ends."""
    for number in range(settings.retries + 1):
        asked = _settled(task, number, caller, settings)
        if asked.failure is None or number == settings.retries:
            break
        if wait(min(settings.backoff * 2**number, _LONGEST_WAIT)):
            break
    return asked


def _settled(task: Task, number: int, caller: Caller, settings: Settings) -> Asked:
    """An attempt in which the recording stayed what it was. Many applications configure themselves, and load their
    models, when they are first asked: what they did until then is not recorded, and the question is asked again."""
    for _ in range(_SETTLE):
        asked = _attempt(task, number, caller, settings)
        if asked is not None:
            return asked
    raise ConfigurationError("the pipeline calls ragtrace.configure() each time it is asked; call it once")


def _attempt(task: Task, number: int, caller: Caller, settings: Settings) -> Asked | None:
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
            recording = _current()
            if recording is not None:
                try:
                    _call(caller, question, recording)
                finally:
                    stages = sum(isinstance(part, StageRecording) for part in recording.parts)
    except Exception as error:
        failure = _said(error)
    if recording is None:
        raise ConfigurationError("the replay cannot record; see what ragtrace logged, and run `ragtrace doctor`")
    if recording.recorder is not active():
        return None
    return Asked(question, recording.service, number + 1, failure, stages, bool(recording.versions))


def _said(error: Exception) -> str:
    """An exception in one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:_LONGEST]}" if words else type(error).__name__


def _attributes(run: str, question: Question, attempt: int) -> dict[str, Any]:
    said = {RUN: run, QUESTION: question.id, ATTEMPT: attempt}
    return said if question.document is None else {**said, DOCUMENT: question.document}


def _current() -> RequestRecording | None:
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
