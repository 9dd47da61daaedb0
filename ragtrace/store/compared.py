"""What the store hands out and takes in for comparisons of versions: requests in columns, and the gate's runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ragtrace.types import Reference, Stage

__all__ = ["SILENT", "UNANSWERED", "GateRun", "Measured", "Replayed", "Traits", "Wanted", "unanswered"]

UNANSWERED: Final = "unanswered"
"""Among the metrics of `Measured`: 1 where the answer states nothing, 0 where it states something."""

SILENT: Final = ("abstained", "no_answer", "no_factual_claims")
"""Why answer coverage is undefined where the answer states nothing. Other reasons tell nothing of the answer."""


def unanswered(coverage: float | None, reason: str | None) -> float | None:
    """`UNANSWERED` of a request, by its answer coverage, and by why that is undefined."""
    if coverage is not None:
        return 0.0
    return 1.0 if reason in SILENT else None


@dataclass(frozen=True, slots=True)
class Traits:
    """What tells which requests can be compared. question: a replay's own question id, else the hash of the question;
    "" where nothing was asked. cluster: the session, else the document that a replay names. attempt: of a replay.
    """

    question: str
    cluster: str | None
    versions: dict[str, str]
    input_tokens: int | None = None
    output_tokens: int | None = None
    replay: str | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Replayed:
    """One attempt at one question of a replay. status: the request's, `ok` or `error`."""

    question: str
    attempt: int
    request_id: str
    service: str
    status: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which requests are compared: of a service, in [since, until) nanoseconds, of a replay (None: of none), with these
    versions."""

    service: str
    since: int | None = None
    until: int | None = None
    replay: str | None = None
    versions: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Measured:
    """One request as it is compared: its traits, its newest coverage diagnosis (None before it is analyzed), and the
    values of the metrics that were asked for, in their order. verifier: the model that judged its claims, "" for words
    alone; None where it was not looked up."""

    request_id: str
    segment: str
    started_at: int
    ended_at: int
    status: str
    head_sampled: bool
    head_probability: float
    traits: Traits
    analyzer_version: str | None = None
    reference: Reference = "none"
    verdict: str | None = None
    stage: Stage | None = None
    cause: str | None = None
    values: tuple[float | None, ...] = ()
    verifier: str | None = None


@dataclass(frozen=True, slots=True)
class GateRun:
    """One decision of the release gate. created_at: nanoseconds since the epoch. baseline, candidate: the selections.
    decision: `pass`, `block` or `undecided`. versions: the (component, version) pairs of the candidate."""

    run_id: str
    service: str
    created_at: int
    decision: str
    baseline: str
    candidate: str
    first_broken: str | None = None
    versions: tuple[tuple[str, str], ...] = ()
