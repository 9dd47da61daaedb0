"""What a demo run found out: diagnoses compared with the truth of the injection, and averages per segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from ragtrace.demo.truth import Truth
from ragtrace.types import Analysis, RequestRecord

__all__ = ["Agreement", "Case", "DemoResult", "ScenarioResult", "SegmentResult", "summarize"]

METRICS: Final = (
    "query_coverage",
    "evidence_recall",
    "answer_coverage",
    "citation_coverage",
    "contradiction_rate",
)
UNTOUCHED: Final = "untouched"
_STAGES: Final = ("retrieval", "ranking", "generation", "citation")


@dataclass(frozen=True, slots=True)
class Case:
    """One request: what the fault did to it, and how it was diagnosed with either reference."""

    record: RequestRecord
    truth: Truth
    oracle: Analysis
    proxy: Analysis


@dataclass(frozen=True, slots=True)
class Agreement:
    """Diagnosed stages against true ones. `confusion` counts (true stage or "untouched", diagnosed stage or verdict).

    Requests that lack oracle evidence in the healthy run too (`organic`) are left out.
    """

    confusion: Mapping[tuple[str, str], int]

    @property
    def affected(self) -> int:
        """Requests that the fault broke."""
        return sum(count for (truth, _), count in self.confusion.items() if truth != UNTOUCHED)

    @property
    def untouched(self) -> int:
        """Requests that the fault left as they were."""
        return sum(count for (truth, _), count in self.confusion.items() if truth == UNTOUCHED)

    @property
    def first_stage_accuracy(self) -> float | None:
        """Share of the affected requests whose diagnosed stage is the true one; None when none was affected."""
        right = sum(count for (truth, found), count in self.confusion.items() if truth == found)
        return right / self.affected if self.affected else None

    @property
    def false_blame(self) -> float | None:
        """Share of the untouched requests for which some stage was blamed; None when none was left untouched."""
        blamed = sum(
            count for (truth, found), count in self.confusion.items() if truth == UNTOUCHED and found in _STAGES
        )
        return blamed / self.untouched if self.untouched else None

    def to_json(self) -> dict[str, Any]:
        """Plain data; the confusion table as {truth: {diagnosis: count}}."""
        table: dict[str, dict[str, int]] = {}
        for (truth, found), count in sorted(self.confusion.items()):
            table.setdefault(truth, {})[found] = count
        return {
            "first_stage_accuracy": self.first_stage_accuracy,
            "false_blame": self.false_blame,
            "confusion": table,
        }


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """One query class of one scenario: metric averages and where its requests broke first."""

    segment: str
    requests: int
    metrics: Mapping[str, float | None]
    stages: Mapping[str, int]
    owner: str | None
    suspected_rollout: str | None

    @property
    def first_broken_stage(self) -> str | None:
        """The stage that broke first in most of the broken requests; None when none broke."""
        return max(self.stages, key=lambda stage: self.stages[stage], default=None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "segment": self.segment,
            "requests": self.requests,
            **self.metrics,
            "first_broken_stage": self.first_broken_stage,
            "broken": dict(self.stages),
            "owner": self.owner,
            "suspected_rollout": self.suspected_rollout,
        }


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One scenario over all questions."""

    name: str
    brief: str
    requests: int
    organic: int
    oracle: Agreement
    proxy: Agreement
    segments: tuple[SegmentResult, ...]
    example: Case | None

    def to_json(self) -> dict[str, Any]:
        """Plain data: the oracle's figures at the top, the proxy's beside them."""
        return {
            "name": self.name,
            "requests": self.requests,
            "affected": self.oracle.affected,
            "untouched": self.oracle.untouched,
            "organic": self.organic,
            **self.oracle.to_json(),
            "proxy": self.proxy.to_json(),
            "segments": [segment.to_json() for segment in self.segments],
            "example": self.example.record.request_id if self.example else None,
        }


@dataclass(frozen=True, slots=True)
class DemoResult:
    """A whole demo run."""

    store_url: str
    service: str
    documents: int
    chunks: int
    scenarios: tuple[ScenarioResult, ...]
    seconds: float

    @property
    def example(self) -> Case | None:
        """The request whose path is shown: the selection scenario's where there is one, else the first one found."""
        found = {scenario.name: scenario.example for scenario in self.scenarios if scenario.example}
        return found.get("selection") or next(iter(found.values()), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "service": self.service,
            "store": self.store_url,
            "documents": self.documents,
            "chunks": self.chunks,
            "seconds": round(self.seconds, 1),
            "scenarios": [scenario.to_json() for scenario in self.scenarios],
        }


def summarize(name: str, brief: str, cases: Sequence[Case]) -> ScenarioResult:
    """Compare the diagnoses of one scenario's requests with the truth, and average its segments."""
    judged = [case for case in cases if not case.truth.organic]
    segments = sorted({case.record.segment for case in cases})
    return ScenarioResult(
        name=name,
        brief=brief,
        requests=len(cases),
        organic=len(cases) - len(judged),
        oracle=_agreement((case.truth, case.oracle) for case in judged),
        proxy=_agreement((case.truth, case.proxy) for case in judged),
        segments=tuple(
            _segment(segment, [case for case in cases if case.record.segment == segment]) for segment in segments
        ),
        example=_example(judged),
    )


def _agreement(pairs: Iterable[tuple[Truth, Analysis]]) -> Agreement:
    return Agreement(
        Counter(
            (truth.stage or UNTOUCHED, analysis.diagnosis.stage or analysis.diagnosis.verdict)
            for truth, analysis in pairs
        )
    )


def _segment(segment: str, cases: Sequence[Case]) -> SegmentResult:
    found = [case.oracle.diagnosis for case in cases if case.oracle.diagnosis.stage]
    stages = Counter(diagnosis.stage for diagnosis in found if diagnosis.stage)
    first = max(stages, key=lambda stage: stages[stage], default=None)
    blamed = [diagnosis for diagnosis in found if diagnosis.stage == first]
    rollouts = Counter(diagnosis.suspected_rollout for diagnosis in blamed if diagnosis.suspected_rollout)
    return SegmentResult(
        segment=segment,
        requests=len(cases),
        metrics={metric: _mean(case.oracle.score(metric) for case in cases) for metric in METRICS},
        stages={str(stage): count for stage, count in stages.items()},
        owner=blamed[0].owner if blamed else None,
        suspected_rollout=rollouts.most_common(1)[0][0] if rollouts else None,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None


def _example(cases: Sequence[Case]) -> Case | None:
    """A broken request that was diagnosed right, of the query class with exceptions where there is one."""
    right = [case for case in cases if case.truth.stage and case.oracle.diagnosis.stage == case.truth.stage]
    return next((case for case in right if case.record.segment == "exception"), next(iter(right), None))
