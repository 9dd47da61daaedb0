"""Facets: what a question requires of its evidence, read from the question and matched against candidates by type."""

from __future__ import annotations

from ragtrace.coverage.facets._extraction import ReadEntities, extract_facets, key_terms, resolve_times
from ragtrace.coverage.facets._matching import MET, Judgment, contradictions, facet_in_text, facet_matrix, judge_facet

__all__ = [
    "MET",
    "Judgment",
    "ReadEntities",
    "contradictions",
    "extract_facets",
    "facet_in_text",
    "facet_matrix",
    "judge_facet",
    "key_terms",
    "resolve_times",
]
