"""What the store hands out and takes in beside records: rows of its tables as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragtrace.types import Analysis, Reference, Stage

__all__ = [
    "ATTRIBUTION",
    "COVERAGE",
    "Backlog",
    "ChunkSeen",
    "Delta",
    "Drift",
    "Exemplar",
    "Finished",
    "FollowUp",
    "Job",
    "JobRow",
    "JobState",
    "Labels",
    "Release",
    "RequestRow",
    "Sampled",
    "SchemaState",
    "SourceState",
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
class JobRow:
    """A job as it stands in the queue; times in Unix seconds. `error`: of the last attempt that failed."""

    id: int
    request_id: str
    kind: str
    service: str
    state: JobState
    attempts: int
    flagged: bool
    created_at: float
    available_at: float
    lease_expires_at: float | None
    finished_at: float | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """The jobs of one kind that are not done, by state, and when the oldest one that could run now was enqueued, in
    Unix seconds; None where none could."""

    pending: int = 0
    leased: int = 0
    dead: int = 0
    oldest: float | None = None


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A job that a result asks for. `flagged`: because of the request's flags, and not drawn at random."""

    kind: str
    analyzer_version: str
    flagged: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """A job's outcome: the analysis to store, the deltas that it adds to the totals, the job that it asks for.

    seconds: what it took on the CPU, where that was not reported by `Store.spend` before.
    """

    job: Job
    analysis: Analysis
    deltas: tuple[Delta, ...] = ()
    follow_up: FollowUp | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Release:
    """A version of a component of a service. first_seen_at: when a request first carried it, None while none has.
    recorded_at: when it came into use, where somebody has said so. Nanoseconds since the epoch; one of both is there.
    """

    service: str
    component: str
    version: str
    first_seen_at: int | None = None
    recorded_at: int | None = None

    @property
    def at(self) -> int:
        """When it came into use: as recorded, else when a request first carried it."""
        return (self.first_seen_at or 0) if self.recorded_at is None else self.recorded_at

    @property
    def known_since(self) -> int:
        """The earliest that is known of it: a version that is rolled back to was there before it came back."""
        return min((at for at in (self.first_seen_at, self.recorded_at) if at is not None), default=0)


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the reports on one source of documents say by now. Times are nanoseconds since the epoch.

    documents, newest_at, delay_seconds: of the last report that names each. usual_documents: the median of the reports
    before the last one that counts documents; None while those are too few.
    """

    service: str
    source: str
    reported_at: int
    documents: int | None = None
    newest_at: int | None = None
    delay_seconds: float | None = None
    usual_documents: float | None = None
    is_unusual: bool = False

    @property
    def change(self) -> float | None:
        """Documents more or less than usual, as a share of the usual number."""
        if self.documents is None or not self.usual_documents:
            return None
        return self.documents / self.usual_documents - 1.0


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
class Sampled:
    """One request's newest coverage analysis in few columns: where it broke, and the scores that were asked for."""

    request_id: str
    segment: str
    started_at: int
    head_probability: float
    reference: Reference
    stage: Stage | None
    cause: str | None
    suspected_rollout: str | None
    scores: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The revision of a database's schema (None: empty, or no database yet) and the one that this ragtrace needs."""

    current: str | None
    head: str
