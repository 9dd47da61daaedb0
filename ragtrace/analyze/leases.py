"""Keeps the leases of jobs while something runs that takes longer than a lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ragtrace.errors import StoreError
from ragtrace.store import Job, Store

__all__ = ["holding"]

_log = logging.getLogger("ragtrace.analyze")


@contextmanager
def holding(store: Store, jobs: Sequence[Job], lease_seconds: float) -> Iterator[None]:
    """Prolong the leases from a thread of its own while it lasts: a model answers when it is done, not before."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(lease_seconds / 3):
            try:
                if not store.heartbeat(jobs, lease_seconds):
                    return
            except StoreError as error:
                _log.warning("the leases of %d requests could not be prolonged: %s", len(jobs), error)

    thread = threading.Thread(target=beat, name="ragtrace-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
