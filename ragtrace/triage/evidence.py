"""The requests that a triage looks at: drawn from the store, judged by the rules of the diagnosis, tallied by stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from ragtrace.analyze.diagnosis import stage_health, stages_reached
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from ragtrace.registry.model import Objective
from ragtrace.store import Sampled, Store
from ragtrace.triage.report import Range, Tally, Value
from ragtrace.triage.wording import written
from ragtrace.types import Reference, Stage
from ragtrace.wilson import ONE_SIDED_95, effective_size, wilson

__all__ = [
    "LIMIT",
    "METRICS",
    "ORDER",
    "OWNERS",
    "SHOWN",
    "Evidence",
    "Judged",
    "Window",
    "budget",
    "load",
    "load_each",
    "mean",
    "objective_text",
    "share_of",
    "tally",
]

SHOWN: Final[dict[Stage, tuple[str, ...]]] = {
    "retrieval": ("query_coverage", "joint_query_coverage", "candidate_recall", "evidence_presence"),
    "ranking": ("evidence_recall", "rank_shift", "truncated_tokens"),
    "generation": ("answer_coverage", "contradiction_rate"),
    "citation": ("citation_coverage", "citation_precision", "dangling_citations"),
}
"""The metrics of each stage that a report shows; those with an objective decide, by the rules of the diagnosis."""

METRICS: Final = tuple(metric for metrics in SHOWN.values() for metric in metrics)
ORDER: Final[tuple[Stage, ...]] = tuple(SHOWN)
OWNERS: Final = {stage.name: stage.owner for stage in STAGES}
LIMIT: Final = 2_000  # requests that are read of a service or segment: shares are exact to 2 % then


@dataclass(frozen=True, slots=True)
class Window:
    """[since, until) in nanoseconds, and the time before it, from `before` on, that it is compared with."""

    since: int
    until: int
    before: int

    @classmethod
    def of(cls, since: int, until: int) -> Window:
        """A window that is compared with as long a time before it."""
        return cls(since, until, since - (until - since))


@dataclass(frozen=True, slots=True)
class Judged:
    """One request, and for each stage that it tells of whether it was bad there."""

    row: Sampled
    bad: dict[Stage, bool]

    @property
    def weight(self) -> float:
        """How many requests of the traffic it stands for."""
        kept = self.row.head_probability
        return 1.0 / kept if 0.0 < kept <= 1.0 else 1.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """The judged requests of one service or segment, oldest first. stored: how many requests there are; drawn: how many
    of them were looked for, evenly in time; read: how many of those have an analysis, with whatever reference."""

    service: str
    segment: str | None
    window: Window
    requests: tuple[Judged, ...]
    stored: int
    drawn: int
    read: int
    reference: Reference | None

    def at(self, stage: Stage) -> list[Judged]:
        """The requests that tell of a stage."""
        return [each for each in self.requests if stage in each.bad]

    def now(self, stage: Stage) -> list[Judged]:
        """Those of them in the window."""
        return [each for each in self.at(stage) if each.row.started_at >= self.window.since]

    def before(self, stage: Stage) -> list[Judged]:
        """Those of them before the window."""
        return [each for each in self.at(stage) if each.row.started_at < self.window.since]

    def of_segment(self, segment: str) -> Evidence:
        """The part that belongs to one segment."""
        part = tuple(each for each in self.requests if each.row.segment == segment)
        return Evidence(self.service, segment, self.window, part, len(part), len(part), len(part), self.reference)

    def values(self, stage: Stage, before: Sequence[Judged]) -> tuple[Value, ...]:
        """The stage's metrics in the window and `before`, over the requests that tell of the stage."""
        return tuple(_value(metric, self.now(stage), before) for metric in SHOWN[stage])

    def range(self) -> Range:
        """What was looked at."""
        rates = [each.row.head_probability for each in self.requests]
        return Range(
            since=written(self.window.since),
            until=written(self.window.until),
            before_since=written(self.window.before),
            requests=self.stored,
            read=self.read,
            unanalyzed=self.drawn - self.read,
            least_sampled=min(rates, default=1.0),
            most_sampled=max(rates, default=1.0),
            analyzed=len(self.requests),
            reference=self.reference,
        )


def load(
    store: Store,
    service: str,
    segment: str | None,
    window: Window,
    *,
    reference: Reference | None = None,
    limit: int | None = LIMIT,
) -> Evidence:
    """Draw and judge requests, those of one reference: of the most frequent one, unless one is given."""
    return load_each(store, service, segment, window, reference=reference, limit=limit)[0]


def load_each(
    store: Store,
    service: str,
    segment: str | None,
    window: Window,
    *,
    reference: Reference | None = None,
    limit: int | None = LIMIT,
) -> tuple[Evidence, ...]:
    """Draw and judge requests, by reference, the most frequent one first: scores by different references are never
    mixed. reference: the only one that is wanted. limit: how many requests are read at most, evenly in time; None for
    all."""
    rows, stored = store.sample(service, segment, window.before, window.until, METRICS, limit)
    drawn = stored // (1 if limit is None else max(1, -(-stored // limit)))
    counts = Counter(row.reference for row in rows)
    wanted: list[Reference | None] = [reference] if reference else [each for each, _ in counts.most_common()]
    return tuple(
        Evidence(
            service,
            segment,
            window,
            tuple(_judged(row) for row in rows if row.reference == each),
            stored,
            max(drawn, len(rows)),
            len(rows),
            each,
        )
        for each in wanted or [None]
    )


def _judged(row: Sampled) -> Judged:
    health = stage_health(row.scores, row.reference)
    return Judged(row, {stage: health[stage] == "bad" for stage in stages_reached(health)})


def tally(requests: Iterable[Judged], stage: Stage, z: float = ONE_SIDED_95) -> Tally:
    """Count the bad ones among requests that tell of a stage. z: standard deviations to its bounds."""
    return share_of([(each.bad[stage], each.weight) for each in requests], z)


def share_of(weighed: Sequence[tuple[bool, float]], z: float = ONE_SIDED_95) -> Tally:
    """The share of the bad among requests with their weights: of the traffic, not of the sample (Hájek's estimate)."""
    whole = sum(weight for _, weight in weighed)
    if not weighed:
        return Tally(bad=0, known=0, share=None, low=0.0, high=1.0)
    bad, known = sum(is_bad for is_bad, _ in weighed), len(weighed)
    if len({weight for _, weight in weighed}) == 1:
        share, size = bad / known, float(known)
    else:
        share = sum(weight for is_bad, weight in weighed if is_bad) / whole
        variance = sum((weight * (is_bad - share)) ** 2 for is_bad, weight in weighed) / whole**2
        size = effective_size(share, variance, whole**2 / sum(weight**2 for _, weight in weighed))
    low, high = wilson(share * size, size, z)
    return Tally(bad=bad, known=known, share=share, low=low, high=high)


def _value(metric: str, now: Sequence[Judged], before: Sequence[Judged]) -> Value:
    instrument = INSTRUMENTS[metric]
    return Value(
        metric=metric,
        name=metric.replace("_", " "),
        objective=objective_text(instrument.objective),
        now=mean(now, metric),
        now_count=_defined(now, metric),
        before=mean(before, metric),
        before_count=_defined(before, metric),
    )


def mean(requests: Sequence[Judged], metric: str) -> float | None:
    """A metric's mean over the traffic that the requests stand for; None where none defines it."""
    found = [(value, each.weight) for each in requests if (value := each.row.scores.get(metric)) is not None]
    return fmean(*zip(*found, strict=True)) if found else None


def _defined(requests: Sequence[Judged], metric: str) -> int:
    return sum(each.row.scores.get(metric) is not None for each in requests)


def objective_text(objective: Objective | None) -> str | None:
    """`>= 0.9 for 95 %` of requests."""
    if objective is None:
        return None
    return f"{objective.direction} {objective.threshold:g} for {objective.target * 100:g} %"


def budget(stage: Stage) -> float:
    """The share of requests that may be bad at a stage: what the strictest of its objectives leaves."""
    objectives = [INSTRUMENTS[metric].objective for metric in SHOWN[stage]]
    return round(1.0 - max((each.target for each in objectives if each), default=1.0), 6)
