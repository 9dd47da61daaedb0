"""Works the queue until all of it is through, beside whatever other workers there are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ragtrace.analyze import worker
from ragtrace.store import Store

__all__ = ["finish"]

_PATIENCE: Final = 90.0  # seconds: a lease of 60, and some more


def finish(
    store: Store, on_progress: Callable[[int, int], object] = lambda done, of: None, low_score: float | None = None
) -> int:
    """Analyze until no job is pending or leased, dead workers' leases included; give how many are left.

    on_progress: gets how many of the jobs that waited at the start are through, and how many they were. Nothing is
    waited for that does not move for the time of a lease.
    """
    left = waiting = _waiting(store)
    moved_at = time.monotonic()
    while left and time.monotonic() < moved_at + _PATIENCE:
        worker.run(store, limit=16, low_score=low_score)
        now = _waiting(store)
        on_progress(max(0, waiting - now), waiting)
        if now != left:
            left, moved_at = now, time.monotonic()
        else:
            time.sleep(0.05)  # another worker has the rest, or it is put off after a failure
    return left


def _waiting(store: Store) -> int:
    depth = store.queue_depth()
    return depth.get("pending", 0) + depth.get("leased", 0)
