"""Requests of a service that never ran: analyzed, with faults of known stages in known hours, for triage to find."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ragtrace.analyze.diagnosis import diagnose
from ragtrace.coverage import ANALYZER_VERSION
from ragtrace.store import Finished, Release, Store
from ragtrace.types import Analysis, Candidate, Diagnosis, Query, Reference, RequestRecord, RetrieveRun, Score, Stage

__all__ = ["MINUTE", "SERVICE", "Break", "Traffic", "store_traffic"]

MINUTE: Final = 60_000_000_000
SERVICE: Final = "assistant"
_GOOD: Final[dict[str, float]] = {
    "query_coverage": 1.0, "joint_query_coverage": 1.0, "candidate_recall": 1.0, "evidence_recall": 1.0,
    "evidence_overlap": 0.2, "evidence_precision": 0.2, "rank_shift": 1.0, "truncated_tokens": 0.0,
    "answer_coverage": 1.0, "contradiction_rate": 0.0, "citation_coverage": 1.0, "citation_precision": 1.0,
    "citation_recall": 1.0, "dangling_citations": 0.0,
}  # fmt: skip
_BAD: Final[dict[Stage, dict[str, float]]] = {
    "retrieval": {"query_coverage": 0.5, "joint_query_coverage": 0.5, "candidate_recall": 0.0, "evidence_recall": 0.0},
    "ranking": {"evidence_recall": 0.5, "rank_shift": 12.0},
    "generation": {"answer_coverage": 0.4, "contradiction_rate": 0.5},
    "citation": {"citation_coverage": 0.2},
}
_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Break:
    """A stage that breaks this share of the requests from `since` on (a share of the traffic's span), by a release of
    `component`; None: by nothing that was rolled out. segment: None for all."""

    stage: Stage
    share: float
    since: float
    until: float = 1.0
    component: str | None = None
    segment: str | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """`count` requests, evenly between `start` and `end` (nanoseconds), a `noise` of each stage broken at all times."""

    count: int
    start: int
    end: int
    breaks: Sequence[Break] = ()
    segments: Sequence[str] = ("limit", "deadline", "exception")
    noise: float = 0.0
    reference: Reference = "proxy"
    undefined: Sequence[str] = ()
    tenants: int = 5
    flagged: float = 0.0
    candidates: int = 3
    versions: Mapping[str, str] = field(
        default_factory=lambda: {"index": "i-1", "reranker": "r-1", "packer": "p-1", "model": "m-1"}
    )
    seed: int = 0

    def requests(self) -> Iterator[tuple[RequestRecord, Stage | None]]:
        """Each request, oldest first, and the stage that breaks in it."""
        chance = random.Random(self.seed)
        for number in range(self.count):
            place = number / self.count
            segment = self.segments[number % len(self.segments)]
            at = self.start + int(place * (self.end - self.start))
            versions, broken = dict(self.versions), self._noise(chance)
            for each in self.breaks:
                if each.since <= place < each.until:
                    if each.component:
                        versions[each.component] = f"{each.component}-bad"
                    if each.segment in (None, segment) and chance.random() < each.share:
                        broken = broken or each.stage
            yield self._record(number, segment, at, versions, chance), broken

    def _noise(self, chance: random.Random) -> Stage | None:
        return next((stage for stage in _BAD if self.noise and chance.random() < self.noise), None)

    def _record(
        self, number: int, segment: str, at: int, versions: dict[str, str], chance: random.Random
    ) -> RequestRecord:
        flagged = self.flagged > 0 and chance.random() < self.flagged
        found = tuple(
            Candidate(chunk_id=f"chunk-{number * 7 % 1000}-{rank}", rank=rank, score=1 / rank)
            for rank in range(1, self.candidates + 1)
        )
        return RequestRecord(
            request_id=f"{at:016x}{number:016x}",
            service=SERVICE,
            segment=segment,
            tenant_id=f"tenant-{number % self.tenants}" if self.tenants else None,
            query=Query(original=f"question {number}"),
            versions=versions,
            stages=(RetrieveRun(candidates=found),),
            started_at=at,
            ended_at=at + 1_000_000,
            head_sampled=not flagged,
            flags=("thumbs_down",) if flagged else (),
        )

    def scores(self, broken: Stage | None) -> dict[str, float | None]:
        """The scores of a request that broke first in a stage."""
        scores: dict[str, float | None] = {**_GOOD, **(_BAD[broken] if broken else {})}
        return scores | dict.fromkeys(self.undefined)


def store_traffic(store: Store, traffic: Traffic) -> None:
    """Write the requests and their analyses, as recorder and worker would."""
    pending = traffic.requests()
    while batch := list(islice(pending, _BATCH)):
        store.write([record for record, _ in batch])
        releases = store.releases(SERVICE)
        results = {
            record.request_id: _analysis(record, traffic, traffic.scores(broken), releases) for record, broken in batch
        }
        jobs = store.claim("traffic", limit=_BATCH)
        store.finish([Finished(job, results[job.request_id]) for job in jobs])


def _analysis(
    record: RequestRecord, traffic: Traffic, scores: Mapping[str, float | None], releases: Sequence[Release]
) -> Analysis:
    found: Diagnosis = diagnose(scores, reference=traffic.reference, versions=record.versions, releases=releases)
    return Analysis(
        request_id=record.request_id,
        analyzer_version=ANALYZER_VERSION,
        reference=traffic.reference,
        scores=tuple(
            Score(metric=name, value=value, reason=None if value is not None else "not_recorded", reference="none")
            for name, value in scores.items()
        ),
        diagnosis=found,
    )
