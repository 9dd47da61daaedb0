"""Query Coverage: how much of what the question requires do the retrieved candidates hold?

Facets that one chunk can meet together are combined: a comparison of two years needs a chunk for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage.facets import MET, facet_in_text, facet_matrix, judge_facet
from ragtrace.types import Candidate, Facet, FacetMatch, replace

__all__ = ["facet_combinations", "joint_query_coverage", "match_facets", "query_coverage"]

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


_EXCLUSIVE: Final = ("time", "version", "jurisdiction")  # kinds of which a chunk commonly has one
_MOST: Final = 8
_PAIRED: Final = 4


def facet_combinations(
    facets: Sequence[Facet], matrix: NDArray[np.float64], *, names_apart: bool = False
) -> list[tuple[int, ...]]:
    """Rows of `facets` that are asked of one chunk together, one tuple for each side of a comparison.

    Times, versions and places of a question that no candidate meets together are alternatives; everything else is
    asked of every chunk. As many times as versions are taken as pairs, those together that some candidate meets best
    ("edition 3 of 2022, edition 4 of 2024"). names_apart: so are names that were read from the question, since several
    may belong to several parts of it. matrix: `facet_matrix`, shape (n_facets, n_candidates), without unknown cells.
    One combination holds all facets when there is nothing to compare, or more than eight would result.
    """
    kinds: dict[str, list[int]] = {}
    for row, facet in enumerate(facets):
        kinds.setdefault(facet.kind, []).append(row)
    groups: list[list[tuple[int, ...]]] = [
        [(row,) for row in rows] if kind in _EXCLUSIVE and _apart(matrix[rows]) else [tuple(rows)]
        for kind, rows in kinds.items()
    ]
    if names_apart and "entity" in kinds and all(facets[row].source == "query" for row in kinds["entity"]):
        groups[list(kinds).index("entity")] = _names_apart(kinds["entity"], matrix)
    choices: list[tuple[tuple[int, ...], ...]] = list(product(*_paired(groups, matrix)))
    combinations = [tuple(row for rows in choice for row in rows) for choice in choices]
    return combinations if len(combinations) <= _MOST else [tuple(range(len(facets)))]


def _paired(groups: list[list[tuple[int, ...]]], matrix: NDArray[np.float64]) -> list[list[tuple[int, ...]]]:
    """The groups, those with equally many sides as one group of their best pairs."""
    paired: list[list[tuple[int, ...]]] = []
    for group in groups:
        place = next((at for at, other in enumerate(paired) if 1 < len(group) == len(other) <= _PAIRED), None)
        if place is None:
            paired.append(group)
        else:
            orders = [[(*one, *other) for one, other in zip(paired[place], order, strict=True)]
                      for order in permutations(group)]  # fmt: skip
            paired[place] = max(orders, key=lambda sides: sum(_together(matrix[list(rows)]) for rows in sides))
    return paired


def _together(matches: NDArray[np.float64]) -> float:
    """How well the best candidate meets all of these facets."""
    return float(matches.mean(axis=0).max(initial=0.0))


def _names_apart(rows: Sequence[int], matrix: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Each name that some candidate has by itself, where none has all of these; with the names that none has."""
    found = [row for row in rows if matrix[row].max(initial=0.0) > 0]
    absent = tuple(row for row in rows if row not in found)
    return [(row, *absent) for row in found] if _apart(matrix[found]) else [tuple(rows)]


def _apart(matches: NDArray[np.float64]) -> bool:
    """Whether there are several facets and no candidate meets them all."""
    return len(matches) > 1 and not (matches.shape[1] and matches.min(axis=0).max() > 0)
