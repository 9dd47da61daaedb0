"""Requests of a service that never ran: analyzed, with faults of known stages in known hours, for triage to find."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ragtrace.analyze.diagnosis import diagnose
from ragtrace.store import Finished, Release, Store
from ragtrace.types import (
    ANALYZER_VERSION,
    Analysis,
    Candidate,
    Grading,
    Query,
    Reference,
    RequestRecord,
    RetrieveRun,
    Score,
    Stage,
    StageFinding,
    StageState,
    replace,
)

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
_DRAGGED: Final[dict[Stage, tuple[Stage, ...]]] = {"retrieval": ("ranking",)}  # what was not found is not packed either
_STAGES: Final[tuple[Stage, ...]] = ("retrieval", "ranking", "generation", "citation")
_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Break:
    """A stage that breaks this share of the requests from `since` on (a share of the traffic's span), by a release of
    `component`; None: by nothing that was rolled out. segment: None for all. state: `suspected` or `not_known`,
    with its reason, where it does not break for certain."""

    stage: Stage
    share: float
    since: float
    until: float = 1.0
    component: str | None = None
    segment: str | None = None
    state: StageState = "broken"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """`count` requests, evenly between `start` and `end` (nanoseconds), a `noise` of each stage broken at all times.

    unjudged: the state and the reason of stages that are never sound; inapplicable: stages without a state. outdated:
    judged by a version without states. judge: what judged.
    """

    count: int
    start: int
    end: int
    breaks: Sequence[Break] = ()
    segments: Sequence[str] = ("limit", "deadline", "exception")
    noise: float = 0.0
    reference: Reference = "proxy"
    undefined: Sequence[str] = ()
    unjudged: Mapping[Stage, tuple[StageState, str]] = field(default_factory=dict)
    inapplicable: Sequence[Stage] = ()
    outdated: bool = False
    judge: str = "j-1"
    tenants: int = 5
    flagged: float = 0.0
    candidates: int = 3
    versions: Mapping[str, str] = field(
        default_factory=lambda: {"index": "i-1", "reranker": "r-1", "packer": "p-1", "model": "m-1"}
    )
    seed: int = 0

    def requests(self) -> Iterator[tuple[RequestRecord, Break | None]]:
        """Each request, oldest first, and what breaks in it."""
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
                        broken = broken or each
            yield self._record(number, segment, at, versions, chance), broken

    def _noise(self, chance: random.Random) -> Break | None:
        broken = next((stage for stage in _BAD if self.noise and chance.random() < self.noise), None)
        return Break(broken, 1.0, 0.0) if broken else None

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

    def scores(self, broken: Break | None) -> dict[str, float | None]:
        """The scores of a request that broke so."""
        is_bad = broken is not None and broken.state == "broken"
        scores: dict[str, float | None] = {**_GOOD, **(_BAD[broken.stage] if broken and is_bad else {})}
        return scores | dict.fromkeys(self.undefined)

    def grading(self, record: RequestRecord) -> Grading | None:
        """The grades of a judge of relevance; none where none was asked."""
        return None

    def findings(self, broken: Break | None) -> tuple[StageFinding, ...]:
        """The states of the stages of a request that broke so."""
        states: dict[Stage, tuple[StageState, str | None]] = dict.fromkeys(_STAGES, ("sound", None))
        states |= self.unjudged
        if broken:
            dragged = _DRAGGED.get(broken.stage, ()) if broken.state == "broken" else ()
            states |= dict.fromkeys((broken.stage, *dragged), (broken.state, broken.reason))
        return tuple(
            StageFinding(stage=stage, state=state, reason=reason, doubted=_is_doubted(stage, state, reason))
            for stage, (state, reason) in states.items()
            if stage not in self.inapplicable
        )


def _is_doubted(stage: Stage, state: StageState, reason: str | None) -> bool:
    if reason == "refused":  # which says nothing of the stages before
        return stage == "generation"
    return state in ("broken", "suspected")


def store_traffic(store: Store, traffic: Traffic) -> None:
    """Write the requests and their analyses, as recorder and worker would."""
    pending = traffic.requests()
    while batch := list(islice(pending, _BATCH)):
        store.write([record for record, _ in batch])
        releases = store.releases(SERVICE)
        results = {record.request_id: _analysis(record, traffic, broken, releases) for record, broken in batch}
        jobs = store.claim("traffic", limit=_BATCH)
        store.finish([Finished(job, results[job.request_id]) for job in jobs])


def _analysis(record: RequestRecord, traffic: Traffic, broken: Break | None, releases: Sequence[Release]) -> Analysis:
    found = diagnose(
        traffic.findings(broken),
        reference=traffic.reference,
        versions=record.versions,
        releases=releases,
        judge=traffic.judge,
    )
    return Analysis(
        request_id=record.request_id,
        analyzer_version="coverage-7" if traffic.outdated else ANALYZER_VERSION,
        reference=traffic.reference,
        scores=tuple(
            Score(metric=name, value=value, reason=None if value is not None else "not_recorded", reference="none")
            for name, value in traffic.scores(broken).items()
        ),
        grading=traffic.grading(record),
        diagnosis=replace(found, stages=(), judge=None) if traffic.outdated else found,
    )
