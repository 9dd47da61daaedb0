"""One request's analysis: every score of the registry with its reference, the claims, the losses, the diagnosis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragtrace import coverage
from ragtrace.analyze.diagnosis import Release, diagnose
from ragtrace.types import (
    Analysis,
    Candidate,
    Claim,
    Diagnosis,
    Facet,
    Gold,
    LostChunk,
    PackedChunk,
    Reference,
    RequestRecord,
    Score,
    replace,
)

__all__ = ["analyze_record"]


def analyze_record(
    record: RequestRecord, gold: Gold | None = None, releases: Sequence[Release] = (), *, computed_at: int = 0
) -> Analysis:
    """Score and diagnose one record; the same record gives the same analysis everywhere.

    gold: the question's oracle evidence; without it (or with none in it) the reference is the proxy, where the
    candidates' texts allow one. releases: those of the record's service. computed_at: nanoseconds, stored as given.
    """
    facets = _facets(record, gold)
    candidates = record.candidates
    readable = any(candidate.text for candidate in candidates) or not candidates
    matrix = coverage.facet_matrix(facets, candidates)
    reference, wanted = _reference(record, gold, facets, candidates, matrix)
    lost = coverage.lost_evidence(record, wanted)
    retrieved = record.is_retrieved
    facets_reason = "not_recorded" if not retrieved else "no_facets" if not facets else "no_candidate_text"
    known = retrieved and readable
    claims, answer_scores = _answer_scores(record, candidates)
    scores = (
        _score("query_coverage", coverage.query_coverage(facets, candidates, matrix=matrix) if known else None,
               facets_reason),
        _score("joint_query_coverage",
               coverage.joint_query_coverage(facets, candidates, matrix=matrix) if known else None, facets_reason),
        *_evidence_scores(record, reference, wanted, lost, retrieved),
        *answer_scores,
    )  # fmt: skip
    matches = coverage.match_facets(facets, candidates, rewritten=record.query.rewritten, matrix=matrix)
    analysis = Analysis(
        request_id=record.request_id,
        analyzer_version=coverage.ANALYZER_VERSION,
        record_revision=record.record_revision,
        reference=reference,
        reference_chunks=wanted,
        scores=scores,
        facets=matches,
        lost=lost,
        claims=claims,
        computed_at=computed_at,
    )
    return replace(analysis, diagnosis=_diagnosis(record, analysis, releases))


def _facets(record: RequestRecord, gold: Gold | None) -> tuple[Facet, ...]:
    """The host's facets, else the gold set's, else those read from the original query."""
    if record.query.facets:
        return record.query.facets
    if gold and gold.facets:
        return gold.facets
    return coverage.extract_facets(record.query.original)


def _reference(
    record: RequestRecord,
    gold: Gold | None,
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    matrix: NDArray[np.float64],
) -> tuple[Reference, tuple[str, ...]]:
    if gold and gold.chunk_ids:
        return "oracle", tuple(dict.fromkeys(gold.chunk_ids))
    proxy = coverage.proxy_reference(record.query.original, facets, candidates, matrix=matrix)
    return ("proxy", proxy) if proxy else ("none", ())


def _evidence_scores(
    record: RequestRecord, reference: Reference, wanted: Sequence[str], lost: Sequence[LostChunk], retrieved: bool
) -> tuple[Score, ...]:
    cut = {loss.chunk_id for loss in lost if loss.where == "truncation"}
    chunks = record.packing.chunks if record.packing else ()
    packed = [chunk.chunk_id for chunk in chunks if chunk.chunk_id not in cut]
    ids = [candidate.chunk_id for candidate in record.candidates]
    reason = "no_reference" if record.packing else "not_recorded"
    given = wanted if record.packing else ()
    moves_reason = "not_recorded" if not record.moves else "not_kept" if wanted else "no_reference"
    return (
        _score("candidate_recall", coverage.candidate_recall(ids, wanted if retrieved else ()),
               "no_reference" if retrieved else "not_recorded", reference),
        _score("evidence_depth", coverage.evidence_depth(ids, wanted if retrieved else ()),
               "not_recorded" if not retrieved else "absent" if wanted else "no_reference", reference),
        _score("evidence_overlap", coverage.evidence_overlap(packed, given), reason, reference),
        _score("evidence_recall", coverage.evidence_recall(packed, given), reason, reference),
        _score("evidence_precision", coverage.evidence_precision(packed, given),
               "nothing_packed" if given else reason, reference),
        _score("evidence_token_share", coverage.evidence_token_share(chunks, given),
               "nothing_packed" if given and not chunks else "no_token_counts" if given else reason, reference),
        _score("rank_shift", coverage.rank_shift(record.moves, wanted), moves_reason, reference),
        _score("truncated_tokens", coverage.truncated_tokens(chunks), "no_token_counts"),
    )  # fmt: skip


def _answer_scores(
    record: RequestRecord, candidates: Sequence[Candidate]
) -> tuple[tuple[Claim, ...], tuple[Score, ...]]:
    generation = record.generation
    answer = generation.answer if generation else None
    chunks: tuple[PackedChunk, ...] = record.packing.chunks if record.packing else ()
    reason = _unanswerable(answer, record.packing is not None, chunks)
    if reason in ("not_recorded", "no_answer", "no_evidence_text", "language"):
        names = ("answer_coverage", "contradiction_rate", "citation_coverage", "citation_precision", "citation_recall",
                 "dangling_citations")  # fmt: skip
        return (), tuple(_score(name, None, reason) for name in names)
    claims, supports = coverage.judge_claims(
        answer or "", chunks, candidates, citations=generation.citations if generation else ()
    )
    return claims, (
        _score("answer_coverage", coverage.answer_coverage(claims), reason),
        _score("contradiction_rate", coverage.contradiction_rate(claims), reason),
        _score("citation_coverage", coverage.citation_coverage(claims), reason),
        _score("citation_precision", coverage.citation_precision(claims, supports), "no_citations"),
        _score("citation_recall", coverage.citation_recall(claims, supports), "no_supported_claims"),
        _score("dangling_citations", coverage.dangling_citations(claims), "no_citations"),
    )


def _unanswerable(answer: str | None, packed: bool, chunks: Sequence[PackedChunk]) -> str:
    """Why the metrics of the answer are undefined, if they are."""
    if not packed or answer is None:
        return "not_recorded"
    if not answer.strip():
        return "no_answer"
    if coverage.is_abstention(answer):
        return "abstained"
    if not coverage.is_english(answer):
        return "language"
    if chunks and not any(chunk.text for chunk in chunks):
        return "no_evidence_text"
    return "no_factual_claims"


def _diagnosis(record: RequestRecord, analysis: Analysis, releases: Sequence[Release]) -> Diagnosis:
    diagnosis = diagnose(
        {score.metric: score.value for score in analysis.scores},
        reference=analysis.reference,
        facets=analysis.facets,
        lost=analysis.lost,
        claims=analysis.claims,
        versions=record.versions,
        releases=releases,
    )
    error = record.error
    if diagnosis.stage is None and error:
        raised = f"{error.stage or 'request'} raised {error.type}: {error.message}"
        return replace(diagnosis, verdict="undetermined", cause="error", evidence=(raised,))
    return diagnosis


def _score(metric: str, value: float | None, reason: str, reference: Reference = "none") -> Score:
    return Score(metric=metric, value=value, reason=reason if value is None else None, reference=reference)
