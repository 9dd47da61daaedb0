"""Rows: what the store hands out and takes in beside records, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from ragtrace.types import ANALYZER_VERSION, Analysis, Feedback, Reference, RequestRecord, Stage, StageState

__all__ = [
    "ATTRIBUTION",
    "COVERAGE",
    "SILENT",
    "UNANSWERED",
    "Assembled",
    "Backlog",
    "CalibrationState",
    "ChunkSeen",
    "Citing",
    "CorrectedRate",
    "DeletionRecord",
    "Delta",
    "DiagnosisSummary",
    "Drawing",
    "Drawn",
    "Drift",
    "DueTrace",
    "Exemplar",
    "FaultFigures",
    "Finished",
    "FollowUp",
    "GateRun",
    "GradeLine",
    "Job",
    "JobRow",
    "JobState",
    "Judge",
    "Judgment",
    "Labels",
    "Listing",
    "MeasuredRequest",
    "PageJudgment",
    "PageJudgmentCount",
    "Position",
    "Release",
    "Replayed",
    "RequestFilter",
    "RequestLabel",
    "RequestPage",
    "RequestRow",
    "Sample",
    "Sampled",
    "SchemaState",
    "ServiceCalibration",
    "ServiceTraffic",
    "ShadowCounts",
    "SourceState",
    "SpanPart",
    "StoredPart",
    "Total",
    "TraceJudgment",
    "Traits",
    "unanswered",
    "verifier_of",
]

COVERAGE: Final = "coverage"
ATTRIBUTION: Final = "attribution"

FEWEST_ANSWERS: Final = 20  # from which on a service that does not count as citing is known not to

Labels: TypeAlias = tuple[tuple[str, str], ...]
JobState: TypeAlias = Literal["pending", "leased", "done", "dead"]
Judgment: TypeAlias = Literal["right", "wrong_stage", "false"]


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
class DeletionRecord:
    """What somebody had deleted. at: nanoseconds; actor: user and host; rows: how many, by table."""

    at: int
    actor: str
    action: str
    subject: dict[str, str]
    rows: dict[str, int]


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
    """The narrow columns of one request, with its newest coverage diagnosis where there is one. reasons: why a stage is
    suspected or not known, where that has a reason."""

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
    states: dict[Stage, StageState] = field(default_factory=dict)
    reasons: dict[Stage, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which requests a page lists; None: any. since, until: nanoseconds, [since, until). stage: the first that broke;
    doubt: the state of some stage, or of `stage` where both are given; in_doubt: a stage that is in doubt or broken, as
    `Sampled.doubted` has it, or `distant`: an answer far from its question; reason: of some stage; rollout: the
    suspected one, and version: one that the request carried, both `component=version`. provider: of some candidate, as
    the worker names it. is_labeled: whether somebody has labeled it. search: words that its question and answer hold,
    all of them, in any order. oldest_first: the order, which is newest first else, and of a search always."""

    service: str | None = None
    segment: str | None = None
    tenant_id: str | None = None
    session_id: str | None = None
    since: int | None = None
    until: int | None = None
    stage: str | None = None
    verdict: str | None = None
    doubt: str | None = None
    in_doubt: str | None = None
    reason: str | None = None
    rollout: str | None = None
    version: str | None = None
    provider: str | None = None
    flag: str | None = None
    status: str | None = None
    is_labeled: bool | None = None
    search: str | None = None
    oldest_first: bool = False


class Position(NamedTuple):
    """A place in the order of requests by time."""

    started_at: int
    request_id: str


class DiagnosisSummary(NamedTuple):
    """A request's newest coverage diagnosis, as a page over thousands of them counts it. states, reasons: by stage in
    the order of the path, None where the stage does not apply, or there is no reason. expenses: JSON by stage, of
    microseconds, tokens in and out, who counted them, and cost; None of an analysis before these were kept."""

    request_id: str
    segment: str
    started_at: int
    head_probability: float
    verdict: str
    stage: Stage | None
    cause: str | None
    suspected_rollout: str | None
    expenses: str | None
    states: tuple[StageState | None, ...]
    reasons: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class RequestPage:
    """A page of requests, newest first. after: where the next page begins, None at the end. scanned_to: how far was
    looked where that ended the page before it was full."""

    rows: tuple[RequestRow, ...]
    after: Position | None
    scanned_to: Position | None


@dataclass(frozen=True, slots=True)
class SearchState:
    """Whether words can be searched for; how many of the requests are in the index, and how many could not be read."""

    is_on: bool
    indexed: int = 0
    requests: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class Sampled:
    """One request's newest coverage analysis in few columns: where it broke, the states of the stages that apply (none
    where a version before 8 judged, or nothing is retrieved), why a stage is suspected or not known, which are in doubt
    (`StageFinding.doubted`), whether the answer is far from its question (`StageFinding.distant`), the scores that were
    asked for, and what judged (`Diagnosis.judge`)."""

    request_id: str
    segment: str
    started_at: int
    head_probability: float
    analyzer_version: str
    verdict: str
    reference: Reference
    stage: Stage | None
    cause: str | None
    suspected_rollout: str | None
    states: dict[Stage, StageState]
    reasons: dict[Stage, str]
    scores: dict[str, float | None]
    judge: str | None = None
    doubted: frozenset[Stage] = frozenset()
    is_distant: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """Requests that were drawn evenly from traffic: those that are analyzed, oldest first. stored: how many there are,
    counted or (is_estimate) estimated; drawn: how many were drawn, analyzed or not."""

    rows: tuple[Sampled, ...]
    stored: int
    drawn: int
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class PageJudgment:
    """What on-call said of one alert. judged_at: nanoseconds."""

    alert_id: str
    service: str
    segment: str
    stage: str
    severity: str
    judgment: Judgment
    judged_at: int
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class PageJudgmentCount:
    """How many alerts of a service and severity got one answer."""

    service: str
    severity: str
    judgment: Judgment
    count: int


@dataclass(frozen=True, slots=True)
class Citing:
    """Of a service's last answers with claims, how many cite a chunk of their prompt.

    since: when it began to count as citing, None where it does not. counted_from: answers of requests that began before
    do not count, since somebody had it forgotten. Nanoseconds.
    """

    answers: int = 0
    cited: int = 0
    since: int | None = None
    counted_from: int = 0

    @property
    def cites(self) -> bool | None:
        """Whether the service's answers are judged by their citations; None while too few answers have come."""
        if self.since is not None:
            return True
        return False if self.answers >= FEWEST_ANSWERS else None


@dataclass(frozen=True, slots=True)
class ServiceTraffic:
    """What a service usually returns, without a word of it.

    seen: checksums of chunks; counts: in how many of these each word stands, by a checksum of the word; doubts: how
    much each stage of some requests was in doubt, the newest last, by what judged and the name of the score; requests:
    how many were looked at; made_at: when, in nanoseconds.
    """

    seen: frozenset[int] = frozenset()
    counts: dict[int, int] = field(default_factory=dict)
    doubts: dict[str, dict[str, tuple[float, ...]]] = field(default_factory=dict)
    requests: int = 0
    made_at: int = 0


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The revision of a database's schema (None: empty, or no database yet) and the one that this ragtrace needs."""

    current: str | None
    head: str


@dataclass(frozen=True, slots=True)
class SpanPart:
    """Spans of one trace as they arrived together, as an OTLP request in protobuf.

    `tenant` is "" where there is but one; `ended`: the trace's root is among them."""

    tenant: str
    trace_id: str
    body: bytes
    ended: bool


@dataclass(frozen=True, slots=True)
class TraceJudgment:
    """A judgment of the request of a trace, whose id the sender need not know: `said.request_id` is empty."""

    tenant: str
    trace_id: str
    said: Feedback


@dataclass(frozen=True, slots=True)
class DueTrace:
    """A trace to assemble: how many parts it has, how often it was tried before, the bytes of its parts, and when the
    lease of whoever took it ends, in Unix seconds."""

    tenant: str
    trace_id: str
    parts: int
    attempts: int
    bytes: int = 0
    leased_until: float = 0.0


class StoredPart(NamedTuple):
    """A part of a trace as it came, in protobuf, by its digest. `alone`: the bytes that it takes in the store by
    itself; 0 where it is stored against the texts of its record."""

    digest: str
    body: bytes
    alone: int = 0


class Assembled(NamedTuple):
    """A trace that was assembled: its record, None where its spans tell nothing of RAG, and the parts that were read
    for it. `span_ids`: of all of its spans. `judgments`: what its spans say of a request, where they make none."""

    trace: DueTrace
    record: RequestRecord | None
    parts: Sequence[StoredPart] = ()
    span_ids: Set[str] = frozenset()
    judgments: Sequence[Feedback] = ()


UNANSWERED: Final = "unanswered"
"""Among the metrics of `MeasuredRequest`: 1 where the answer states nothing, 0 where it states something."""

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
class RequestFilter:
    """Which requests are compared: of a service, in [since, until) nanoseconds, of a replay (None: of none), with these
    versions. others: of requests that carry these components, not all of them in these versions; (): of all."""

    service: str
    since: int | None = None
    until: int | None = None
    replay: str | None = None
    versions: tuple[tuple[str, str], ...] = ()
    others: tuple[tuple[str, str], ...] = ()


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
class MeasuredRequest:
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


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """The share of a drawing's requests in which a stage is the first that broke, corrected by labels, with its
    interval of 95 %. stage: `any` for all of them. verdict: the share that the tool names. labels: how many were used.
    """

    stage: str
    rate: float
    low: float
    high: float
    verdict: float
    labels: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """Which requests are to be labeled: the random stratum of a service in [since, until) nanoseconds, with these
    versions and this judge. uniform: the share of the draw that all requests have alike. rates: as computed last.
    population: how many requests could be drawn when they were."""

    drawing_id: str
    service: str
    since: int
    until: int
    versions: dict[str, str]
    judge: str
    drawn_at: int
    uniform: float
    rates: tuple[CorrectedRate, ...] = ()
    population: int = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """A request of a drawing. place: in the order of the draw, from 0. stratum: how sure the verdict was when it was
    drawn. probability: with which it was drawn, of the requests of the random stratum."""

    request_id: str
    place: int
    stratum: str
    probability: float


@dataclass(frozen=True, slots=True)
class RequestLabel:
    """What one labeler says of one request.

    first_broken: a stage, `none`, or `cannot_tell`. stages: `sound`, `broken` or `cannot_tell` of each stage that was
    asked. needed: the chunks that the answer needs, empty where no candidate holds it; None where that was not told.
    labeled_at: nanoseconds. verdict, judge, analyzer_version: the tool's, when the label was given.
    """

    request_id: str
    labeler: str
    first_broken: str
    stages: dict[str, str] = field(default_factory=dict)
    needed: tuple[str, ...] | None = None
    note: str | None = None
    labeled_at: int = 0
    verdict: str | None = None
    judge: str | None = None
    analyzer_version: str | None = None


CalibrationState: TypeAlias = Literal["shadow", "active", "retired"]


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """What a judge says of requests that were broken on purpose at one stage. injected: how many; named: as what they
    are; misnamed: as broken at another stage first; suspected: their stage is, and none is named."""

    stage: Stage
    injected: int
    named: int
    misnamed: int
    suspected: int


@dataclass(frozen=True, slots=True)
class ShadowCounts:
    """What a calibration in shadow would have said: of so many requests, how many the judge at work named as broken,
    and how many the one in shadow."""

    requests: int = 0
    named: int = 0
    shadow_named: int = 0


@dataclass(frozen=True, slots=True)
class GradeLine:
    """From which grades on retrieval of a service is CORRECT and AMBIGUOUS, of one judge of relevance, and how that was
    found.

    judge: its name, `host` for the grades of the application. wanted: the share in which CORRECT shall be right.
    share, low, high: that in which it was, with its 95 % interval, on `requests` graded CORRECT that the fit did not
    see; None of none. fitted_on: requests of the fit. since, until: their window; these and fitted_at in nanoseconds.
    """

    service: str
    judge: str
    upper: float
    lower: float
    wanted: float
    share: float | None = None
    low: float | None = None
    high: float | None = None
    requests: int = 0
    fitted_on: int = 0
    since: int = 0
    until: int = 0
    fitted_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCalibration:
    """The lines of proof of one service and judge, and what they were fitted on; frozen once it is made.

    judge: the digest of rules and models, without a calibration; rules: the analyzer's version, another one of which
    judges by the lines that all services have; models: their names, "" for words alone. since, until:
    the window, in nanoseconds, in which `requests` were judged as they are. raised: by how much, in log odds, the line
    of each rule is raised (None: it proves nothing). blamed: the share of these requests that is named, weighted by
    the sample, and the upper end of its interval: an upper bound of false blame, or false blame itself where
    `labeled_sound` requests that people call sound were enough to measure it. faults: by stage, of injected ones.
    suspected: of the untouched requests, the share in which a stage is suspected or broken.
    """

    calibration_id: str
    service: str
    judge: str
    rules: str = ANALYZER_VERSION
    models: str = ""
    state: CalibrationState = "shadow"
    created_at: int = 0
    accepted_at: int | None = None
    since: int = 0
    until: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    raised: dict[str, float | None] = field(default_factory=dict)
    requests: int = 0
    blamed: float = 0.0
    blamed_high: float = 1.0
    suspected: float = 0.0
    labeled_sound: int = 0
    faults: tuple[FaultFigures, ...] = ()
    shadow: ShadowCounts = ShadowCounts()

    @property
    def is_current(self) -> bool:
        """Whether the rules that it was fitted on are those of today."""
        return self.rules == ANALYZER_VERSION
