"""An analyzer beside the pipeline: a worker process of its own, as in production, and the waiting for its end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ragtrace.analyze.worker import finish
from ragtrace.store import Store

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["finish_analysis", "worker_process"]

_STOP_SECONDS: Final = 30.0


@contextmanager
def worker_process(store_url: str) -> Iterator[None]:
    """`ragtrace analyze --follow` runs inside of the block. The URL goes by environment: it may hold a password."""
    command = [sys.executable, "-m", "ragtrace", "analyze", "--follow"]
    silent = subprocess.DEVNULL
    environment = {**os.environ, "RAGTRACE_STORE": store_url}
    process = subprocess.Popen(command, env=environment, stdin=silent, stdout=silent, stderr=silent)
    try:
        yield
    finally:
        process.terminate()  # it commits the batch at hand first
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def finish_analysis(store: Store, bar: Progress) -> None:
    """Help the other worker until no job of the queue is pending or leased, dead workers' leases included."""
    task = bar.add_task("analyzing", total=None)
    finish(store, lambda done, of: bar.update(task, description=f"analyzing {of} requests", completed=done, total=of))
