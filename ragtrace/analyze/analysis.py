"""One request's analysis: scores of the registry, each with its reference, claims, losses, diagnosis, and flags."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace as dataclass_replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace import coverage
from ragtrace.analyze._doubt_model import Usual
from ragtrace.analyze._stage_signs import evidence_odds, signs_of, with_facets
from ragtrace.analyze._stage_states import Case, judge_stages
from ragtrace.analyze.diagnosis import RETURNED_BEFORE, VersionStart, diagnose
from ragtrace.analyze.scores import ScoreInput, candidate_recall, evidence_recall, scores_of
from ragtrace.coverage import is_abstention
from ragtrace.coverage.verifier import JudgedRelevance
from ragtrace.grading import LOWEST_GRADE, POPQA, GradeThresholds, action_of, grade_of, question_type
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import ANSWER_RELEVANCE, INSTRUMENTS
from ragtrace.types import (
    ANALYZER_VERSION,
    Analysis,
    Candidate,
    Claim,
    Diagnosis,
    Facet,
    Gold,
    Grade,
    Grading,
    HostGrades,
    IndexProbe,
    LostChunk,
    PackedChunk,
    Reference,
    RequestRecord,
    VerifiedBy,
    replace,
)

if TYPE_CHECKING:
    from ragtrace.store import ServiceCalibration

__all__ = [
    "HOST",
    "QuestionTypes",
    "ServiceView",
    "analyze_record",
    "examine",
    "flags_of",
    "judge_id",
    "judged_answer",
    "question_type_of",
    "reader_of",
    "screen",
    "with_probe",
]

_log = logging.getLogger("ragtrace.analyze")
THERE: Final = 0.25  # evidence presence from which a name that no candidate holds is taken to be written otherwise
BUILTIN: Final = "builtin"  # the judge of relevance whose grades ranking is judged by as they are
HOST: Final = "host"  # what graded where the application itself did
MET: Final = 0.9  # match from which a facet is met
_UNJUDGED: Final = ("not_recorded", "no_answer", "no_evidence_text", "language")
_FLAGGING: Final = tuple(one for one in INSTRUMENTS.values() if one.flag)
_LONGEST_TYPE: Final = 80  # characters of a type of questions
QuestionTypes: TypeAlias = Callable[[str], str | None]
"""The type of a question in the host's own words; None where it knows none."""
FLAGS: Final = tuple(dict.fromkeys(one.flag for one in _FLAGGING if one.flag))
"""The flags of requests in which a score misses its objective."""


@dataclass(frozen=True, slots=True)
class ServiceView:
    """What other requests of a service tell: whether its answers cite (None: not known yet), how usual words are in
    what it returns, how much its stages usually are in doubt (`doubts.log_odds_of`), and the calibrations by whose
    lines it is judged: one at most for each judge; grade_lines: from which grades on its retrieval is CORRECT and
    AMBIGUOUS, by the name of the judge that grades."""

    cites: bool | None = None
    background: coverage.Background | None = None
    usual: Usual = field(default_factory=dict)
    calibrations: Sequence[ServiceCalibration] = ()
    grade_lines: Mapping[str, GradeThresholds] = field(default_factory=dict)

    def calibration(self, verified_by: VerifiedBy | None, reader: str | None = None) -> ServiceCalibration | None:
        """The calibration of what judges a request. reader: what reads the names of its question (`reader_of`)."""
        judge = judge_id(verified_by, reader=reader)
        return next((each for each in self.calibrations if each.judge == judge), None)


_UNKNOWN_SERVICE: Final = ServiceView()


def judge_id(
    verified_by: VerifiedBy | None = None, calibration: str | None = None, *, reader: str | None = None
) -> str:
    """A short digest of the rules, the model with its calibration, what reads the names of questions, and the service's
    calibration that judge: the label `judge`."""
    parts = [ANALYZER_VERSION]
    if verified_by is not None:
        parts += [verified_by.name, verified_by.weights, verified_by.calibration or ""]
    if calibration is not None:
        parts += ["service", calibration]
    if reader is not None:
        parts += ["reader", reader]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=4).hexdigest()


def reader_of(entities: coverage.ReadEntities | None) -> str | None:
    """The name of what reads the names of questions; None without one."""
    return None if entities is None else str(getattr(entities, "name", type(entities).__name__))


def analyze_record(
    record: RequestRecord,
    gold: Gold | None = None,
    releases: Sequence[VersionStart] = (),
    *,
    service: ServiceView = _UNKNOWN_SERVICE,
    judged: coverage.JudgedAnswer | None = None,
    verified_by: VerifiedBy | None = None,
    entities: coverage.ReadEntities | None = None,
    computed_at: int = 0,
) -> Analysis:
    """Score and diagnose one record; the same record and view of its service give the same analysis everywhere.

    gold: the question's oracle evidence; without it (or with none in it) the reference is the proxy, where the
    candidates' texts allow one. releases: those of the record's service; service: what its other requests tell.
    judged: the outcome of `judged_answer`, changed by the verifier that `verified_by` names; without it words alone
    judge the claims. entities: a model that reads the names of a question for which there are no facets. computed_at:
    nanoseconds, stored as given.
    """
    return examine(
        record,
        gold,
        releases,
        service=service,
        judged=judged,
        verified_by=verified_by,
        entities=entities,
        computed_at=computed_at,
    )[0]


def examine(
    record: RequestRecord,
    gold: Gold | None = None,
    releases: Sequence[VersionStart] = (),
    *,
    service: ServiceView = _UNKNOWN_SERVICE,
    judged: coverage.JudgedAnswer | None = None,
    relevances: JudgedRelevance | None = None,
    verified_by: VerifiedBy | None = None,
    entities: coverage.ReadEntities | None = None,
    nearness: float | None = None,
    returned: Collection[str] = (),
    thresholds: GradeThresholds | None = None,
    question_types: QuestionTypes | None = None,
    computed_at: int = 0,
) -> tuple[Analysis, Case]:
    """As `analyze_record`, with what the states of the stages were judged by. returned: chunks that the same version of
    the index is known to have returned to other requests; relevances: what models say of chunks and answer; nearness:
    of the answer to its question, by a built-in judge; thresholds:
    from which grade on retrieval is CORRECT and AMBIGUOUS; None: by the service's line for what graded, or PopQA's;
    question_types: the host's own classifier of questions."""
    recorded, record = record, coverage.united(record)
    facets = _facets(record, gold, entities)
    candidates = record.candidates
    matrix = coverage.facet_matrix(facets, candidates)
    reference, classes = _reference(record, gold, facets, matrix, relevances)
    wanted = tuple(dict.fromkeys(chunk_id for members in classes for chunk_id in members))
    judged = judged or judged_answer(record)
    claims = judged.claims if judged else ()
    prompt = coverage.PromptEvidence(record.query.original, record.packing.chunks if record.packing else (), candidates)
    known_candidates = {candidate.chunk_id: candidate for candidate in candidates}
    members = [[known_candidates[one] for one in each if one in known_candidates] for each in classes]
    same = prompt.stand_ins(members) if reference == "proxy" else prompt.duplicates(chain.from_iterable(members))
    lost = tuple(
        replace(loss, reason=RETURNED_BEFORE) if loss.where == "retrieval" and loss.chunk_id in returned else loss
        for loss in coverage.lost_evidence(recorded, wanted, claims)
        if loss.chunk_id not in same
    )
    retrieved = record.is_retrieved
    source = ScoreInput(
        record=record,
        candidates=candidates,
        chunks=record.packing.chunks if record.packing else (),
        reference=reference,
        wanted=wanted,
        packed=_packed(record, lost, same),
        judged=judged,
        unjudged=_unanswerable(record),
        cites=_is_cited(record, claims, service),
        relevances=relevances,
    )
    answer = record.generation.answer if record.generation and evidence_recall(source) == 1.0 else None
    heard = relevances if relevances and relevances.is_calibrated else None
    presence = _presence(record, reference, facets, claims, answer, relevances)
    is_known = reference == "oracle" and candidate_recall(source) == 1.0
    evident = [(is_known or reference == "proxy") and item.chunk_id in wanted for item in candidates]
    trusted = partial(_trusted, facets, candidates, matrix, evident, is_known=is_known)
    known = presence if heard is relevances else _presence(record, reference, facets, claims, answer)
    rows = trusted(presence=known)
    kept, table = [facets[row] for row in rows], matrix[rows]
    no_facets = "not_recorded" if not retrieved else "doubtful_facets" if facets else "no_facets"
    source = dataclass_replace(source, facets=kept, matrix=table, no_facets=no_facets, presence=presence)
    matches = coverage.match_facets(facets, candidates, rewritten=coverage.asked(record), matrix=matrix)
    terms = coverage.match_facets(_terms(record, facets, gold), candidates, rewritten=coverage.asked(record))
    analysis = Analysis(
        request_id=record.request_id,
        analyzer_version=ANALYZER_VERSION,
        record_revision=record.record_revision,
        reference=reference,
        reference_chunks=wanted,
        scores=scores_of("coverage", source, reference),
        facets=(*matches, *terms),
        lost=lost,
        claims=claims,
        verified_by=verified_by if judged else None,
        grading=_grading(record, relevances, thresholds, service, question_types),
        computed_at=computed_at,
    )
    reader = reader_of(entities)
    calibration = service.calibration(verified_by, reader)
    graded = relevances if relevances and relevances.by == BUILTIN and not relevances.is_calibrated else None
    signs = signs_of(record, kept, table, judged, service.background, relevance=analysis.score(ANSWER_RELEVANCE.id),
                     prompt=prompt, relevances=heard, grades=graded)  # fmt: skip
    signs = dataclass_replace(signs, nearness=nearness)
    before = signs.before_answer()
    if answer and facets:  # it may have told which of them count
        rows = trusted(presence=_presence(record, reference, facets, relevances=heard))
        before = with_facets(before, record, [facets[row] for row in rows], matrix[rows])
    gone = coverage.superseded(record) if reference == "proxy" else frozenset[str]()  # a later round took their place
    case = Case(
        signs=signs,
        before_answer=before,
        retrieved=retrieved,
        is_empty=retrieved and not candidates,
        packed=record.packing is not None,
        answered=record.generation is not None and bool((record.generation.answer or "").strip()),
        left_out=any(prompt.leaves_out(candidate) for candidate in candidates),
        cut={chunk.chunk_id for chunk in record.packing.chunks if chunk.truncated} if record.packing else frozenset(),
        cites=source.cites,
        resolves=service.cites is True,
        unjudged=source.unjudged,
        reference=reference,
        is_unanswerable=gold is not None and gold.is_unanswerable,
        lost=[loss for loss in lost if loss.chunk_id not in gone],
        facets=matches,
        terms=terms,
        claims=claims,
        usual=service.usual,
        raised=calibration.raised if calibration else {},
        may_outrank=heard is None or heard.outranks or not record.is_reranked,
        calibration=calibration.calibration_id if calibration else None,
        reader=reader,
    )
    return replace(analysis, diagnosis=_diagnosis(record, analysis, case, releases, verified_by)), case


def with_probe(
    record: RequestRecord,
    analysis: Analysis,
    case: Case,
    probe: IndexProbe,
    releases: Sequence[VersionStart] = (),
    verified_by: VerifiedBy | None = None,
) -> Analysis:
    """The analysis of a request, judged again by what its index says beside (`examine` gives analysis and case)."""
    analysis = replace(analysis, probe=probe)
    diagnosis = _diagnosis(record, analysis, dataclass_replace(case, probe=probe), releases, verified_by)
    return replace(analysis, diagnosis=diagnosis)


def _grading(
    record: RequestRecord,
    relevances: JudgedRelevance | None,
    thresholds: GradeThresholds | None,
    service: ServiceView,
    question_types: QuestionTypes | None,
) -> Grading | None:
    """The grades of the candidates by the host's own evaluator, else by the judge of relevance; None where neither
    graded, or no text is known."""
    said = record.graded or HostGrades()
    if said.grades:
        by, grades = HOST, {each.chunk_id: each.grade for each in said.grades}
    elif relevances is None or relevances.by is None or not record.is_retrieved:
        return None
    else:
        by = relevances.by
        grades = {chunk_id: grade_of(float(share)) for chunk_id, share in relevances.candidates.items()}
        blank = (each.chunk_id for each in record.candidates if each.text is not None and not each.text.strip())
        grades.update(dict.fromkeys(blank, LOWEST_GRADE))
        if record.candidates and not grades:
            return None
    thresholds = thresholds or service.grade_lines.get(by, POPQA)
    return Grading(
        action=action_of(list(grades.values()), thresholds),
        grades=tuple(Grade(chunk_id=chunk_id, grade=grade) for chunk_id, grade in grades.items()),
        upper=thresholds.upper,
        lower=thresholds.lower,
        by=by,
        question_type=question_type_of(record, question_types),
        taken=said.action,
    )


def question_type_of(record: RequestRecord, own: QuestionTypes | None = None) -> str:
    """The host's query class, else what its own classifier says, else the relation that the question asks for, else
    what kind of value would answer it. A classifier that fails, or gives no text, says nothing."""
    question = record.query.original
    said = record.query.query_class
    if said is None and own is not None:
        try:
            found = own(question)
        except Exception as error:  # one question must not stop the others
            _log.warning("the classifier of question types failed: %s: %s", type(error).__name__, error)
        else:
            said = found.strip()[:_LONGEST_TYPE] if isinstance(found, str) else None
    return said or question_type(question) or coverage.expected_answer(question) or "other"


def _is_cited(record: RequestRecord, claims: Sequence[Claim], service: ServiceView) -> bool:
    """Whether citations are judged: as the host says, else as is known of the service, else where this answer cites."""
    known = service.cites if record.cites is None else record.cites
    marks = (mark for claim in claims for mark in claim.citations)
    return any(mark.chunk_id is not None for mark in marks) if known is None else known


def _facets(record: RequestRecord, gold: Gold | None, entities: coverage.ReadEntities | None) -> tuple[Facet, ...]:
    """The host's facets, else the gold set's, else those read from the original query, by the clock of the request."""
    today = _day(record.started_at)
    if given := record.query.facets or (gold.facets if gold else ()):
        return coverage.resolve_times([facet for facet in given if not facet.weak], today)
    return coverage.extract_facets(record.query.original, today=today, entities=entities)


def _terms(record: RequestRecord, facets: Sequence[Facet], gold: Gold | None) -> tuple[Facet, ...]:
    """The weak facets: those among the host's or the gold set's, else the key terms beside what was read."""
    if given := record.query.facets or (gold.facets if gold else ()):
        return tuple(facet for facet in given if facet.weak)
    return coverage.key_terms(record.query.original, facets)


def _day(started_at: int) -> date | None:
    """The day in UTC; None for a request without a clock, or with an impossible one."""
    try:
        return datetime.fromtimestamp(started_at / 1e9, UTC).date() if started_at else None
    except (OSError, OverflowError, ValueError):
        return None


def _reference(
    record: RequestRecord,
    gold: Gold | None,
    facets: Sequence[Facet],
    matrix: NDArray[np.float64],
    relevances: JudgedRelevance | None,
) -> tuple[Reference, tuple[tuple[str, ...], ...]]:
    """What is needed: of each class one member, of which the oracle's have one each. The proxy goes by words, and by
    the judge's relevance of the candidates where one was asked."""
    if gold and (gold.chunk_ids or gold.is_unanswerable):
        return "oracle", tuple((chunk_id,) for chunk_id in dict.fromkeys(gold.chunk_ids))
    known = relevances.candidates if relevances else None
    classes = coverage.proxy_classes(record.query.original, facets, record.candidates, matrix=matrix, relevance=known)
    return ("proxy", classes) if classes else ("none", ())


def _trusted(
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    matrix: NDArray[np.float64],
    evident: Sequence[bool],
    *,
    is_known: bool,
    presence: float | str,
) -> list[int]:
    """The rows of the facets that count: all but those that were read from the question and that the evidence, which is
    there, has other words for or is silent about. `evident`: which candidates are the reference. None of the oracle's,
    if all are there, meets such a facet. Else, where the evidence is probably there, no candidate meets such a name,
    and a place or amount of which the reference says nothing is the asker's own case ("I live in Spain").
    """
    table = np.nan_to_num(matrix, nan=0.0)
    unmet = table[:, list(evident)].max(axis=1, initial=0.0) < MET
    if not is_known:
        silent = table[:, list(evident)].max(axis=1, initial=0.0) == 0.0
        is_name = np.array([facet.kind == "entity" for facet in facets], dtype=bool)
        is_case = np.array([facet.kind in ("jurisdiction", "quantity") for facet in facets], dtype=bool)
        nowhere = table.max(axis=1, initial=0.0) < MET
        stated = coverage.contradictions(
            facets, [each for each, chosen in zip(candidates, evident, strict=True) if chosen]
        )
        unmet = np.where(is_name, nowhere, is_case & silent & ~stated.any(axis=1) & any(evident))
        if not isinstance(presence, str) and presence < THERE:  # not computed is not absent
            unmet = np.zeros_like(unmet)
    return [row for row, facet in enumerate(facets) if facet.source != "query" or not unmet[row]]


def _presence(
    record: RequestRecord,
    reference: Reference,
    facets: Sequence[Facet],
    claims: Sequence[Claim] = (),
    answer: str | None = None,
    relevances: JudgedRelevance | None = None,
) -> float | str:
    """Estimated only where nothing better is known: no oracle evidence, and no facets but those that were read; else
    the reason why it is not.

    answer: with its claims; None where it was not given the best candidates, and tells nothing of them. relevances: a
    model's of the candidates, which then decide alone.
    """
    if not record.is_retrieved:
        return "not_recorded"
    if reference == "oracle" or any(facet.source != "query" for facet in facets):
        return "oracle" if reference == "oracle" else "facets_given"
    candidates = record.candidates
    if relevances and relevances.candidates:
        return 1 / (1 + math.exp(-evidence_odds(relevances.candidates.values())))
    presence = coverage.evidence_presence(
        record.query.original,
        candidates,
        claims=claims if answer else (),
        declined=coverage.is_abstention(answer or ""),
    )
    if presence is not None:
        return presence
    if not any(candidate.text for candidate in candidates):
        return "no_candidate_text"
    return "alike_candidates" if coverage.are_alike(candidates) else "few_candidates"


def _packed(record: RequestRecord, lost: Sequence[LostChunk], same: Mapping[str, str]) -> list[str]:
    """The chunks that stand whole in the prompt, and the reference chunks of which another one there says the same."""
    cut = {loss.chunk_id for loss in lost if loss.where == "truncation"}
    packed = [
        chunk.chunk_id for chunk in (record.packing.chunks if record.packing else ()) if chunk.chunk_id not in cut
    ]
    return packed + [chunk_id for chunk_id, other in same.items() if other in packed]


def judged_answer(record: RequestRecord) -> coverage.JudgedAnswer | None:
    """The claims of the record's answer, judged by words alone; None where there is nothing to judge or judge by."""
    record = coverage.united(record)
    generation = record.generation
    if generation is None or _unanswerable(record) in _UNJUDGED:
        return None
    chunks: tuple[PackedChunk, ...] = record.packing.chunks if record.packing else ()
    claims, supports = coverage.judge_claims(
        generation.answer or "",
        chunks,
        record.candidates,
        citations=generation.citations,
        query=record.query.original,
        first=coverage.first_number(generation.prompt_template),
    )
    question = " ".join(filter(None, (record.query.original, record.query.rewritten)))
    return coverage.JudgedAnswer(claims, supports, chunks, record.candidates, question)


def _unanswerable(record: RequestRecord) -> str:
    """Why the metrics of the answer are undefined, if they are."""
    answer = record.generation.answer if record.generation else None
    chunks: tuple[PackedChunk, ...] = record.packing.chunks if record.packing else ()
    if record.packing is None or answer is None:
        return "not_recorded"
    if not answer.strip():
        return "no_answer"
    reason = coverage.undetermined(answer, [chunk.text or "" for chunk in chunks])
    if reason == "no_evidence_text" and not chunks:
        return "no_factual_claims"  # nothing was packed: whatever the answer states is unsupported
    return reason or "no_factual_claims"


def _diagnosis(
    record: RequestRecord,
    analysis: Analysis,
    case: Case,
    releases: Sequence[VersionStart],
    verified_by: VerifiedBy | None,
) -> Diagnosis:
    needed = case.reference == "oracle" or coverage.needs_retrieval(record.query.original)
    diagnosis = diagnose(
        judge_stages(case) if needed else (),
        reference=analysis.reference,
        facets=case.facets,
        lost=analysis.lost,
        probe=analysis.probe,
        contradicted=bool(case.signs.contradicted),
        versions=record.versions,
        releases=releases,
        judge=judge_id(verified_by, case.calibration, reader=case.reader),
    )
    error = record.error
    if diagnosis.stage is None and error:
        raised = f"{error.stage or 'request'} raised {error.type}: {error.message}"
        return replace(diagnosis, verdict="error", cause="error", evidence=(raised,))
    return diagnosis


def flags_of(
    record: RequestRecord, analysis: Analysis | None = None, low_score: float | None = None
) -> tuple[str, ...]:
    """The flags that a request earns by what it holds, and by its analysis where there is one.

    `abstention`: the answer declines to answer. `low_retrieval_score`: no candidate has a score of `low_score` or
    more. Those of `FLAGS`: a score of the registry misses its objective; a flag keeps a request, it blames nobody. What
    is undefined flags nothing.
    """
    flags = []
    answer = record.generation.answer if record.generation else None
    if answer is not None and is_abstention(answer):
        flags.append("abstention")
    if record.scores_below(low_score):
        flags.append("low_retrieval_score")
    if analysis is not None:
        missed = {one.flag for one in _FLAGGING if _misses(analysis, one)}
        flags.extend(flag for flag in FLAGS if flag in missed)
    return tuple(flags)


def _misses(analysis: Analysis, one: Instrument) -> bool:
    """Whether a score is defined and misses its objective."""
    value = analysis.score(one.id)
    return value is not None and one.objective is not None and not one.objective.met(value)


def screen(record: RequestRecord, low_score: float | None = None) -> tuple[str, ...]:
    """Whether a request outside the sample is worth keeping; it is analyzed only as far as that is open."""
    return flags_of(record, low_score=low_score) or flags_of(record, analyze_record(record), low_score)
