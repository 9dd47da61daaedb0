"""The requests that a triage looks at: drawn from the store, with the states of their stages, tallied by stage."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from statistics import fmean
from typing import Final, Literal, TypeAlias

from ragtrace.analyze.diagnosis import doubt_reason, stages_in_scope
from ragtrace.analyze.services import remedy
from ragtrace.formats import show_command, written_time
from ragtrace.plausible_values import sampling_weight
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from ragtrace.registry.types import Objective
from ragtrace.registry.wording import cause_words, reason_words
from ragtrace.sample_statistics import ONE_SIDED_95
from ragtrace.store import Sampled, Store
from ragtrace.triage._report import ExemplarRequest, Judgeable, MetricChange, Range, ReasonCount, Tally, UnjudgedState
from ragtrace.triage._statistics import ENOUGH, Weighed, share_of
from ragtrace.types import Reference, Stage, StageState

__all__ = [
    "COMPONENTS",
    "LIMIT",
    "METRICS",
    "ORDER",
    "OWNERS",
    "SHOWN",
    "Counted",
    "JudgedRequest",
    "JudgedSample",
    "TrafficSample",
    "Window",
    "budget",
    "draw",
    "exemplar_requests",
    "exemplars_of",
    "hardly_judged",
    "has_gold",
    "mean",
    "newest_of",
    "objective_text",
    "reasons_of",
    "tally",
    "weighed",
]

SHOWN: Final[dict[Stage, tuple[str, ...]]] = {
    stage.name: tuple(one.id for one in INSTRUMENTS.values() if one.triage and one.stage == stage.name)  # type: ignore[misc]
    for stage in STAGES  # whose names are the record's stages
}
"""The metrics of each stage that a report shows beside its state; the state decides."""

METRICS: Final = tuple(metric for metrics in SHOWN.values() for metric in metrics)
ORDER: Final[tuple[Stage, ...]] = tuple(SHOWN)
OWNERS: Final = {stage.name: stage.owner for stage in STAGES}
COMPONENTS: Final = {stage.name: stage.components for stage in STAGES}
LIMIT: Final = 2_000  # requests that are read of a service or segment: shares are exact to 2 % then

Doubtful: TypeAlias = Literal["doubted", "distant"]
"""What tells nothing of one request: a stage in doubt, an answer far from its question."""
Counted: TypeAlias = Literal["broken", "distant"] | UnjudgedState
"""What is counted of a stage."""

_BUDGETS: Final = {stage.name: round(1.0 - stage.target, 6) for stage in STAGES}
_TELLING: Final[tuple[Stage, ...]] = ("retrieval", "generation")  # ranking is sound by itself where nothing is left out
_NEXT_TO_NOTHING: Final = 0.1  # share of the requests below which a stage is hardly judged
_JUDGED: Final = frozenset(("sound", "broken"))
_ASKED: Final = 5  # requests, the newest of each judge, of which it is asked whether a model judged their claims
_REASONS: Final = 3  # of each state, the most frequent ones
_READ: Final = 60  # requests among which the exemplars are chosen
_EXEMPLARS: Final = 3


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
class JudgedRequest:
    """One request, and the states of the stages of which it tells something of their own: no earlier one is broken or
    suspected. weight: how many requests of the traffic it stands for."""

    row: Sampled
    states: dict[Stage, StageState]
    weight: float

    def is_judged(self, stage: Stage) -> bool:
        """Whether the stage is sound or broken."""
        return self.states.get(stage) in _JUDGED

    def is_broken(self, stage: Stage) -> bool:
        """Whether the stage is broken."""
        return self.states.get(stage) == "broken"

    def shows(self, stage: Stage, what: Counted) -> bool:
        """Whether the stage is broken or not known; or in doubt, or its answer far from the question, whatever the
        earlier ones are."""
        if what == "distant":
            return self.row.is_distant and stage == "generation"
        return stage in self.row.doubted if what == "doubted" else self.states.get(stage) == what

    def reason(self, stage: Stage, what: Counted) -> str | None:
        """Why it shows that; None where it is in doubt because it is broken."""
        found = self.row.reasons.get(stage)
        if what == "distant":
            return what if self.row.is_distant else None
        if what == "doubted" and self.row.states.get(stage) == "broken":
            return None
        return doubt_reason(stage, found) if what == "doubted" else found or "undecided"


@dataclass(frozen=True, slots=True)
class TrafficSample:
    """The analyzed requests of one service or segment, oldest first, whatever judged them. stored: how many requests
    there are, by an estimate or counted; drawn: how many of them were looked for, evenly in time."""

    service: str
    segment: str | None
    window: Window
    rows: tuple[Sampled, ...]
    stored: int
    drawn: int
    is_estimate: bool = False

    @property
    def outdated(self) -> int:
        """How many were judged by a version of the analyzer that knew no states."""
        return sum(not row.states and row.judge is None for row in self.rows)

    def judgeable(self, store: Store) -> tuple[Judgeable, ...]:
        """Of each stage that applies to any request of the window: in how many requests it is judged."""
        rows = [row for row in self.rows if row.started_at >= self.window.since]
        answered = [row for row in rows if row.states.get("generation") in _JUDGED] or rows
        by_judge: dict[str | None, deque[str]] = {}
        for row in answered:
            by_judge.setdefault(row.judge, deque(maxlen=_ASKED)).append(row.request_id)
        judges = store.judges(list(chain.from_iterable(by_judge.values())))
        is_verified = any(judge.verifier for judge in judges)
        asked = ((stage, [row for row in rows if stage in row.states]) for stage in ORDER)
        return tuple(_judgeable(stage, applies, is_verified=is_verified) for stage, applies in asked if applies)

    def by_judge(self, reference: Reference | None = None) -> tuple[JudgedSample, ...]:
        """The requests with states, apart by gold evidence and by judge, the most frequent ones first: what different
        ones say is never mixed. reference: `oracle` for those with gold evidence only, another one for those without.
        One of no requests where there are none.

        Without gold, requests with a proxy and without any reference count together: that no proxy could be chosen
        comes with not being judged, and apart they would hide each other's growth.
        """
        rows = [row for row in self.rows if row.states]
        counts = Counter((has_gold(row.reference), row.judge) for row in rows)
        wanted = [one for one, _ in counts.most_common() if reference is None or one[0] == has_gold(reference)]
        by = {one: tuple(_judged(row) for row in rows if (has_gold(row.reference), row.judge) == one) for one in wanted}
        return tuple(JudgedSample(self, by[one], *one) for one in wanted) or (
            JudgedSample(self, (), has_gold(reference), None),
        )


@dataclass(frozen=True, slots=True)
class JudgedSample:
    """The requests of a sample that one judge (rules, model and calibration) judged, with gold evidence or without it,
    oldest first."""

    sample: TrafficSample
    requests: tuple[JudgedRequest, ...]
    has_gold: bool
    judge: str | None

    @property
    def window(self) -> Window:
        """The time looked at."""
        return self.sample.window

    @property
    def reference(self) -> Reference | None:
        """The most frequent reference; None without requests."""
        counts = Counter(request.row.reference for request in self.requests)
        return counts.most_common(1)[0][0] if counts else None

    def in_scope(self, stage: Stage) -> list[JudgedRequest]:
        """The requests that reach a stage with no earlier one broken or suspected."""
        return [request for request in self.requests if stage in request.states]

    def at(self, stage: Stage) -> list[JudgedRequest]:
        """Those of them in which the stage is judged."""
        return [request for request in self.requests if request.states.get(stage) in _JUDGED]

    def among(self, stage: Stage, what: Counted) -> list[JudgedRequest]:
        """The requests among which that is counted: broken among the judged, not known among those in scope, in doubt
        or far from the question among all to which the stage applies."""
        if what in ("doubted", "distant"):
            return [request for request in self.requests if stage in request.row.states]
        return self.at(stage) if what == "broken" else self.in_scope(stage)

    def now(self, stage: Stage) -> list[JudgedRequest]:
        """Those of the judged ones in the window."""
        return self.since(self.at(stage))

    def before(self, stage: Stage) -> list[JudgedRequest]:
        """Those of the judged ones before the window."""
        return self.until(self.at(stage))

    def since(self, requests: Iterable[JudgedRequest]) -> list[JudgedRequest]:
        """Those in the window."""
        since = self.window.since
        return [request for request in requests if request.row.started_at >= since]

    def until(self, requests: Iterable[JudgedRequest]) -> list[JudgedRequest]:
        """Those before the window."""
        since = self.window.since
        return [request for request in requests if request.row.started_at < since]

    def of_segments(self, *segments: str) -> JudgedSample:
        """The part that belongs to one of these segments."""
        part = tuple(request for request in self.requests if request.row.segment in segments)
        return replace(self, requests=part)

    def values(self, stage: Stage, before: Sequence[JudgedRequest]) -> tuple[MetricChange, ...]:
        """The stage's metrics in the window and `before`, over the requests in which the stage is judged."""
        now = self.now(stage)
        return tuple(_value(metric, now, before) for metric in SHOWN[stage])

    def range(self) -> Range:
        """What was looked at."""
        sample, rates = self.sample, [request.row.head_probability for request in self.requests]
        return Range(
            since=written_time(self.window.since),
            until=written_time(self.window.until),
            before_since=written_time(self.window.before),
            requests=sample.stored,
            is_estimate=sample.is_estimate,
            read=len(sample.rows),
            unanalyzed=sample.drawn - len(sample.rows),
            outdated=sample.outdated,
            no_retrieval=sum(row.verdict == "no_retrieval_needed" for row in sample.rows),
            refused=sum(row.reasons.get("generation") == "refused" for row in sample.rows),
            errors=sum(row.verdict == "error" for row in sample.rows),
            least_sampled=min(rates, default=1.0),
            most_sampled=max(rates, default=1.0),
            analyzed=len(self.requests),
            reference=self.reference,
            judge=self.judge,
        )


def draw(store: Store, service: str, segment: str | None, window: Window, limit: int | None = LIMIT) -> TrafficSample:
    """Draw the analyzed requests of a service, or of one of its segments. limit: how many are read at most, evenly in
    time; None for all."""
    found = store.sample(service, segment, window.before, window.until, METRICS, limit)
    return TrafficSample(service, segment, window, found.rows, found.stored, found.drawn, found.is_estimate)


def has_gold(reference: Reference | None) -> bool:
    """Whether requests with this reference were judged by gold evidence."""
    return reference == "oracle"


def _judged(row: Sampled) -> JudgedRequest:
    states = {stage: row.states[stage] for stage in stages_in_scope(row.states)}
    return JudgedRequest(row, states, sampling_weight(row.head_probability))


def weighed(requests: Iterable[JudgedRequest], counts: Callable[[JudgedRequest], bool]) -> Weighed:
    """Each request with its weight, and whether it counts."""
    return [(counts(request), request.weight) for request in requests]


def tally(requests: Iterable[JudgedRequest], stage: Stage, z: float = ONE_SIDED_95) -> Tally:
    """Count the broken ones among requests in which a stage is judged. z: standard deviations to its bounds."""
    return share_of(weighed(requests, lambda request: request.is_broken(stage)), z)


def reasons_of(reasons: Iterable[str | None], stage: Stage) -> tuple[ReasonCount, ...]:
    """The most frequent ones of the reasons of a stage's requests, with their words."""
    return tuple(
        ReasonCount(reason=reason, words=reason_words(reason, stage), count=count)
        for reason, count in Counter(filter(None, reasons)).most_common(_REASONS)
    )


def _judgeable(stage: Stage, rows: Sequence[Sampled], *, is_verified: bool) -> Judgeable:
    unjudged = (row for row in rows if row.states[stage] in ("suspected", "not_known"))
    reasons = reasons_of((row.reasons.get(stage) or "undecided" for row in unjudged), stage)
    remedies = (remedy(stage, each.reason, is_verified=is_verified) for each in reasons)
    helpful = dict.fromkeys(one for one in remedies if one is not None)
    judged = share_of(
        [(row.states[stage] in ("sound", "broken"), sampling_weight(row.head_probability)) for row in rows]
    )
    return Judgeable(stage=stage, judged=judged, reasons=reasons, remedies=tuple(helpful))


def hardly_judged(judgeable: Sequence[Judgeable]) -> str:
    """That next to nothing of a service can be judged, why, and what would help; "" where enough can."""
    stages = [each for each in judgeable if each.stage in _TELLING]
    if not stages or any(map(_is_told, stages)):
        return ""
    judged = "; ".join(map(_barely, stages))
    helpful = "; ".join(dict.fromkeys(one for each in stages for one in each.remedies))
    return f"Next to nothing can be judged: {judged}.{f' What would help: {helpful}.' if helpful else ''}"


def _is_told(each: Judgeable) -> bool:
    return each.judged.of < ENOUGH or (each.judged.share or 0.0) >= _NEXT_TO_NOTHING


def _barely(each: Judgeable) -> str:
    why = f" (mostly {each.reasons[0].words})" if each.reasons else ""
    return f"{each.stage} in {each.judged.count:,} of {each.judged.of:,} requests{why}"


def _value(metric: str, now: Sequence[JudgedRequest], before: Sequence[JudgedRequest]) -> MetricChange:
    return MetricChange(
        metric=metric,
        name=metric.replace("_", " "),
        objective=objective_text(INSTRUMENTS[metric].objective),
        now=mean(now, metric),
        now_count=_defined(now, metric),
        before=mean(before, metric),
        before_count=_defined(before, metric),
    )


def mean(requests: Sequence[JudgedRequest], metric: str) -> float | None:
    """A metric's mean over the traffic that the requests stand for; None where none defines it."""
    found = [(value, each.weight) for each in requests if (value := each.row.scores.get(metric)) is not None]
    return fmean(*zip(*found, strict=True)) if found else None


def _defined(requests: Sequence[JudgedRequest], metric: str) -> int:
    return sum(each.row.scores.get(metric) is not None for each in requests)


def objective_text(objective: Objective | None) -> str | None:
    """`>= 0.9`: what one request should reach."""
    return None if objective is None else f"{objective.direction} {objective.threshold:g}"


def budget(stage: Stage) -> float:
    """The share of the judged requests that may be broken at a stage: what its target leaves."""
    return _BUDGETS[stage]


def exemplar_requests(
    store: Store,
    service: str,
    segment: str | None,
    window: Window,
    stage: Stage,
    *,
    gold: bool,
    release: str | None = None,
    without: str | None = None,
) -> tuple[ExemplarRequest, ...]:
    """Three of the newest requests that broke first in a stage, flagged ones included: those that point at the
    suspected release first, then those of the most common cause, then the worst, then the newest. gold: of those with
    gold evidence, or of those without."""
    rows = store.find_requests(
        service=service, segment=segment, since=window.since, until=window.until, stage=stage, limit=_READ
    )
    broken = store.scored([row.request_id for row in rows if row.request_id != without], METRICS)
    broken = [row for row in broken if has_gold(row.reference) == gold and row.states]
    causes = Counter(row.cause for row in broken)

    def rank(row: Sampled) -> tuple[bool, int, float, int]:
        return row.suspected_rollout == release, causes[row.cause], _shortfall(row, stage), row.started_at

    chosen = sorted(broken, key=rank, reverse=True)[:_EXEMPLARS]
    return tuple(_exemplar(row, cause_words(row.cause)) for row in chosen)


def exemplars_of(
    requests: Sequence[JudgedRequest], stage: Stage, what: Counted, reasons: Sequence[ReasonCount]
) -> tuple[ExemplarRequest, ...]:
    """Three of the newest of the requests in which a stage is in doubt or not known, of the most frequent reason."""
    cause = reasons[0].words if reasons else "broken"
    return tuple(_exemplar(row, cause) for row in newest_of(requests, stage, what, reasons))


def newest_of(
    requests: Sequence[JudgedRequest], stage: Stage, what: Counted, reasons: Sequence[ReasonCount]
) -> list[Sampled]:
    """Three of those in which a stage is in doubt or not known, the newest of the first reason first."""
    most = reasons[0].reason if reasons else None
    newest = (each.row for each in reversed(requests) if each.shows(stage, what) and each.reason(stage, what) == most)
    return list(islice(newest, _EXEMPLARS))


def _shortfall(row: Sampled, stage: Stage) -> float:
    """By how much the request misses the objective that it misses most."""
    missed = [0.0]
    for metric in SHOWN[stage]:
        objective, value = INSTRUMENTS[metric].objective, row.scores.get(metric)
        if objective and value is not None and not objective.met(value):
            missed.append(abs(value - objective.threshold))
    return max(missed)


def _exemplar(row: Sampled, cause: str) -> ExemplarRequest:
    return ExemplarRequest(
        request_id=row.request_id,
        segment=row.segment,
        at=written_time(row.started_at),
        cause=cause,
        suspected_release=row.suspected_rollout,
        command=show_command(row.request_id),
    )
