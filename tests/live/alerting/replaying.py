"""Replays requests of the demo, with their real analyses, as services that are healthy, break, and are mended."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ragtrace.analyze.counting import analysis_deltas
from ragtrace.demo.corpus import Chunk, Question, load_corpus, load_questions
from ragtrace.demo.faults import SCENARIOS
from ragtrace.demo.runner import SERVICE, run
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import Finished, Store
from ragtrace.types import Analysis, RequestRecord, replace

__all__ = ["HEALTHY", "Recorded", "Replay", "bad_share", "by_scenario"]

HEALTHY = "healthy"
PRODUCTS = ("business", "motor")  # two of the demo's four: embedding their wordings takes half as long
ROUNDS_PER_SECOND = 2.0  # requests of each segment of each service
MOST_AT_ONCE = 5  # rounds, on a machine that does not keep up
TICK_SECONDS = 0.5


class Recorded(NamedTuple):
    """A request of the demo and its analysis."""

    record: RequestRecord
    analysis: Analysis


Recording: TypeAlias = Mapping[str, Sequence[Recorded]]


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
            by_segment.setdefault(row.segment, []).append(Recorded(records[row.request_id], analysis))
        found[scenario.name] = by_segment
    return found


def _part() -> tuple[list[Question], list[Chunk]]:
    chunks = [chunk for chunk in load_corpus().chunks if chunk.document.code in PRODUCTS]
    kept = {chunk.chunk_id for chunk in chunks}
    return [question for question in load_questions() if set(question.chunk_ids) <= kept], chunks


def bad_share(recorded: Sequence[Recorded], metric: str) -> float:
    """The share of requests that miss the objective of a metric, of those in which it is defined."""
    objective = INSTRUMENTS[metric].objective
    assert objective is not None
    values = [score.value for each in recorded for score in each.analysis.scores if score.metric == metric]
    judged = [objective.met(value) for value in values if value is not None]
    return judged.count(False) / len(judged)


class Replay:
    """One service for each scenario, named by it. Until `break_` and after `mend` all of them answer healthily.

    Requests are written and their results committed as a worker does it, with the times of now: as many as the time
    that has passed asks for, so that the pace is that of the clock and not that of the machine.
    """

    def __init__(self, store: Store, recordings: Mapping[str, Recording]) -> None:
        self._store = store
        self._recordings = recordings
        self._is_broken = False
        self._rounds = itertools.count()
        self._written_until = time.monotonic() - 1.0
        self._fill()

    def break_(self) -> None:
        """Roll every fault out, each to its own service."""
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
        for service in self._recordings:
            recording = self._recordings[service if self._is_broken else HEALTHY]
            for requests in recording.values():
                yield _again(requests[number % len(requests)], service)


def _again(recorded: Recorded, service: str) -> Recorded:
    """The same request once more, now, at another service."""
    request_id, now = uuid.uuid4().hex, time.time_ns()
    took = recorded.record.duration_ns
    record = replace(
        recorded.record, request_id=request_id, service=service, started_at=now - took, ended_at=now, flags=()
    )
    return Recorded(record, replace(recorded.analysis, request_id=request_id, computed_at=now))
