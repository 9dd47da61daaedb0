"""Workers in this process: one in the caller's own thread, several in threads of their own."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from ragtrace.analyze.executors.crew import watch
from ragtrace.analyze.executors.states import State, report
from ragtrace.analyze.executors.work import OnProgress, Stop, Work, do
from ragtrace.analyze.worker import WorkSummary

__all__ = ["ThreadExecutor"]


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
