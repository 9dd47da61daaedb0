"""Coverage: the four metrics of a request's evidence path, as pure functions without models."""

from __future__ import annotations

from ragtrace.coverage._evidence import (
    PromptEvidence,
    asked,
    candidate_recall,
    evidence_depth,
    evidence_overlap,
    evidence_precision,
    evidence_recall,
    evidence_token_share,
    lost_evidence,
    rank_shift,
    superseded,
    truncated_tokens,
    united,
)
from ragtrace.coverage._query import (
    expected_answer,
    joint_query_coverage,
    match_facets,
    needs_retrieval,
    query_coverage,
)
from ragtrace.coverage._reference import (
    are_alike,
    evidence_presence,
    proxy_classes,
    proxy_reference,
    standings,
)
from ragtrace.coverage._refusals import abstains_somewhere, is_abstention
from ragtrace.coverage.answer import (
    answer_coverage,
    claim_supports,
    contradiction_rate,
    judge_claims,
    score_answer,
    split_claims,
    undetermined,
)
from ragtrace.coverage.citations import (
    SUPPORTED,
    citation_coverage,
    citation_precision,
    citation_recall,
    dangling_citations,
    find_citations,
    first_number,
)
from ragtrace.coverage.facets import (
    ReadEntities,
    contradictions,
    extract_facets,
    facet_in_text,
    facet_matrix,
    key_terms,
    resolve_times,
)
from ragtrace.coverage.relevance import Background, answer_relevance, why_no_relevance
from ragtrace.coverage.support import NEGATED, Rationale, rationales
from ragtrace.coverage.text import is_english
from ragtrace.coverage.verifier import JudgedAnswer, Verifier, verify_answers

__all__ = [
    "NEGATED",
    "SUPPORTED",
    "Background",
    "JudgedAnswer",
    "PromptEvidence",
    "Rationale",
    "ReadEntities",
    "Verifier",
    "abstains_somewhere",
    "answer_coverage",
    "answer_relevance",
    "are_alike",
    "asked",
    "candidate_recall",
    "citation_coverage",
    "citation_precision",
    "citation_recall",
    "claim_supports",
    "contradiction_rate",
    "contradictions",
    "dangling_citations",
    "evidence_depth",
    "evidence_overlap",
    "evidence_precision",
    "evidence_presence",
    "evidence_recall",
    "evidence_token_share",
    "expected_answer",
    "extract_facets",
    "facet_in_text",
    "facet_matrix",
    "find_citations",
    "first_number",
    "is_abstention",
    "is_english",
    "joint_query_coverage",
    "judge_claims",
    "key_terms",
    "lost_evidence",
    "match_facets",
    "needs_retrieval",
    "proxy_classes",
    "proxy_reference",
    "query_coverage",
    "rank_shift",
    "rationales",
    "resolve_times",
    "score_answer",
    "split_claims",
    "standings",
    "superseded",
    "truncated_tokens",
    "undetermined",
    "united",
    "verify_answers",
    "why_no_relevance",
]
