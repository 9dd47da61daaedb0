"""The report of a triage: plain data, as `--json` prints it and `docs/reference/triage.schema.json` describes it.

Times are ISO 8601 in UTC; shares lie in [0, 1]; null is undefined or unknown, never zero.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from ragtrace.types import Reference, Stage, StageState

__all__ = [
    "SCHEMA",
    "AlertFacts",
    "Check",
    "CheckState",
    "CorrectedShare",
    "ExemplarRequest",
    "Judgeable",
    "MetricChange",
    "Onset",
    "PageAnswers",
    "Range",
    "ReasonCount",
    "Recovery",
    "Report",
    "RequestFacts",
    "RequestStage",
    "Rise",
    "SegmentLine",
    "SegmentState",
    "StarvedProvider",
    "Suspect",
    "Tally",
    "Tenants",
    "Unjudged",
    "UnjudgedState",
]

SCHEMA: Final = "ragtrace.triage/2"

CheckState: TypeAlias = Literal[
    "broken",
    "recovered",
    "worse",
    "unclear",
    "doubted",
    "good",
    "unjudged",
    "no_data",
    "not_checked",
    "sound",
    "suspected",
    "not_known",
]
SegmentState: TypeAlias = Literal["broken", "better", "recovered", "unclear", "good", "no_data"]
UnjudgedState: TypeAlias = Literal["doubted", "not_known"]


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every part of a report."""


class Tally(_Part, frozen=True, kw_only=True):
    """`count` of `of` requests, as they were drawn. share: of the traffic, each request weighted by the inverse of the
    probability with which it was kept; low and high: its 95 % bounds (Wilson, by the effective number of requests)."""

    count: int
    of: int
    share: float | None
    low: float
    high: float


class MetricChange(_Part, frozen=True, kw_only=True):
    """One metric: its mean over the requests that define it, now and before."""

    metric: str
    name: str
    objective: str | None = None
    now: float | None = None
    now_count: int = 0
    before: float | None = None
    before_count: int = 0


class ReasonCount(_Part, frozen=True, kw_only=True):
    """In how many requests a stage is in doubt or not known for one reason, and what that is in words."""

    reason: str
    words: str
    count: int


class Unjudged(_Part, frozen=True, kw_only=True):
    """In how many requests a stage is doubted or not known, and why.

    doubted: of all requests to which the stage applies, those in which it looks broken by what no later stage can
    change, broken ones as well; not known: of those in which no earlier stage is broken or suspected. has_risen:
    clearly above what it was before, or by enough for the rise of a later stage to follow from it. follows: the earlier
    stage at which the rise began. unsure: stages before that, of which it is not sure whether it began there. broken:
    how many of the doubted ones are. reasons: of the others, the three most frequent ones, that which grew most first.
    request_ids: three of the newest ones, of the first reason; since: from when on they are counted; command: lists the
    doubted ones, "" for the not known, and for none.
    """

    state: UnjudgedState
    now: Tally
    before: Tally
    has_risen: bool
    follows: Stage | None = None
    unsure: tuple[Stage, ...] = ()
    broken: int = 0
    reasons: tuple[ReasonCount, ...] = ()
    request_ids: tuple[str, ...] = ()
    since: str = ""
    command: str = ""


class Check(_Part, frozen=True, kw_only=True):
    """One stage, judged over the requests in which no earlier stage is broken or suspected.

    state: broken (confirmed), recovered (it was broken, and is good again for certain), worse (clearly worse than
    before, but within the objective), unclear (over the budget, but by too few requests to tell), doubted (not broken
    for certain, and in doubt in more requests than before), good, unjudged (ten requests or more reach it, and fewer
    are sound or broken), no_data (fewer reach it), not_checked (an earlier stage is broken, or it does not apply); of a
    single request its own state: sound, broken, suspected, not_known. budget: the share that may be broken. now: the
    broken ones among those judged sound or broken in the window. before: the same before the break where its beginning
    is seen, else before the window.
    """

    stage: Stage
    title: str
    state: CheckState
    owner: str
    budget: float
    finding: str
    now: Tally
    before: Tally
    unjudged: tuple[Unjudged, ...] = ()
    values: tuple[MetricChange, ...] = ()


class Judgeable(_Part, frozen=True, kw_only=True):
    """In how many requests of the window a stage is judged (sound or broken), whatever the other stages are.

    reasons: why not in the others. remedies: what would let more be judged.
    """

    stage: Stage
    judged: Tally
    reasons: tuple[ReasonCount, ...] = ()
    remedies: tuple[str, ...] = ()


class Range(_Part, frozen=True, kw_only=True):
    """What was looked at: [since, until), compared with [before_since, since). requests: how many of the random
    stratum there are in both (is_estimate: estimated, else counted), read: how many of them were drawn and have an
    analysis, analyzed: how many of those were judged with gold evidence, or without it, by the judge (a digest of
    rules, model and calibration) that counts here. reference: oracle for those with gold, else their most frequent one.
    unanalyzed: how many were drawn and have no analysis. least_sampled, most_sampled: the probabilities with which
    those that count were kept.

    Of those that were read, whatever their reference: outdated were judged by a version without states; no_retrieval
    ask for nothing that is retrieved; refused decline to answer, and nothing tells whether rightly; errors ended in an
    exception.
    """

    since: str
    until: str
    before_since: str
    requests: int
    read: int
    analyzed: int
    reference: Reference | None
    is_estimate: bool = False
    judge: str | None = None
    unanalyzed: int = 0
    outdated: int = 0
    no_retrieval: int = 0
    refused: int = 0
    errors: int = 0
    least_sampled: float = 1.0
    most_sampled: float = 1.0


class Onset(_Part, frozen=True, kw_only=True):
    """When something began, between two requests; since and before: the requests from then on, and those before it."""

    earliest: str
    latest: str
    since: Tally
    before: Tally


class Suspect(_Part, frozen=True, kw_only=True):
    """A release that could have broken the stage.

    fit: "fits" (it came when the break began), "early" or "late" (it came before or after), "unknown" (the beginning
    was not seen). is_new: it replaced nothing, its component was new to the service. offset_seconds: from the release
    to the beginning. votes: broken requests whose own diagnosis points at it, of `of`. prompt: of a hash of the prompt,
    the version of `prompt` that was in use.
    """

    release: str
    at: str
    fit: Literal["fits", "early", "late", "unknown"]
    offset_seconds: float | None
    votes: int
    of: int
    is_new: bool = False
    prompt: str | None = None


class ExemplarRequest(_Part, frozen=True, kw_only=True):
    """A request that is worth a look. cause: of its break, or why its stage is in doubt or not known."""

    request_id: str
    segment: str
    at: str
    cause: str
    suspected_release: str | None
    command: str


class Rise(_Part, frozen=True, kw_only=True):
    """A stage that is in doubt, or not known, in more requests than before. It is not called broken: no single request
    proves a break. follows, unsure: as in `Unjudged`. suspected_release: what came when it began; null for a rise that
    follows from another."""

    stage: Stage
    owner: str
    state: UnjudgedState
    finding: str
    now: Tally
    before: Tally
    follows: Stage | None = None
    unsure: tuple[Stage, ...] = ()
    reasons: tuple[ReasonCount, ...] = ()
    onset: Onset | None = None
    suspected_release: str | None = None
    release_note: str = ""
    exemplars: tuple[ExemplarRequest, ...] = ()


class Recovery(_Part, frozen=True, kw_only=True):
    """Whether the stage is back within its objective. since: when that began; after: the requests since then."""

    state: Literal["recovered", "not_recovered", "unclear"]
    finding: str
    since: str | None = None
    after: Tally | None = None


class StarvedProvider(_Part, frozen=True, kw_only=True):
    """A provider whose share of the places in prompts fell, and further than what its documents deserve; releases: of
    retrieval and ranking in both windows, as "component=version"."""

    provider: str
    now: float
    before: float
    releases: tuple[str, ...] = ()


class SegmentLine(_Part, frozen=True, kw_only=True):
    """One segment at the broken stage. better: it was broken, the service as a whole has recovered, and the
    segment's own requests since then are too few to prove it."""

    segment: str
    state: SegmentState
    now: Tally
    before: Tally
    recovered_since: str | None = None


class Tenants(_Part, frozen=True, kw_only=True):
    """How many tenants the requests of the break are of, and how many of them have a broken one."""

    known: int
    broken: int


class RequestStage(_Part, frozen=True, kw_only=True):
    """The state of one stage of a request; why it is suspected or not known, in a word and in words; the evidence."""

    stage: Stage
    state: StageState
    reason: str | None = None
    words: str = ""
    evidence: tuple[str, ...] = ()


class RequestFacts(_Part, frozen=True, kw_only=True):
    """The request that was asked for, and its own diagnosis, made anew with the releases known by now."""

    request_id: str
    segment: str
    at: str
    asked: str
    verdict: str
    stage: Stage | None
    owner: str | None
    cause: str | None
    suspected_release: str | None
    evidence: tuple[str, ...] = ()
    stages: tuple[RequestStage, ...] = ()


class CauseCount(_Part, frozen=True, kw_only=True):
    """One cause of the broken stage: in how many of `of` broken requests, and what to do about it; "" where the stage's
    runbook is all there is."""

    cause: str
    words: str
    count: int
    of: int
    fix: str = ""


class PageAnswers(_Part, frozen=True, kw_only=True):
    """What on-call said of the service's pages (`ragtrace triage judge`). precision: the share of the right ones."""

    right: int
    wrong_stage: int
    false: int
    precision: float


class CorrectedShare(_Part, frozen=True, kw_only=True):
    """The share of requests in which a stage (`any`: one of them) is the first that broke, corrected by people's
    labels, with its 95 % interval; of the last window with labels, which ended at `until`. by_verdict: the share that
    the tool named there."""

    stage: str
    by_verdict: float
    share: float
    low: float
    high: float
    labels: int
    until: str


class AlertFacts(_Part, frozen=True, kw_only=True):
    """The alert that was answered. agrees: whether the stage that it names is the one found to be broken, or where none
    is, the one at which a rise of doubt began; null where that stage does not rise.
    judgment: what on-call said of it; judge: the command that says whether it was right (or `wrong-stage`, or `false`
    in place of `right`), empty for an alert without a stage."""

    name: str
    status: str
    fingerprint: str
    starts_at: str
    labels: dict[str, str] = {}
    agrees: bool | None = None
    judgment: str | None = None
    judge: str = ""


class Report(_Part, frozen=True, kw_only=True):
    """A whole triage. conclusion: a few sentences that stand by themselves. stage, owner, suspected_release: of the
    first broken stage; null where no break is confirmed. rises: stages that are in doubt or not known more often than
    before, which proves no break. judgeable: how much can be judged at all. gate_note: what the release gate had said
    of the suspected release. causes: of the broken requests, the most frequent first. pages: null where on-call has
    judged none of the service's. calibration: what its calibrations promise, null where it has none; corrected: rates
    by people's labels, none where there are too few. starved: providers that lost places in prompts which their
    documents deserve, where a release came and neither retrieval nor ranking is broken."""

    schema: str = SCHEMA
    subject: Literal["request", "segment", "alert"]
    service: str
    segment: str | None
    made_at: str
    conclusion: str
    stage: Stage | None = None
    owner: str | None = None
    suspected_release: str | None = None
    release_note: str = ""
    gate_note: str = ""
    range: Range | None = None
    request: RequestFacts | None = None
    alert: AlertFacts | None = None
    judgeable: tuple[Judgeable, ...] = ()
    checks: tuple[Check, ...] = ()
    rises: tuple[Rise, ...] = ()
    causes: tuple[CauseCount, ...] = ()
    onset: Onset | None = None
    suspects: tuple[Suspect, ...] = ()
    recovery: Recovery | None = None
    segments: tuple[SegmentLine, ...] = ()
    more_segments: int = 0
    tenants: Tenants | None = None
    exemplars: tuple[ExemplarRequest, ...] = ()
    pages: PageAnswers | None = None
    calibration: str | None = None
    corrected: tuple[CorrectedShare, ...] = ()
    starved: tuple[StarvedProvider, ...] = ()
