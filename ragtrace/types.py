"""The record: the one versioned description of a request that every part of ragtrace reads and writes.

Frozen msgspec structs, strict on write (`encode_record` refuses what it could not read back), tolerant on read
(unknown fields are ignored, fields of version n-1 are filled in by `decode_record`).

Conventions: times are integer nanoseconds since the Unix epoch, durations integer nanoseconds, ranks start at 1
(1 = best), probabilities and coverages lie in [0, 1], `None` means undefined or unknown, never zero.
"""

from __future__ import annotations

import hashlib
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ragtrace.errors import RecordError
from ragtrace.explanations import Explanation

__all__ = [
    "ANALYZER_VERSION",
    "SCHEMA_VERSION",
    "Addendum",
    "Analysis",
    "Candidate",
    "Citation",
    "Claim",
    "Diagnosis",
    "DroppedChunk",
    "ErrorInfo",
    "Facet",
    "FacetKind",
    "FacetMatch",
    "Fault",
    "Feedback",
    "GenerateRun",
    "Generation",
    "Gold",
    "Grade",
    "Grading",
    "HostGrades",
    "IndexProbe",
    "Item",
    "LostChunk",
    "Metadata",
    "PackRun",
    "PackedChunk",
    "Packing",
    "ProbeCause",
    "ProbeOutcome",
    "ProbedChunk",
    "Query",
    "RankMove",
    "Reference",
    "RequestRecord",
    "RerankRun",
    "RetrievalAction",
    "RetrieveRun",
    "SampledRanking",
    "Score",
    "SourceReport",
    "Stage",
    "StageExpense",
    "StageFinding",
    "StageRun",
    "StageState",
    "TakenRequest",
    "TokenSource",
    "TokenUsage",
    "VerifiedBy",
    "content_hash",
    "decode_addendum",
    "decode_record",
    "encode_addendum",
    "encode_record",
    "replace",
    "to_builtins",
]

SCHEMA_VERSION: Final = 1
ANALYZER_VERSION: Final = "coverage-19"  # raise it whenever a change could give a stored request another score

_REMEMBERED: Final = 2000  # characters; the hashes of longer texts are not kept
_MOST_HASHES: Final = 8192


Metadata: TypeAlias = dict[str, Any]
Stage: TypeAlias = Literal["retrieval", "ranking", "generation", "citation"]
StageState: TypeAlias = Literal["sound", "broken", "suspected", "not_known"]
Reference: TypeAlias = Literal["oracle", "proxy", "none"]
ProbeCause: TypeAlias = Literal["not_indexed", "missed_by_search", "below_depth", "filtered"]
ProbeOutcome: TypeAlias = Literal["found", "nothing_better", "another_version", "other_search", "failed"]
TokenSource: TypeAlias = Literal["reported", "tokenizer", "estimate"]
FacetKind: TypeAlias = Literal["entity", "time", "jurisdiction", "version", "quantity", "custom"]


class _Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of every part of a record."""


class ErrorInfo(_Struct, frozen=True, kw_only=True):
    """An exception that passed through a request or one of its stages."""

    type: str
    message: str = ""
    stage: str | None = None


class Facet(_Struct, frozen=True, kw_only=True):
    """One constraint that the evidence must meet: an entity, a time, a place, a version, a quantity.

    `aliases` are other surface forms that count as the same value; `weight` > 0; `why` says what it was read from.
    `weak`: a key term in small letters, which evidence may say in other words. It counts in no score and can only raise
    a suspicion.
    """

    kind: FacetKind
    value: str
    weight: float = 1.0
    source: Literal["host", "query", "gold"] = "host"
    aliases: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None
    why: str | None = None
    weak: bool = False


class Query(_Struct, frozen=True, kw_only=True):
    """What was asked (`original`), and what the retriever was really given (`rewritten`, when it differs)."""

    original: str = ""
    rewritten: str | None = None
    query_class: str | None = None
    facets: tuple[Facet, ...] = ()


class Candidate(_Struct, frozen=True):
    """One chunk that a retriever returned. `rank` starts at 1. `text` lives in the content store under
    `content_hash` and is absent where content is not captured."""

    chunk_id: str
    rank: int
    score: float | None = None
    doc_id: str | None = None
    source: str | None = None
    modality: str = "text"
    metadata: Metadata = {}
    content_hash: str | None = None
    text: str | None = None


class RankMove(_Struct, frozen=True):
    """One chunk's way through a reranker. `rank_after` is None when the reranker dropped it, `rank_before` is None
    when it was not among its inputs."""

    chunk_id: str
    rank_before: int | None = None
    rank_after: int | None = None
    score: float | None = None


class PackedChunk(_Struct, frozen=True):
    """One chunk as it stands in the prompt. `text` is what was really given (cut when `truncated`).

    `given_start` and `given_end` say which part of the chunk's full text that is, from its first to its last character;
    None: all of it, or unknown. A chunk that is not `truncated` has them when the rest of it stands in the prompt as a
    neighbor's text, with which it overlaps.
    """

    chunk_id: str
    position: int
    tokens: int | None = None
    tokens_full: int | None = None
    truncated: bool = False
    content_hash: str | None = None
    text: str | None = None
    given_start: int | None = None
    given_end: int | None = None


class DroppedChunk(_Struct, frozen=True):
    """One chunk that packing left out, and why: `budget`, `duplicate`, `filter`, `limit` or the host's own word.

    `inferred`: the host stated no reason, this one is what the packing looks like, and no proof.
    """

    chunk_id: str
    reason: str = "unknown"
    inferred: bool = False

    @property
    def why(self) -> str:
        """The reason as it is shown."""
        return f"probably {self.reason}" if self.inferred else self.reason


class Packing(_Struct, frozen=True, kw_only=True):
    """What reached the prompt, in prompt order, and what did not."""

    chunks: tuple[PackedChunk, ...] = ()
    dropped: tuple[DroppedChunk, ...] = ()
    budget_tokens: int | None = None


class Citation(_Struct, frozen=True, kw_only=True):
    """A citation mark in the answer (`start`, `end` are offsets into it) and the packed chunk that it names.
    `chunk_id` is None for a dangling citation."""

    marker: str
    chunk_id: str | None = None
    start: int | None = None
    end: int | None = None


class TokenUsage(_Struct, frozen=True, kw_only=True):
    """Token counts as the model reported them."""

    input_tokens: int | None = None
    output_tokens: int | None = None


class Generation(_Struct, frozen=True, kw_only=True):
    """The answer. `prompt_template` holds `{chunk:ID}` where packed chunks stood, so that the prompt can be rebuilt
    for any subset of them. `citations` are those that the host reported; others are read from the answer."""

    answer: str | None = None
    answer_hash: str | None = None
    prompt_template: str | None = None
    citations: tuple[Citation, ...] = ()
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    model: str | None = None


class _Run(_Struct, frozen=True, kw_only=True, tag_field="stage"):
    """One run of one stage. A stage that runs twice in a request has two runs. `unread`: what the host's code returned
    could not be understood, so that nothing is known of the outcome."""

    name: str = ""
    started_at: int = 0
    ended_at: int = 0
    span_id: str | None = None
    error: ErrorInfo | None = None
    unread: bool = False

    @property
    def duration_ns(self) -> int:
        """Wall time of the run in nanoseconds, never negative."""
        return max(0, self.ended_at - self.started_at)

    @property
    def is_known(self) -> bool:
        """Whether the run ended well and what it returned was understood."""
        return self.error is None and not self.unread


class RetrieveRun(_Run, frozen=True, kw_only=True, tag="retrieve"):
    """One retriever call: the query it was given and every candidate it returned, best first.

    `incomplete`: some of the candidates are missing here, since a limit on spans cut them off on their way or they were
    never put on the span; what is not among them is then not known to have been missed by the retriever.
    """

    query: str | None = None
    top_k: int | None = None
    candidates: tuple[Candidate, ...] = ()
    incomplete: bool = False


class RerankRun(_Run, frozen=True, kw_only=True, tag="rerank"):
    """One reranker call: every chunk that went in or came out, with its ranks before and after."""

    moves: tuple[RankMove, ...] = ()


class PackRun(_Run, frozen=True, kw_only=True, tag="pack"):
    """One packing of chunks into a prompt."""

    packing: Packing = Packing()


class GenerateRun(_Run, frozen=True, kw_only=True, tag="generate"):
    """One generator call."""

    generation: Generation = Generation()


StageRun: TypeAlias = RetrieveRun | RerankRun | PackRun | GenerateRun


class SampledRanking(_Struct, frozen=True, kw_only=True):
    """What a host says that ranks at random: the first `places` candidates, in their recorded order, were drawn with
    this log-probability from the Plackett–Luce distribution of their scores at `alpha`.

    alpha: at least 0. log_probability: of this order of these places, at most 0. places: at least 1.
    """

    alpha: float
    log_probability: float
    places: int


RetrievalAction: TypeAlias = Literal["CORRECT", "AMBIGUOUS", "INCORRECT"]
"""What grades of retrieved documents say to do, the best first: go on, go on and search as well, search instead."""


class Grade(_Struct, frozen=True, kw_only=True):
    """How relevant one candidate is to the question, in [−1, 1]: 2p − 1 of the probability that a judge gives it; of a
    host that says yes or no, 1 or −1."""

    chunk_id: str
    grade: float


class HostGrades(_Struct, frozen=True, kw_only=True):
    """What a host that corrects its retrieval says of it: the grades that its own evaluator gave, and the action that
    it took; None: it stated none. source: the steps and evaluators whose spans said so, by name; None: the application
    itself did, by `grade`."""

    grades: tuple[Grade, ...] = ()
    action: RetrievalAction | None = None
    source: str | None = None


class Feedback(_Struct, frozen=True, kw_only=True):
    """A judgment of the answer, which may arrive days later. `score` in [-1, 1] or [0, 1] as the source defines."""

    request_id: str
    score: float | None = None
    label: str | None = None
    source: str = "user"
    comment: str | None = None
    created_at: int = 0
    feedback_id: str = ""


class RequestRecord(_Struct, frozen=True, kw_only=True):
    """Everything that ragtrace knows of one request; the contract between all its parts.

    `head_sampled` (drawn at random with `head_probability`) and `flags` are independent: the random stratum is
    `head_sampled`, whatever the flags. `cites`: whether the answer is meant to cite its sources; where it is not,
    citation is no stage of the request; None: learned from what the service's answers do. `stated`: numbers that its
    sender gave and that cannot be, by the field in which another one stands (`ragtrace.plausible_values`).
    """

    request_id: str
    service: str
    segment: str = "default"
    trace_id: str | None = None
    span_id: str | None = None
    tenant_id: str | None = None
    session_id: str | None = None
    status: Literal["ok", "error"] = "ok"
    error: ErrorInfo | None = None
    started_at: int = 0
    ended_at: int = 0
    query: Query = Query()
    versions: dict[str, str] = {}
    cites: bool | None = None
    sampled_ranking: SampledRanking | None = None
    graded: HostGrades | None = None
    stages: tuple[StageRun, ...] = ()
    flags: tuple[str, ...] = ()
    head_sampled: bool = True
    head_probability: float = 1.0
    feedback: tuple[Feedback, ...] = ()
    attributes: Metadata = {}
    stated: dict[str, int | float] = {}
    record_revision: int = 0
    schema_version: int = 0

    def extended(self, addendum: Addendum) -> RequestRecord:
        """This record with what an addendum adds: its flags, and its stage runs in the order in which all ended."""
        runs = (*self.stages, *addendum.stages)
        return replace(
            self,
            flags=tuple(dict.fromkeys((*self.flags, *addendum.flags))),
            stages=tuple(sorted(runs, key=lambda run: run.ended_at)),
        )

    @property
    def duration_ns(self) -> int:
        """Wall time of the request in nanoseconds, never negative."""
        return max(0, self.ended_at - self.started_at)

    @property
    def is_retrieved(self) -> bool:
        """Whether the candidates are known: some retriever ended well, and what each one returned is here and was
        understood."""
        runs = [run for run in self.stages if isinstance(run, RetrieveRun)]
        return any(run.is_known for run in runs) and not any(run.unread or run.incomplete for run in runs)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The union of all retrieve runs, each chunk once at its best rank, best rank first; ties keep run order."""
        runs = [run.candidates for run in self.stages if isinstance(run, RetrieveRun)]
        best: dict[str, Candidate] = {each.chunk_id: each for each in runs[0]} if runs else {}
        if len(runs) != 1 or len(best) < len(runs[0]):  # nearly always one run, and each chunk once
            best = {}
            for candidate in chain.from_iterable(runs):
                known = best.get(candidate.chunk_id)
                if known is None or candidate.rank < known.rank:
                    best[candidate.chunk_id] = candidate
        return tuple(sorted(best.values(), key=attrgetter("rank")))

    def scores_below(self, bound: float | None) -> bool:
        """Whether candidates have scores and none of them reaches `bound`; False without a bound."""
        scores = [candidate.score for candidate in self.candidates if candidate.score is not None]
        return bound is not None and bool(scores) and max(scores) < bound

    @property
    def moves(self) -> tuple[RankMove, ...]:
        """The moves of all rerank runs, of each chunk the last; empty when nothing was reranked."""
        runs = [run for run in self.stages if isinstance(run, RerankRun) and run.is_known]
        return tuple({move.chunk_id: move for run in runs for move in run.moves}.values())

    @property
    def is_reranked(self) -> bool:
        """Whether something ranked the candidates again."""
        return any(isinstance(run, RerankRun) and run.is_known for run in self.stages)

    @property
    def packing(self) -> Packing | None:
        """The last packing that is known: what the last answer was written from."""
        runs = [run for run in self.stages if isinstance(run, PackRun) and run.is_known]
        return runs[-1].packing if runs else None

    @property
    def generation(self) -> Generation | None:
        """The last generation that is known."""
        runs = [run for run in self.stages if isinstance(run, GenerateRun) and run.is_known]
        return runs[-1].generation if runs else None


class Addendum(_Struct, frozen=True, kw_only=True):
    """What became known of a request outside of its record: flags raised after its end, stages that ran in another
    process. The store unites it with the record, whichever comes first, once per `addendum_id`."""

    request_id: str
    service: str
    addendum_id: str
    created_at: int = 0
    flags: tuple[str, ...] = ()
    stages: tuple[StageRun, ...] = ()


class Fault(_Struct, frozen=True, kw_only=True):
    """Something that went wrong inside ragtrace or could not be understood, counted instead of raised.

    `where` is the place (`coerce.retrieve`, `sink.write`), `kind` the sort of it (an exception or type name).
    """

    service: str
    where: str
    kind: str
    message: str = ""
    count: int = 1
    at: int = 0


class Gold(_Struct, frozen=True, kw_only=True):
    """What a question needs, known beforehand: its oracle evidence, its required facets, and a reference answer.

    is_unanswerable: no chunk answers it, so that declining is right; without that, no chunk ids say nothing.
    """

    service: str
    question: str
    chunk_ids: tuple[str, ...] = ()
    query_class: str | None = None
    facets: tuple[Facet, ...] = ()
    answer: str = ""
    is_unanswerable: bool = False


class SourceReport(_Struct, frozen=True, kw_only=True):
    """What an ingestion job says of one source of documents after a run.

    `documents`: how many the index now holds of it. `newest_at`: when its newest document changed. `delay_seconds`:
    from a change in the source until it could be found. `report_id`: a report that has the same one is the same.
    """

    service: str
    source: str
    reported_at: int
    documents: int | None = None
    newest_at: int | None = None
    delay_seconds: float | None = None
    report_id: str = ""


class TakenRequest(_Struct, frozen=True, kw_only=True):
    """A request as its stages' values were taken: a worker builds its record (`ragtrace.record.build_record`).

    `body` names the `texts` by their places. `weight`: roughly how many bytes it holds.
    """

    body: bytes
    texts: tuple[str, ...]
    weight: int = 0


Item: TypeAlias = RequestRecord | Feedback | Fault | Addendum | SourceReport | TakenRequest


class FacetMatch(_Struct, frozen=True, kw_only=True):
    """How well the candidates meet one facet: the best match in [0, 1] and the candidate that gave it.

    A facet that none meets is missing, or contradicted: `contradicted_by` is then the chunk that meets the other facets
    best and states another value, `given`. `reason` says why the match is unknown (it is 0 then).
    """

    facet: Facet
    match: float
    chunk_id: str | None = None
    rank: int | None = None
    in_rewrite: bool | None = None
    contradicted_by: str | None = None
    given: str | None = None
    reason: str | None = None


class LostChunk(_Struct, frozen=True, kw_only=True):
    """A reference chunk that did not reach the prompt whole, and where it was lost."""

    chunk_id: str
    where: Literal["retrieval", "rerank", "packing", "truncation"]
    rank_before: int | None = None
    rank_after: int | None = None
    reason: str | None = None


class Claim(_Struct, frozen=True, kw_only=True):
    """One statement of the answer, `answer[start:end]`, with its support by the packed evidence.

    `support` and `contradiction` lie in [0, 1]; None for a claim that is not factual. `supports` and `contradictions`:
    the same by each packed chunk alone, by its id, cut to two digits, those from 0.2 on; empty in results of before
    they were kept. `unselected_*` is the best support by a candidate that was not packed.
    """

    start: int
    end: int
    text: str
    factual: bool = True
    weight: float = 1.0
    support: float | None = None
    contradiction: float | None = None
    best_chunk: str | None = None
    citations: tuple[Citation, ...] = ()
    layer: str = "lexical"
    unselected_chunk: str | None = None
    unselected_support: float | None = None
    reason: str | None = None
    supports: dict[str, float] = {}
    contradictions: dict[str, float] = {}


class Score(_Struct, frozen=True, kw_only=True):
    """One metric's value for one request; `value` is None when undefined, `reason` then says why."""

    metric: str
    value: float | None = None
    reason: str | None = None
    reference: Reference = "none"


class StageFinding(_Struct, frozen=True, kw_only=True):
    """What is known of one stage of a request, and by what.

    `sound` and `broken` are proven; `suspected` points to a break without proof; `not_known` is neither. `reason` says
    why a stage is suspected or not known, in one of the words of `ragtrace.analyze._stage_states.REASONS`; None else.
    `doubted`: whether the stage looks broken by what no later stage can change: retrieval and ranking by the question
    and the chunks, whatever the answer says of them; it proves nothing of one request, and tells much of many.
    `distant`: of generation, whether the answer is farther from its question than nearly all of the service's answers
    are; no doubt of this one, since some always are.
    `evidence`: what the state rests on, a line each.
    """

    stage: Stage
    state: StageState
    reason: str | None = None
    doubted: bool = False
    distant: bool = False
    evidence: tuple[str, ...] = ()


class Diagnosis(_Struct, frozen=True, kw_only=True):
    """The first broken stage of a request with its proof, and the state of every stage that applies.

    `verdict`: recall_failure, selection_failure, grounding_failure, citation_failure; `healthy` where every stage that
    applies is sound; `no_break_found` where some is suspected or not known and none is broken; `no_retrieval_needed`
    where the request asks for nothing that is retrieved; `error` where it ended in an exception. `stage` and `owner`
    are None but for the first four. `stages`: one for each stage that applies, in the order of the path; none in
    results of versions before 8, whose `undetermined` is now `no_break_found`. `judge`: the digest of rules, models and
    calibration that judged. `suspected_rollout` is `component=version`.
    """

    verdict: str
    stage: Stage | None = None
    owner: str | None = None
    cause: str | None = None
    evidence: tuple[str, ...] = ()
    stages: tuple[StageFinding, ...] = ()
    judge: str | None = None
    reference: Reference = "none"
    versions: dict[str, str] = {}
    suspected_rollout: str | None = None

    def state(self, stage: Stage) -> StageState | None:
        """The state of a stage; None where it does not apply."""
        return next((found.state for found in self.stages if found.stage == stage), None)


class ProbedChunk(_Struct, frozen=True, kw_only=True):
    """One chunk that the candidates lack, and where a probe of the index found it.

    `cause` is None where the application's own search returns it today, so that nothing tells why it did not then.
    `rank`: in the application's own search, asked deeper; `exact_rank`: among all that is stored, filters left out;
    both from 1, None where it is not among the first `IndexProbe.asked`. `match`: the share of the question's words
    that it holds in one place. `facet`: a constraint that it meets and no candidate does. Its text is not kept.
    """

    chunk_id: str
    cause: ProbeCause | None = None
    rank: int | None = None
    exact_rank: int | None = None
    match: float | None = None
    facet: str | None = None


class IndexProbe(_Struct, frozen=True, kw_only=True):
    """What asking the index once more, deeper and exactly, found for one request.

    `outcome`: `found` evidence that the candidates lack; `nothing_better`; `another_version` of the index answers now;
    `other_search`: the probe does not return what the application's search returned; `failed`, `why` says how. `cause`
    is that of the first of `chunks` that has one. `depth`: how many candidates the application asked for; `asked`: how
    many the probe did. `exact`: whether the probe can search exactly. `by_gold`: whether gold evidence was looked for.
    `drawn`: looked at as one of the requests that show nothing. `sources`: of the best candidates, whose owners are to
    be told of a gap. `odds`: by a calibrated model, the log odds that an exact search of the index finds evidence
    beside the candidates; None where no model was asked.
    """

    outcome: ProbeOutcome
    cause: ProbeCause | None = None
    depth: int = 0
    asked: int = 0
    exact: bool = False
    chunks: tuple[ProbedChunk, ...] = ()
    by_gold: bool = False
    drawn: bool = False
    index_version: str | None = None
    sources: tuple[str, ...] = ()
    why: str | None = None
    asked_at: int = 0
    odds: float | None = None


class Grading(_Struct, frozen=True, kw_only=True):
    """The grades of a request's candidates, and the action that they say.

    `action`: CORRECT where a grade reaches `upper`, else AMBIGUOUS where one reaches `lower`, else INCORRECT. `by`: the
    judge, `host` where the host graded. `question_type`: the host's query class, else what the question asks for.
    `taken`: the action that the host says it took.
    """

    action: RetrievalAction
    grades: tuple[Grade, ...] = ()
    upper: float
    lower: float
    by: str
    question_type: str = "other"
    taken: RetrievalAction | None = None


class VerifiedBy(_Struct, frozen=True, kw_only=True):
    """The model that judged the claims: its name, the digest of its weights, and the calibration of its probabilities.

    `calibration` is its id and `calibration_error` its expected calibration error; None where there is none.
    """

    name: str
    weights: str
    calibration: str | None = None
    calibration_error: float | None = None


class StageExpense(_Struct, frozen=True, kw_only=True):
    """What all runs of one stage took: wall time in nanoseconds, tokens that its model read and wrote, and their cost
    in the currency of the host's prices; None: not known, or no price was given.

    `counted`: who counted the tokens, the least sure of it: the provider or the host (`reported`), the model's own
    `tokenizer`, or an `estimate` by the length of the text.
    """

    stage: Literal["retrieve", "rerank", "pack", "generate"]
    duration_ns: int = 0
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    counted: TokenSource | None = None
    cost: float | None = None


class Analysis(_Struct, frozen=True, kw_only=True):
    """The outcome of one analysis job, stored whole: scores, claims, facet matches, losses and the diagnosis.

    `verified_by`: None where words alone judged the claims. `probe`: None where the index was not asked.
    `grading`: None where no judge of relevance was asked. `expenses`: of the stages that ran, in the order of the path.
    `providers`: of the candidates, in the order of their ranks, where the worker was told what names them.
    """

    request_id: str
    analyzer_version: str
    kind: str = "coverage"
    record_revision: int = 0
    reference: Reference = "none"
    reference_chunks: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()
    facets: tuple[FacetMatch, ...] = ()
    lost: tuple[LostChunk, ...] = ()
    claims: tuple[Claim, ...] = ()
    verified_by: VerifiedBy | None = None
    probe: IndexProbe | None = None
    grading: Grading | None = None
    diagnosis: Diagnosis = Diagnosis(verdict="no_break_found")
    explanation: Explanation | None = None
    expenses: tuple[StageExpense, ...] = ()
    providers: tuple[str, ...] = ()
    computed_at: int = 0

    def score(self, metric: str) -> float | None:
        """The value of `metric`, or None when it is undefined or was not computed."""
        return next((score.value for score in self.scores if score.metric == metric), None)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RequestRecord)
_ADDENDA = msgspec.json.Decoder(Addendum)


def encode_record(record: RequestRecord) -> bytes:
    """JSON of `record` in the current schema version.

    Raises: RecordError when a field has a type or value that could not be read back (a NaN score, a set in the
    metadata, a text where a number belongs).
    """
    return _encoded(replace(record, schema_version=SCHEMA_VERSION), _DECODER, f"record {record.request_id!r}")


def encode_addendum(addendum: Addendum) -> bytes:
    """JSON of `addendum`. Raises: RecordError as `encode_record` does."""
    return _encoded(addendum, _ADDENDA, f"addendum to {addendum.request_id!r}")


def _encoded(struct: object, decoder: msgspec.json.Decoder[Any], name: str) -> bytes:
    try:
        body = _ENCODER.encode(struct)
        decoder.decode(body)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise RecordError(f"{name} cannot be written: {error}; give JSON values of the documented types") from error
    return body


def decode_addendum(body: bytes) -> Addendum:
    """The reverse of `encode_addendum`. Raises: RecordError when the bytes are no addendum."""
    try:
        return _ADDENDA.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise RecordError(f"not a ragtrace addendum: {error}") from error


def decode_record(body: bytes) -> RequestRecord:
    """Read a record of this schema version or the one before it.

    Raises: RecordError when the bytes are no record or come from a newer schema version.
    """
    try:
        record = _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise RecordError(f"not a ragtrace record: {error}") from error
    if record.schema_version > SCHEMA_VERSION:
        raise RecordError(
            f"record {record.request_id!r} has schema version {record.schema_version}, this ragtrace reads up to "
            f"{SCHEMA_VERSION}; upgrade ragtrace"
        )
    return record


def content_hash(text: str) -> str:
    """The key of `text` in the content store: 128-bit BLAKE2b of its UTF-8 bytes, 32 hexadecimal digits."""
    return _HASHES[text]


class _Hashes(dict[str, str]):
    """The hashes of texts that came lately: the same chunks are retrieved again and again."""

    def __missing__(self, text: str) -> str:
        found = _hash(text)
        if len(text) <= _REMEMBERED:
            if len(self) >= _MOST_HASHES:
                self.clear()
            self[text] = found
        return found


_HASHES: Final = _Hashes()


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


replace = msgspec.structs.replace
"""A copy of a record part with some fields changed. Not wrapped: that would take four times as long."""


def to_builtins(struct: object) -> Any:
    """Plain JSON-ready data of a record part."""
    return msgspec.to_builtins(struct)
