"""The proxy reference: the evidence that a question needs, estimated where no oracle set is known.

Only the question, its facets and the candidates are looked at, and *all* candidates are: neither the answer's claims
(they mostly rest on what was packed, so they would judge selection by its own outcome) nor the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage.facets import facet_matrix
from ragtrace.coverage.support import Evidence, Vocabulary
from ragtrace.coverage.text import content_words
from ragtrace.types import Candidate, Facet

__all__ = ["proxy_reference"]

MARGIN: Final = 0.95  # a candidate belongs to the reference from this share of the best score on
MOST: Final = 3  # chunks per combination of facets; more of equal score tell no needed chunk from another
COMBINATIONS: Final = 8


def proxy_reference(
    query: str,
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    *,
    matrix: NDArray[np.float64] | None = None,
) -> tuple[str, ...]:
    """Chunk ids of the candidates that best match the query and its facets; empty when none has text or matches.

    Score of a candidate: (IDF-weighted share of the query's words in its best window and heading) x (weighted facet
    match). Where a question names several facets of one kind (two years to compare), the best candidates are taken
    for each combination of one facet of each kind.
    """
    pool = [Evidence.read(candidate.chunk_id, candidate.text or "") for candidate in candidates]
    if not any(evidence.windows for evidence in pool):
        return ()
    relevance = _relevance(query, pool)
    table = facet_matrix(facets, candidates) if matrix is None else matrix
    chosen: dict[str, None] = {}
    for rows in _combinations(facets):
        score = relevance * _facet_match(facets, table, rows)
        chosen.update(dict.fromkeys(pool[index].chunk_id for index in _best(score)))
    return tuple(chosen)


def _relevance(query: str, pool: Sequence[Evidence]) -> NDArray[np.float64]:
    vocabulary = Vocabulary(pool)
    weights = {word: vocabulary.weight(word) for word in set(content_words(query))}
    total = sum(weights.values())
    scores = np.zeros(len(pool))
    if not total:
        return scores
    for index, evidence in enumerate(pool):
        heading = evidence.heading
        windows = (window.words | heading for window in evidence.windows)
        scores[index] = max((sum(weights.get(word, 0.0) for word in given) for given in windows), default=0.0) / total
    return scores


def _combinations(facets: Sequence[Facet]) -> list[tuple[int, ...]]:
    kinds: dict[str, list[int]] = {}
    for row, facet in enumerate(facets):
        kinds.setdefault(facet.kind, []).append(row)
    combinations = list(product(*kinds.values()))
    return combinations if len(combinations) <= COMBINATIONS else [tuple(range(len(facets)))]


def _facet_match(facets: Sequence[Facet], table: NDArray[np.float64], rows: tuple[int, ...]) -> NDArray[np.float64]:
    if not rows:
        return np.ones(table.shape[1])
    weights = np.array([facets[row].weight for row in rows])
    match: NDArray[np.float64] = weights @ table[list(rows)] / weights.sum()
    return match


def _best(score: NDArray[np.float64]) -> list[int]:
    top = float(score.max()) if score.size else 0.0
    if top <= 0.0:
        return []
    order = np.argsort(-score, kind="stable")
    return [int(index) for index in order[:MOST] if score[index] >= MARGIN * top]
