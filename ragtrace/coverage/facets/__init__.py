"""Facets: what a question requires of its evidence, read from the question and matched against candidates by type."""

from __future__ import annotations

from ragtrace.coverage.facets.combinations import facet_combinations
from ragtrace.coverage.facets.extraction import extract_facets
from ragtrace.coverage.facets.matching import facet_in_text, facet_matrix

__all__ = ["extract_facets", "facet_combinations", "facet_in_text", "facet_matrix"]
