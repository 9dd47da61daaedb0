"""What the store hands out and takes in for comparisons of versions: requests in columns, and the gate's runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ragtrace.types import Analysis, Reference, Stage, StageState

__all__ = [
    "SILENT",
    "UNANSWERED",
    "GateRun",
    "Judge",
    "Measured",
    "Replayed",
    "Traits",
    "Wanted",
    "unanswered",
    "verifier_of",
]

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


@dataclass(frozen=True, slots=True, order=True)
class Judge:
    """What judged a request. id: `Diagnosis.judge`, "" where a version before 8 judged. verifier: the model that judged
    the claims, "" for words alone."""

    id: str
    verifier: str = ""

    @property
    def name(self) -> str:
        """As people are told of it."""
        return f"{self.verifier or 'words alone'}{f' (judge {self.id})' if self.id else ''}"


def verifier_of(analysis: Analysis) -> str | None:
    """The model that judged the claims of an answer, "" for words alone; None where it has no claim."""
    if not analysis.claims:
        return None
    return analysis.verified_by.name if analysis.verified_by else ""


@dataclass(slots=True)
class Measured:
    """One request as it is compared: its traits, its newest coverage diagnosis (None before it is analyzed), and the
    values of the metrics that were asked for, in their order. states: of the stages that apply; none where a version
    before 8 judged. cause: of the first broken stage. judge: `Diagnosis.judge`. verifier: the model that judged its
    claims, "" for words alone; None where it has none, or where that was not looked up."""

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
    states: dict[Stage, StageState] = field(default_factory=dict)
    cause: str | None = None
    values: tuple[float | None, ...] = ()
    judge: str | None = None
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
