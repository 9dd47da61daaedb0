"""How far a worker is, and telling it while the work is done."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ragtrace.analyze.executors.work import Stop, Work, do
from ragtrace.analyze.worker import WorkSummary
from ragtrace.errors import RagtraceError, WorkerError

__all__ = ["State", "Tell", "report", "sendable"]

_log = logging.getLogger("ragtrace.analyze")


@dataclass(frozen=True, slots=True)
class State:
    """Whether a worker has begun to work, and whether it works no more.

    error: why it ended too soon. is_gone: its process ended and said nothing.
    """

    has_begun: bool = False
    is_over: bool = False
    is_gone: bool = False
    summary: WorkSummary = field(default_factory=WorkSummary)
    error: Exception | None = None


Tell: TypeAlias = Callable[[State], None]


def report(work: Work, owner: str, tell: Tell, stop: Stop) -> None:
    """Do the work and tell each state, the last one also where the work fails."""
    state = State()

    def note(summary: WorkSummary) -> None:
        nonlocal state
        state = State(has_begun=True, summary=replace(summary))
        tell(state)

    try:
        summary = do(work, owner=owner, on_start=lambda: note(WorkSummary()), on_progress=note, stop=stop)
        tell(State(has_begun=True, is_over=True, summary=summary))
    except Exception as error:  # it is raised where the workers are watched
        tell(replace(state, is_over=True, error=error))


def sendable(state: State) -> State:
    """The state with an error that another process can read; what nobody expected is logged here with its traceback."""
    error = state.error
    if error is None or isinstance(error, WorkerError):
        return state
    if isinstance(error, RagtraceError):
        return replace(state, error=WorkerError(str(error)))
    _log.error("a worker of the analyzer fails", exc_info=error)
    return replace(state, error=WorkerError(f"{type(error).__name__}: {error}"))
