"""What the store hands out and takes in beside records: rows of its tables as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragtrace.types import Analysis

__all__ = [
    "ATTRIBUTION",
    "COVERAGE",
    "ChunkSeen",
    "Delta",
    "Drift",
    "Exemplar",
    "Finished",
    "FollowUp",
    "Job",
    "JobState",
    "Labels",
    "Release",
    "RequestRow",
    "SchemaState",
    "Total",
]

COVERAGE: Final = "coverage"
ATTRIBUTION: Final = "attribution"

Labels: TypeAlias = tuple[tuple[str, str], ...]
JobState: TypeAlias = Literal["pending", "leased", "done", "dead"]


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One request that stands for a series: its trace, its value, and when, in Unix seconds."""

    trace_id: str
    value: float
    at: float


@dataclass(frozen=True, slots=True)
class Delta:
    """By how much one series grows. `name` is the series' full name (`..._bucket`, `..._total`); `labels` are sorted
    by the store, so that one set of labels is one series."""

    name: str
    labels: Labels
    value: float
    exemplar: Exemplar | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """One series as it stands: the sum of all its deltas, and its latest exemplar."""

    name: str
    labels: Labels
    value: float
    exemplar: Exemplar | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One leased job. `lease_token` is the fence: what is finished under a token that another claim has replaced is
    not written. `attempts` counts the leases taken, this one included."""

    id: int
    request_id: str
    kind: str
    analyzer_version: str
    record_revision: int
    service: str
    attempts: int
    lease_token: str
    priority: int
    flagged: bool


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A job that a result asks for. `flagged`: because of the request's flags, and not drawn at random."""

    kind: str
    analyzer_version: str
    flagged: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """A job's outcome: the analysis to store, the deltas that it adds to the totals, the job that it asks for."""

    job: Job
    analysis: Analysis
    deltas: tuple[Delta, ...] = ()
    follow_up: FollowUp | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """A version of a component of a service, and when a request first carried it (nanoseconds since the epoch)."""

    service: str
    component: str
    version: str
    first_seen_at: int


@dataclass(frozen=True, slots=True)
class ChunkSeen:
    """What a chunk id held when a request found it, under which version of the index."""

    service: str
    index_version: str
    chunk_id: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class Drift:
    """How the chunks of one index version differ from those of an earlier one, as far as requests found them.

    rewritten_ids: some ids that hold other content now; renumbered_ids: some pairs of the id before and the id now.
    """

    service: str
    previous_version: str
    version: str
    unchanged: int = 0
    rewritten: int = 0
    renumbered: int = 0
    rewritten_ids: tuple[str, ...] = ()
    renumbered_ids: tuple[tuple[str, str], ...] = ()

    @property
    def chunks(self) -> int:
        """How many chunks were compared."""
        return self.unchanged + self.rewritten + self.renumbered


@dataclass(frozen=True, slots=True)
class RequestRow:
    """The narrow columns of one request, with its newest coverage diagnosis where there is one."""

    request_id: str
    service: str
    segment: str
    started_at: int
    ended_at: int
    status: str
    trace_id: str | None
    query_class: str | None
    flags: tuple[str, ...]
    head_sampled: bool
    head_probability: float
    record_revision: int
    verdict: str | None = None
    stage: str | None = None
    owner: str | None = None
    suspected_rollout: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The revision of a database's schema (None: empty, or no database yet) and the one that this ragtrace needs."""

    current: str | None
    head: str
