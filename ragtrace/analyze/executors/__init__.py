"""Executors of workers: in this process, in processes of their own, or as actors of Ray, behind one interface."""

from __future__ import annotations

from typing import Final, Protocol

from ragtrace.analyze.executors._work import OnProgress, Stop, Work
from ragtrace.analyze.executors._workers import ProcessExecutor, RayExecutor, ThreadExecutor
from ragtrace.analyze.worker import WorkSummary
from ragtrace.errors import ConfigurationError

__all__ = ["EXECUTORS", "Executor", "ProcessExecutor", "RayExecutor", "ThreadExecutor", "Work", "executor_of"]

EXECUTORS: Final = ("thread", "processes", "ray")


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
