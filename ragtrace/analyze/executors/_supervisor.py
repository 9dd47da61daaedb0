"""The supervisor of several workers: it replaces those that end before their time, adds up what they did, tells them to
stop.

A worker that cannot begin ends the whole: its model or its store would fail the next one as well. One that fails later,
or whose process is gone, is replaced, after a pause that doubles, up to RESTARTS times within a minute. What it had
leased is freed at once; should it live on somewhere, cut off, the fence refuses its results.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

from ragtrace.analyze.executors._work import OnProgress, State, Stop, Work
from ragtrace.analyze.worker import WorkSummary
from ragtrace.errors import StoreError, WorkerError
from ragtrace.store import Store

__all__ = ["RESTARTS", "Start", "Worker", "watch"]

RESTARTS: Final = 5  # of one worker, within a minute
_MINUTE: Final = 60.0
_LOOK: Final = 0.1

_log = logging.getLogger("ragtrace.analyze")


class Worker(Protocol):
    """One worker that runs beside the caller."""

    def state(self) -> State:
        """Its state now; never waits."""

    def stop(self) -> None:
        """Ask it to commit what is at hand and to end."""

    def kill(self) -> None:
        """End it at once, if it can be ended, and give back what it took."""


Start: TypeAlias = Callable[[int, Work, str], Worker]
"""Starts the worker of this number, for this work, as this owner of leases."""


def watch(
    start: Start,
    work: Work,
    workers: int,
    *,
    replaces: bool = True,
    on_progress: OnProgress | None = None,
    stop: Stop | None = None,
) -> WorkSummary:
    """Have so many workers do the work, and return what all of them did. replaces: whether one that fails is replaced.

    Raises: WorkerError, or the worker's own error, when one cannot start or fails for good. The others commit what they
    have at hand first.
    """
    crew = _Crew(start, work, workers, replaces)
    try:
        crew.run(on_progress, stop)
    finally:
        crew.kill()
    return crew.summary


class _Place:
    """A worker and those that took its place: what they did, and how often it had to be filled anew."""

    def __init__(self, number: int, limit: int | None) -> None:
        self.number = number
        self.limit = limit
        self.worker: Worker | None = None
        self.owner = ""
        self.state = State()
        self.before = WorkSummary()
        self.has_begun = False  # one of them did
        self.starts_at: float | None = 0.0
        self.ends: deque[float] = deque(maxlen=RESTARTS + 1)

    @property
    def summary(self) -> WorkSummary:
        return _sum(self.before, self.state.summary)

    @property
    def left(self) -> int | None:
        """How many jobs it may still do; None without a limit."""
        return None if self.limit is None else self.limit - self.summary.done - self.summary.failed

    @property
    def is_free(self) -> bool:
        """Whether nobody works here, and nobody is about to."""
        return self.worker is None and self.starts_at is None

    def pause(self, now: float) -> float | None:
        """How long to wait before the next one starts; None when too many have ended."""
        self.ends.append(now)
        lately = sum(now - at < _MINUTE for at in self.ends)
        return None if lately > RESTARTS else 0.0 if lately == 1 else 2.0 ** (lately - 2)


class _Crew:
    def __init__(self, start: Start, work: Work, workers: int, replaces: bool) -> None:
        self._start = start
        self._work = work
        self._replaces = replaces
        self._name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._started = 0
        self._stopping = False
        self._gone: list[str] = []  # owners that ended without finishing their jobs
        self._places = [_Place(number, limit) for number, limit in enumerate(_shares(work.settings.limit, workers))]

    @property
    def summary(self) -> WorkSummary:
        return _sum(*(place.summary for place in self._places))

    def run(self, on_progress: OnProgress | None, stop: Stop | None) -> None:
        """Until all have ended."""
        told = WorkSummary()
        try:
            while not all(place.is_free for place in self._places) or self._resumes():
                if stop is not None and stop():
                    self._stop()
                for place in self._places:
                    self._look(place)
                if on_progress is not None and self.summary != told:
                    told = self.summary
                    on_progress(told)
                time.sleep(_LOOK)
        except Exception:
            self._wind_up()
            raise

    def kill(self) -> None:
        """End those that are left."""
        for place in self._places:
            if place.worker is not None:
                place.worker.kill()
                place.worker = None
                self._gone.append(place.owner)
        self._release()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            for place in self._places:
                place.starts_at = None
                if place.worker is not None:
                    place.worker.stop()

    def _look(self, place: _Place) -> None:
        if place.starts_at is not None and time.monotonic() >= place.starts_at:
            self._fill(place)
        if place.worker is None:
            return
        place.state = place.worker.state()
        place.has_begun |= place.state.has_begun
        if not place.state.is_over:
            return
        place.worker.kill()
        place.worker = None
        if place.state.error is not None:
            self._gone.append(place.owner)
            if not self._stopping:
                self._replace(place, place.state.error)

    def _fill(self, place: _Place) -> None:
        place.before, place.state, place.starts_at = place.summary, State(), None
        self._started += 1
        place.owner = f"{self._name}.{self._started}"
        settings = replace(self._work.settings, limit=place.left)
        place.worker = self._start(place.number, replace(self._work, settings=settings), place.owner)

    def _replace(self, place: _Place, error: Exception) -> None:
        if not (self._replaces and (place.has_begun or place.state.is_gone)):
            raise error
        self._release()
        pause = place.pause(time.monotonic())
        if pause is None:
            raise WorkerError(
                f"worker {place.number} ended more than {RESTARTS} times within a minute: {error}"
            ) from error
        _log.warning("worker %d of the analyzer is replaced: %s", place.number, error)
        if place.left != 0:
            place.starts_at = time.monotonic() + pause

    def _resumes(self) -> bool:
        """Whether jobs came free, when all had ended, that the last transaction of a worker that is gone still held."""
        if self._stopping or not self._gone or not self._release():
            return False
        place = next((each for each in self._places if each.left != 0), None)
        if place is not None:
            place.starts_at = 0.0
        return place is not None

    def _release(self) -> int:
        """Free what the workers that are gone had leased."""
        if not self._gone:
            return 0
        try:
            with Store.open(self._work.store) as store:
                return sum(store.release_jobs(owner) for owner in self._gone)
        except StoreError as error:
            _log.warning("jobs of workers that ended are free when their leases run out: %s", error)
            return 0

    def _wind_up(self) -> None:
        """Let those that work commit what they have at hand."""
        self._stopping = True
        for place in self._places:
            place.starts_at = None
            if place.worker is not None and place.state.has_begun:
                place.worker.stop()
        while busy := [place for place in self._places if place.worker is not None and place.state.has_begun]:
            for place in busy:
                self._look(place)
            time.sleep(_LOOK)


def _shares(limit: int | None, workers: int) -> list[int | None]:
    """How many jobs each may do."""
    if limit is None:
        return [None] * workers
    share, more = divmod(limit, workers)
    return [share + (number < more) for number in range(min(limit, workers))]


def _sum(*parts: WorkSummary) -> WorkSummary:
    return WorkSummary(
        done=sum(each.done for each in parts),
        failed=sum(each.failed for each in parts),
        lost=sum(each.lost for each in parts),
    )
