"""Query Coverage: how much of what the question requires do the retrieved candidates hold?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage.facets import MET, facet_in_text, facet_matrix, judge_facet
from ragtrace.coverage.facets.combinations import facet_combinations
from ragtrace.types import Candidate, Facet, FacetMatch, replace

__all__ = ["joint_query_coverage", "match_facets", "query_coverage"]

Matrix = NDArray[np.float64]


def query_coverage(
    facets: Sequence[Facet], candidates: Sequence[Candidate], *, k: int | None = None, matrix: Matrix | None = None
) -> float | None:
    """QC@k = Σ w_f · max_{c ≤ k} match(f, c) / Σ w_f, in [0, 1]; None without facets, and where candidates that could
    not be read might raise it.

    candidates: best first; k: how many of them count (all by default); matrix: `facet_matrix` of the same arguments,
    when it is known already. Different candidates may meet different facets.
    Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §3.
    """
    if not facets:
        return None
    table = _table(facets, candidates, k, matrix)
    if not table.shape[1]:
        return 0.0
    least, most = (float(_weighted(facets, np.nan_to_num(table, nan=unread).max(axis=1))) for unread in (0.0, 1.0))
    return least if least == most else None


def joint_query_coverage(
    facets: Sequence[Facet], candidates: Sequence[Candidate], *, k: int | None = None, matrix: Matrix | None = None
) -> float | None:
    """The best single candidate's weighted match max_c Σ w_f · match(f, c) / Σ w_f, in [0, 1]; None without
    facets, and where a candidate that could not be read might be that one.

    Low while Query Coverage is high: each constraint is met somewhere, but by no one chunk (the right product in the
    wrong year). Where the facets compare (two years that no chunk meets together), each side is asked of its own best
    candidate, and the worse side counts. Never above Query Coverage where nothing is compared.
    """
    if not facets:
        return None
    table = _table(facets, candidates, k, matrix)
    if not table.shape[1]:
        return 0.0
    sides = facet_combinations(facets, _known(table), names_apart=True)
    least, most = (_worst_side(facets, np.nan_to_num(table, nan=unread), sides) for unread in (0.0, 1.0))
    return least if least == most else None


def match_facets(
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    *,
    rewritten: str | None = None,
    matrix: Matrix | None = None,
) -> tuple[FacetMatch, ...]:
    """Each facet's best match, the candidate that gave it, and whether a rewritten query still states the facet.

    A facet that none meets says which candidate states another value instead, if one does.
    """
    table = _table(facets, candidates, None, matrix)
    known = _known(table)
    found = []
    for index, facet in enumerate(facets):
        row = known[index]
        best = int(row.argmax()) if row.size else -1
        met = best >= 0 and row[best] > 0
        match = FacetMatch(
            facet=facet,
            match=float(row[best]) if met else 0.0,
            chunk_id=candidates[best].chunk_id if met else None,
            rank=candidates[best].rank if met else None,
            in_rewrite=None if rewritten is None else facet_in_text(facet, rewritten),
        )
        found.append(match if match.match >= MET else _unmet(match, candidates, table, index))
    return tuple(found)


def _unmet(match: FacetMatch, candidates: Sequence[Candidate], table: Matrix, index: int) -> FacetMatch:
    """`match` with what is stated instead, by the first of the candidates that meet the other facets best."""
    if np.isnan(table[index]).any():
        return replace(match, reason="no_candidate_text")
    others = np.delete(_known(table), index, axis=0).sum(axis=0)
    for column in np.argsort(-others, kind="stable"):
        judgment = judge_facet(match.facet, candidates[int(column)])
        if judgment.contradicted:
            return replace(match, contradicted_by=candidates[int(column)].chunk_id, given=judgment.given)
    return match


def _table(facets: Sequence[Facet], candidates: Sequence[Candidate], k: int | None, matrix: Matrix | None) -> Matrix:
    table = facet_matrix(facets, candidates) if matrix is None else matrix
    return table[:, : len(candidates) if k is None else k]


def _known(table: Matrix) -> Matrix:
    return np.nan_to_num(table, nan=0.0)


def _worst_side(facets: Sequence[Facet], table: Matrix, sides: Sequence[tuple[int, ...]]) -> float:
    return min(_best_candidate([facets[row] for row in rows], table[list(rows)]) for rows in sides)


def _best_candidate(facets: Sequence[Facet], table: Matrix) -> float:
    return float(_weighted(facets, table).max())


def _weighted(facets: Sequence[Facet], matches: Matrix) -> Matrix:
    """Weighted means over the facets (axis 0), in [0, 1]."""
    weights = np.array([facet.weight for facet in facets])
    return np.asarray(np.clip(weights @ matches / weights.sum(), 0.0, 1.0), dtype=np.float64)
