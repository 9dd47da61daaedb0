"""The words of the release gate: two populations, the rules that they are held against, and the report.

The arithmetic reads `Comparison` and `Policy` and returns `Cell`s; it sees no store and no record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragtrace.gate._sameness import Trace
from ragtrace.store.rows import Judge
from ragtrace.triage import CorrectedShare
from ragtrace.types import Stage, StageState

__all__ = [
    "EXIT_CODES",
    "NOWHERE",
    "STATES",
    "Action",
    "AnchorResult",
    "AnswerSide",
    "Break",
    "Cell",
    "CellChanges",
    "ChangedPair",
    "Comparison",
    "Decision",
    "Direction",
    "Family",
    "GateReport",
    "Kind",
    "LabelUse",
    "LabeledChange",
    "LostEvidence",
    "Outcome",
    "Policy",
    "Population",
    "PromptChange",
    "ProviderShift",
    "QuestionPair",
    "Rule",
    "SegmentMix",
    "SelfCheck",
    "SentenceState",
    "SideSummary",
    "StageShares",
    "VersionChange",
]

Kind: TypeAlias = Literal["boolean", "score", "quantity"]
"""Of a request's value: 0 or 1; within [0, 1]; any number >= 0 (seconds, tokens)."""

Direction: TypeAlias = Literal["higher", "lower"]
"""The direction in which values are better."""

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive", "not_enough_data"]
Action: TypeAlias = Literal["block", "warn"]
Family: TypeAlias = Literal["overall", "segments", "floors"]
Decision: TypeAlias = Literal["pass", "block", "undecided"]

SentenceState: TypeAlias = Literal["contradicted", "not supported", "weakly supported"]
"""Of a sentence of an answer, the worst first."""

EXIT_CODES: Final[Mapping[Decision, int]] = {"pass": 0, "block": 1, "undecided": 3}

STATES: Final[tuple[StageState, ...]] = ("sound", "broken", "suspected", "not_known")
"""The states of a stage; a `Population` holds their places."""

NOWHERE: Final = -1
"""In place of a state: the stage does not apply to the request, or nothing judged it."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The requests of one side: every column has one entry for each request, in the same order.

    questions: what pairs requests of two sides; "" where it is not known. clusters: what may have made requests alike
    (session, else document, else the request itself). weights: the inverse of the probability of being kept, > 0.
    scores: metric id -> float64 values, NaN where undefined. states: stage -> (n,) int8 places in `STATES`, or
    `NOWHERE`. causes: of the first broken stage. versions: component -> version -> number of requests. judges: what
    judged the requests, as far as it was looked up. stateless: how many requests were judged before stages had states.
    excluded: reason -> number of requests that were selected and cannot be judged. traces: what each request did, where
    that was looked up. reference: what tells whether evidence was found.
    """

    name: str
    request_ids: Sequence[str]
    questions: Sequence[str]
    segments: Sequence[str]
    clusters: Sequence[str]
    weights: NDArray[np.float64]
    scores: Mapping[str, NDArray[np.float64]]
    states: Mapping[Stage, NDArray[np.int8]]
    causes: Sequence[str]
    versions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    analyzer_versions: Mapping[str, int] = field(default_factory=dict)
    judges: frozenset[Judge] = frozenset()
    stateless: int = 0
    excluded: Mapping[str, int] = field(default_factory=dict)
    traces: Sequence[Trace] = ()
    reference: Literal["oracle", "proxy"] | None = None
    since: int | None = None  # nanoseconds since the epoch, of the first and the last request
    until: int | None = None

    def __len__(self) -> int:
        return len(self.request_ids)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Two populations side by side.

    pairs: (n, 2) rows of baseline and candidate that asked the same question, each row at most once; None where the
    sides are compared as independent samples. unmatched: rows of baseline and of candidate without a partner.
    unchanged: stage -> (n,) whether the candidate is known to be no worse in a pair, since all that the stage works
    with and gives is the same.
    """

    baseline: Population
    candidate: Population
    pairs: NDArray[np.int64] | None
    unmatched: tuple[int, int] = (0, 0)
    unchanged: Mapping[Stage, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def paired(self) -> bool:
        """Whether the same questions stand on both sides."""
        return self.pairs is not None


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what is read and written as text: an unknown key is an error."""


class Rule(_Strict, frozen=True, kw_only=True):
    """What one metric must hold. `metric` is an id of the metric registry, or of `ragtrace.gate._population`.

    margin: the largest worsening that is tolerated, > 0, in the metric's unit; with `relative`, as a share of the
    baseline's mean. segment_margins: other margins by segment. floor: what the candidate's own mean must reach (must
    not exceed, where lower is better), whatever the baseline was. minimum: fewest defined values (pairs, or requests of
    each side) that a verdict is drawn from. guardrail: a significant worsening fails even within the margin.
    guardrail_after: components; a change of any of them makes the rule a guardrail. optional: left out where neither
    side defines the metric. gold: only warns where the reference is no gold evidence, but the component's own finds.
    """

    metric: str
    kind: Kind
    direction: Direction
    margin: float
    stage: Stage | None = None
    relative: bool = False
    segment_margins: dict[str, float] = {}
    floor: float | None = None
    minimum: int = 30
    action: Action = "block"
    segment_action: Action = "block"
    guardrail: bool = False
    guardrail_after: tuple[str, ...] = ()
    optional: bool = False
    gold: bool = False

    def margin_of(self, segment: str | None) -> float:
        """The margin in a segment; None: over all."""
        return self.segment_margins.get(segment, self.margin) if segment is not None else self.margin


class Policy(_Strict, frozen=True, kw_only=True):
    """What a candidate is held against.

    alpha: the familywise share of false blocks, in (0, 0.5). power: what a detectable effect is announced for.
    required_segments: segments that must have enough data. on_missing: what a required segment without enough data
    does. on_inconclusive: what an inconclusive cell over all requests does (`block` ends with "undecided").
    on_suspected: the same of a stage that is certainly suspected or not known in more requests than before.
    """

    rules: tuple[Rule, ...]
    alpha: float = 0.05
    power: float = 0.8
    required_segments: tuple[str, ...] = ()
    on_missing: Action = "block"
    on_inconclusive: Action = "block"
    on_inconclusive_segment: Action = "warn"
    on_suspected: Action = "block"
    reference: Literal["auto", "oracle", "proxy"] = "auto"
    pairing: Literal["auto", "paired", "unpaired"] = "auto"
    resamples: int = 2000
    seed: int = 0


class Cell(_Strict, frozen=True, kw_only=True):
    """One metric in one segment (None: over all), judged.

    n: pairs that are defined or known to be the same, or defined requests of (baseline, candidate). baseline,
    candidate: weighted means; difference:
    candidate - baseline with its interval [low, high] of confidence 1 - 2 alpha (per cell, not adjusted); all in the
    metric's unit. margin: in the metric's unit (a relative one is resolved). p_harm: of "not worse"; p_adjusted: the
    same after Holm over the family; p_inferior: of "worse by the margin or more". detectable: the smallest worsening
    that this cell finds with the policy's power; needed: how many pairs (or requests per side) would find one of the
    margin; decides: how many would pass a candidate that is no worse with that power; least: fewer can never pass, even
    without any difference. method: the interval's and the test's names. unjudged: of a stage's broken share, by how
    much the share of requests in which it is sound or broken fell, where so many may be broken unseen that it cannot
    pass. None stands for: not defined here.
    """

    metric: str
    stage: Stage | None
    segment: str | None
    family: Family
    kind: Kind
    direction: Direction
    outcome: Outcome
    action: Action
    reason: str
    n: tuple[int, int]
    baseline: float | None = None
    candidate: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float
    p_harm: float | None = None
    p_adjusted: float | None = None
    p_inferior: float | None = None
    detectable: float | None = None
    needed: int | None = None
    decides: int | None = None
    least: int = 0
    method: str = ""
    required: bool = False
    unjudged: float | None = None

    @property
    def blocks(self) -> bool:
        """Whether this cell alone blocks the release."""
        return self.outcome == "fail" and self.action == "block"


class VersionChange(_Strict, frozen=True, kw_only=True):
    """A component whose versions differ between the sides: the commonest of each, and whether a side mixes several."""

    component: str
    baseline: str | None
    candidate: str | None
    mixed: bool = False


class StageShares(_Strict, frozen=True, kw_only=True):
    """In which state a stage is, on the side of the baseline and on that of the candidate.

    requests: in which the stage applies; the others are weighted shares of them, None where there is none.
    """

    stage: Stage
    requests: tuple[int, int]
    sound: tuple[float | None, float | None]
    broken: tuple[float | None, float | None]
    suspected: tuple[float | None, float | None]
    not_known: tuple[float | None, float | None]


class Break(_Strict, frozen=True, kw_only=True):
    """Why a stage got worse in a segment (None: over all): its signature, who flipped, and what changed.

    failure: the verdict that names the stage (recall_failure ...). broken: weighted shares of the requests in which the
    stage is sound or broken. flipped: pairs in which it was sound and is broken; recovered: the other way round;
    now_suspected, now_not_known: pairs in which it was sound or broken and is not judged so any more; None where the
    sides are not paired. causes: cause -> number of requests of the candidate that broke here first. requests:
    (baseline, candidate) request ids of the clearest examples, baseline "" where not paired. suspects: changed
    components that belong to the stage. follows: an earlier stage that broke there, where this one stayed as sound as
    it was in requests with nothing wrong before: its metrics fell because of what that stage lost.
    """

    stage: Stage
    segment: str | None
    failure: str
    owner: str
    broken: tuple[float | None, float | None]
    flipped: int | None
    recovered: int | None
    now_suspected: int | None = None
    now_not_known: int | None = None
    causes: dict[str, int]
    requests: tuple[tuple[str, str], ...]
    suspects: tuple[VersionChange, ...]
    metrics: tuple[str, ...]
    follows: Stage | None = None


class SideSummary(_Strict, frozen=True, kw_only=True):
    """One side in figures. judges: what judged its claims, in words."""

    name: str
    requests: int
    unmatched: int
    excluded: dict[str, int]
    versions: dict[str, dict[str, int]]
    analyzer_versions: dict[str, int]
    judges: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None


class ChangedPair(_Strict, frozen=True, kw_only=True):
    """A question in one metric: the request ids of both sides (baseline "" where not paired), and the values."""

    baseline: str
    candidate: str
    before: float | None
    after: float | None


class CellChanges(_Strict, frozen=True, kw_only=True):
    """The questions that got worse in a cell's metric and segment, the worst first."""

    metric: str
    stage: Stage | None
    segment: str | None
    pairs: tuple[ChangedPair, ...]


class AnswerSide(_Strict, frozen=True, kw_only=True):
    """A question's answer on one side, with the texts that the store keeps; None: not stored.

    states: of the stages. sentence: of the answer, the one with the least support, where one is not supported;
    sentence_state: what is wrong with it.
    """

    request_id: str
    answer: str | None
    states: dict[str, StageState]
    verdict: str | None = None
    sentence: str | None = None
    sentence_state: SentenceState | None = None


class LostEvidence(_Strict, frozen=True, kw_only=True):
    """A needed chunk that the baseline's prompt held and the candidate's does not, and where it was lost: before the
    candidates (retrieval), in rerank, in packing, or cut (truncation)."""

    chunk_id: str
    where: str
    rank_before: int | None = None
    rank_after: int | None = None
    reason: str | None = None
    text: str | None = None


class PromptChange(_Strict, frozen=True, kw_only=True):
    """What became of the prompt: chunk ids that came and went, those whose text is another on both sides, whether
    those of both stand in another order, and whether the template is another (None: not stored on both sides)."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    reordered: bool = False
    template: bool | None = None


class QuestionPair(_Strict, frozen=True, kw_only=True):
    """One question, before and after. baseline: None where the sides are not paired, or where it is not stored any
    more. same_answer: None where neither texts nor hashes tell. lost, gained: needed chunks that left the prompt, and
    those that came into it. scores: by metric, of both sides."""

    question: str | None
    segment: str
    baseline: AnswerSide | None
    candidate: AnswerSide
    same_answer: bool | None = None
    prompt: PromptChange = PromptChange()
    lost: tuple[LostEvidence, ...] = ()
    gained: tuple[str, ...] = ()
    scores: dict[str, tuple[float | None, float | None]] = {}

    @property
    def worsened(self) -> tuple[str, ...]:
        """The stages that were sound and are broken."""
        before = self.baseline.states if self.baseline is not None else {}
        after = self.candidate.states
        return tuple(stage for stage, state in before.items() if state == "sound" and after.get(stage) == "broken")

    @property
    def recovered(self) -> tuple[str, ...]:
        """The stages that were broken and are sound."""
        before = self.baseline.states if self.baseline is not None else {}
        after = self.candidate.states
        return tuple(stage for stage, state in before.items() if state == "broken" and after.get(stage) == "sound")


class SegmentMix(_Strict, frozen=True, kw_only=True):
    """A segment's share of the requests of both sides, and the factor by which the candidate's count, so that its share
    is the baseline's; None: too few requests, and left out."""

    segment: str
    baseline: float
    candidate: float
    factor: float | None


class LabelUse(_Strict, frozen=True, kw_only=True):
    """People's labels in a run that was decided anew. of_run: the undecided one. requests: that were labeled; changed:
    verdicts on a stage that labels replaced by others; waiting: questions whose verdicts differ and that are not
    labeled on both sides."""

    of_run: str
    requests: int
    waiting: int
    changed: int
    labelers: tuple[str, ...]


class LabeledChange(_Strict, frozen=True, kw_only=True):
    """The share of live requests in which a stage (`any`: one of them) is the first that broke, corrected by people's
    labels, of the versions of both sides; low, high: the 95 % interval of candidate - baseline."""

    stage: str
    baseline: CorrectedShare
    candidate: CorrectedShare
    low: float
    high: float


class ProviderShift(_Strict, frozen=True, kw_only=True):
    """One provider on both sides (baseline, candidate): its share of the places in prompts, of these places what its
    useful documents deserve, and its share of all documents that answers use; None: not known. starved: it surely lost
    places that its documents deserve."""

    provider: str
    exposed: tuple[float | None, float | None]
    deserved: tuple[float | None, float | None]
    attributed: tuple[float | None, float | None]
    starved: bool = False


class AnchorResult(_Strict, frozen=True, kw_only=True):
    """The candidate held against a fixed anchor by the same policy. decision: what it would be with the anchor for a
    baseline; blocks: whether a loss since the anchor blocks. worse: the cells that failed, floors left out."""

    anchor: SideSummary
    paired: bool
    pairs: int | None
    decision: Decision
    blocks: bool
    worse: tuple[Cell, ...]


class GateReport(_Strict, frozen=True, kw_only=True):
    """What the gate decided, and why. `created_at` is in nanoseconds since the epoch.

    headline, next_steps: the verdict in a sentence and what to do now, for people who read it through other programs.
    stages: their states over all requests. first_broken: the earliest stage with a blocking cell. needed: how many
    pairs (or requests per side) would decide an undecided run. small: segments that are too small to be judged alone.
    unchanged: stage -> pairs in which the candidate is known to be no worse. warnings: sentences about the comparison
    itself (unmatched rows, small segments, mixed versions). changes: the questions that got worse in each cell that did
    not pass. questions: the same with their texts, read when the report is made or shown; the store keeps a report
    without them. anchor: what was lost since a fixed anchor, where one was given. mix: of live traffic, by which its
    segments were standardized. labels: of people, that took the place of verdicts. by_labels: rates corrected by
    people's labels, where both sides' versions have them; they decide nothing. providers: whose documents stand in
    prompts on both sides, by the key `providers_by`; they decide nothing.
    """

    decision: Decision
    headline: str = ""
    next_steps: tuple[str, ...] = ()
    baseline: SideSummary
    candidate: SideSummary
    paired: bool
    pairs: int | None
    alpha: float
    cells: tuple[Cell, ...]
    stages: tuple[StageShares, ...] = ()
    breaks: tuple[Break, ...]
    warnings: tuple[str, ...]
    policy: Policy
    service: str | None = None
    first_broken: Stage | None = None
    needed: int | None = None
    small: tuple[str, ...] = ()
    unchanged: dict[str, int] = {}
    run_id: str = ""
    created_at: int = 0
    anchor: AnchorResult | None = None
    mix: tuple[SegmentMix, ...] = ()
    labels: LabelUse | None = None
    by_labels: tuple[LabeledChange, ...] = ()
    providers: tuple[ProviderShift, ...] = ()
    providers_by: str = ""
    changes: tuple[CellChanges, ...] = ()
    questions: tuple[QuestionPair, ...] = ()
    schema_version: int = 1

    @property
    def exit_code(self) -> int:
        """0 passed, 1 blocked, 3 could not decide."""
        return EXIT_CODES[self.decision]


class SelfCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of `runs` random splits.

    requests: that took part, half of them on each side. pairs: of two runs, None where one was split.
    false_block_rate: share of the splits that were blocked, with Wilson's 95 % interval [low, high]; at most alpha is
    promised. pass_rate, inconclusive_rate: of the splits that
    passed, and of those that neither passed nor were blocked for harm. power: of the weakest blocking rule, at its
    margin and this many requests; None where no rule can lose its margin. powers: of each, tried in every fourth run.
    """

    runs: int
    requests: int
    pairs: int | None = None
    alpha: float
    false_block_rate: float
    low: float
    high: float
    pass_rate: float
    inconclusive_rate: float
    power: float | None
    powers: dict[str, float]
    wanted_power: float
    seed: int
    warnings: tuple[str, ...] = ()
