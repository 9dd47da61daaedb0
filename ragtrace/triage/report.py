"""What a triage found: plain data, as `--json` prints it and `docs/triage.schema.json` describes it.

Times are ISO 8601 in UTC; shares lie in [0, 1]; null is undefined or unknown, never zero.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from ragtrace.types import Reference, Stage

__all__ = [
    "SCHEMA",
    "AlertFacts",
    "Check",
    "CheckState",
    "Onset",
    "Range",
    "Recovery",
    "Report",
    "RequestFacts",
    "SegmentLine",
    "SegmentState",
    "Suspect",
    "Tally",
    "Telling",
    "Tenants",
    "Value",
]

SCHEMA: Final = "ragtrace.triage/1"

CheckState: TypeAlias = Literal["broken", "recovered", "worse", "unclear", "good", "no_data", "not_checked"]
SegmentState: TypeAlias = Literal["broken", "better", "recovered", "unclear", "good", "no_data"]


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every part of a report."""


class Tally(_Part, frozen=True, kw_only=True):
    """How many requests of known health were bad, as they were drawn. share: of the traffic, each request weighted by
    the inverse of the probability with which it was kept; low and high: its 95 % bounds (Wilson, by the effective
    number of requests)."""

    bad: int
    known: int
    share: float | None
    low: float
    high: float


class Value(_Part, frozen=True, kw_only=True):
    """One metric: its mean over the requests that define it, now and before."""

    metric: str
    name: str
    objective: str | None = None
    now: float | None = None
    now_count: int = 0
    before: float | None = None
    before_count: int = 0


class Check(_Part, frozen=True, kw_only=True):
    """One stage, judged over the requests that nothing before it had broken.

    state: broken (confirmed), recovered (it was broken, and is good again for certain), worse (clearly worse than
    before, but within the objective), unclear (over the budget, but by too few requests to tell), good, no_data (fewer
    than ten requests tell), not_checked (an earlier stage is broken). budget: the share that may be bad.
    now: the window. before: what was before the break where its beginning is seen, else the time before the window.
    """

    stage: Stage
    title: str
    state: CheckState
    owner: str
    budget: float
    finding: str
    now: Tally
    before: Tally
    values: tuple[Value, ...] = ()


class Range(_Part, frozen=True, kw_only=True):
    """What was looked at: [since, until), compared with [before_since, since). requests: how many of the random
    stratum there are in both, read: how many of them were drawn and have an analysis, analyzed: how many of those have
    it with the reference that counts here. unanalyzed: how many were drawn and have no analysis. least_sampled,
    most_sampled: the probabilities with which those that count were kept."""

    since: str
    until: str
    before_since: str
    requests: int
    read: int
    analyzed: int
    reference: Reference | None
    unanalyzed: int = 0
    least_sampled: float = 1.0
    most_sampled: float = 1.0


class Onset(_Part, frozen=True, kw_only=True):
    """When the break began, between two requests; since and before: the requests of the break, and those before it."""

    earliest: str
    latest: str
    since: Tally
    before: Tally


class Suspect(_Part, frozen=True, kw_only=True):
    """A release that could have broken the stage.

    fit: "fits" (it came when the break began), "early" or "late" (it came before or after), "unknown" (the beginning
    was not seen). offset_seconds: from the release to the beginning. votes: broken requests whose own diagnosis points
    at it, of `of`.
    """

    release: str
    at: str
    fit: Literal["fits", "early", "late", "unknown"]
    offset_seconds: float | None
    votes: int
    of: int


class Recovery(_Part, frozen=True, kw_only=True):
    """Whether the stage is back within its objective. since: when that began; after: the requests since then."""

    state: Literal["recovered", "not_recovered", "unclear"]
    finding: str
    since: str | None = None
    after: Tally | None = None


class SegmentLine(_Part, frozen=True, kw_only=True):
    """One segment at the broken stage. better: it was broken, the service as a whole has recovered, and the
    segment's own requests since then are too few to prove it."""

    segment: str
    state: SegmentState
    now: Tally
    before: Tally
    recovered_since: str | None = None


class Tenants(_Part, frozen=True, kw_only=True):
    """How many tenants the requests of the break are of, and how many of them have a bad one."""

    known: int
    broken: int


class Telling(_Part, frozen=True, kw_only=True):
    """A broken request that is worth a look."""

    request_id: str
    segment: str
    at: str
    cause: str
    suspected_release: str | None
    command: str


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
    missing: tuple[str, ...] = ()


class AlertFacts(_Part, frozen=True, kw_only=True):
    """The alert that was answered. agrees: whether the stage that it names is the one found; null where none was."""

    name: str
    status: str
    fingerprint: str
    starts_at: str
    labels: dict[str, str] = {}
    agrees: bool | None = None


class Report(_Part, frozen=True, kw_only=True):
    """A whole triage. conclusion: one or two sentences that stand by themselves. gate_note: what the release gate had
    said of the suspected release."""

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
    checks: tuple[Check, ...] = ()
    onset: Onset | None = None
    suspects: tuple[Suspect, ...] = ()
    recovery: Recovery | None = None
    segments: tuple[SegmentLine, ...] = ()
    more_segments: int = 0
    tenants: Tenants | None = None
    telling: tuple[Telling, ...] = ()
