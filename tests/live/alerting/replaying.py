"""Replays requests of the demo, with their real analyses, as services that are healthy, break, and are mended."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ragtrace.analyze._totals import analysis_deltas
from ragtrace.demo._corpus import DocumentSection, Question, load_corpus, load_questions
from ragtrace.demo._faults import SCENARIOS
from ragtrace.demo.runner import SERVICE, run
from ragtrace.store import Finished, Store
from ragtrace.types import Analysis, RequestRecord, Stage, replace

__all__ = ["HEALTHY", "Course", "Recorded", "Recording", "Replay", "broken_share", "by_scenario"]

HEALTHY = "healthy"
PRODUCTS = ("business", "motor")  # two of the demo's four: embedding their wordings takes half as long
ROUNDS_PER_SECOND = 2.0  # requests of each segment of each service
MOST_AT_ONCE = 5  # rounds, on a machine that does not keep up
TICK_SECONDS = 0.5


class Recorded(NamedTuple):
    """A request of the demo and its analysis."""

    record: RequestRecord
    analysis: Analysis


Recording: TypeAlias = Mapping[str, list[Recorded]]


class Course(NamedTuple):
    """What a service answers while it is well, and while it is broken, by segment."""

    healthy: Recording
    broken: Recording


def by_scenario(folder: Path) -> dict[str, Recording]:
    """Run the demo's four scenarios; the requests of each by segment, in the order in which they were asked."""
    questions, chunks = _part()
    url = f"sqlite:///{folder / 'demo.db'}"
    run(store_url=url, questions=questions, chunks=chunks)
    with Store.open(url) as store:
        rows = list(store.analyses(service=SERVICE))
        records = store.get_records(row.request_id for row, _ in rows)
    assert len(rows) == len(SCENARIOS) * len(questions)
    found: dict[str, Recording] = {}
    for number, scenario in enumerate(SCENARIOS):
        by_segment: dict[str, list[Recorded]] = {}
        for row, analysis in rows[number * len(questions) : (number + 1) * len(questions)]:
            record = replace(records[row.request_id], flags=())  # those that its analysis earned come after the queue
            by_segment.setdefault(row.segment, []).append(Recorded(record, analysis))
        found[scenario.name] = by_segment
    return found


def _part() -> tuple[list[Question], list[DocumentSection]]:
    chunks = [chunk for chunk in load_corpus().chunks if chunk.document.code in PRODUCTS]
    kept = {chunk.chunk_id for chunk in chunks}
    return [question for question in load_questions() if set(question.chunk_ids) <= kept], chunks


def broken_share(recorded: Sequence[Recorded], stage: Stage) -> float:
    """The share of requests that broke first in a stage."""
    return [each.analysis.diagnosis.stage for each in recorded].count(stage) / len(recorded)


class Replay:
    """Services by their names, each on its course: broken from `break_` to `mend`, well before and after.

    Requests are written and their results committed as a worker does it, with the times of now: as many as the time
    that has passed asks for, so that the pace is that of the clock and not that of the machine.
    """

    def __init__(self, store: Store, services: Mapping[str, Course]) -> None:
        self._store = store
        self._services = services
        self._is_broken = False
        self._rounds = itertools.count()
        self._written_until = time.monotonic() - 1.0
        self._fill()

    def break_(self) -> None:
        """Roll every fault out."""
        self._is_broken = True

    def mend(self) -> None:
        """Roll the faults back."""
        self._is_broken = False

    def go_on(self, until: Callable[[], bool], deadline_seconds: float) -> bool:
        """Serve requests until something holds; whether it did within the deadline."""
        deadline = time.monotonic() + deadline_seconds
        while not (held := until()) and time.monotonic() < deadline:
            self._fill()
            time.sleep(TICK_SECONDS)
        return held

    def _fill(self) -> None:
        """Write the rounds that are due, and commit their results."""
        now = time.monotonic()
        due = int((now - self._written_until) * ROUNDS_PER_SECOND)
        if due == 0:
            return
        late = due > MOST_AT_ONCE
        self._written_until = now if late else self._written_until + due / ROUNDS_PER_SECOND
        new = [
            each for number in itertools.islice(self._rounds, min(due, MOST_AT_ONCE)) for each in self._round(number)
        ]
        self._store.write([each.record for each in new])
        by_id = {each.record.request_id: each for each in new}
        jobs = self._store.claim("replay", limit=len(new))
        done = [(job, by_id[job.request_id]) for job in jobs]
        counted = time.time_ns()
        finished = [Finished(job, each.analysis, analysis_deltas(*each, now=counted)) for job, each in done]
        assert self._store.finish(finished) == len(new)

    def _round(self, number: int) -> Iterator[Recorded]:
        """A request of each segment of each service."""
        for service, course in self._services.items():
            for requests in (course.broken if self._is_broken else course.healthy).values():
                yield _again(requests[number % len(requests)], service)


def _again(recorded: Recorded, service: str) -> Recorded:
    """The same request once more, now, at another service."""
    request_id, now = uuid.uuid4().hex, time.time_ns()
    took = recorded.record.duration_ns
    record = replace(recorded.record, request_id=request_id, service=service, started_at=now - took, ended_at=now)
    return Recorded(record, replace(recorded.analysis, request_id=request_id, computed_at=now))
