"""The proxy reference: the evidence that a question needs, estimated where no oracle set is known.

Only the question, its facets and the candidates are looked at, and *all* candidates are: neither the answer's claims
(they mostly rest on what was packed, so they would judge selection by its own outcome) nor the ranks. The retriever's
scores count beside the words: they judge nothing that the retriever did, only what became of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage.facets import contradictions, facet_matrix
from ragtrace.coverage.facets.combinations import facet_combinations
from ragtrace.coverage.presence import are_alike
from ragtrace.coverage.questions import Asked, asked_for, holds_asked, sub_questions
from ragtrace.coverage.standing import standings
from ragtrace.coverage.support import Evidence, Vocabulary
from ragtrace.coverage.support.reading import Window
from ragtrace.coverage.text import content_words
from ragtrace.types import Candidate, Facet

__all__ = ["proxy_classes", "proxy_reference", "proxy_scores"]

MARGIN: Final = 0.9  # a candidate belongs to the reference from this share of the best score on
TIED: Final = 0.99  # the same where candidates repeat each other, or more than `MOST` lie within the margin
MOST: Final = 3  # chunks for one part of a question
FACETS_FIRST: Final = 4  # power of the facet match: another year's chunk must say very much more to be preferred
MISSING: Final = 0.8  # match with a facet read from the question, of a chunk that says nothing of it
CONTEXT: Final = 0.3  # weight of the question's other words beside those of the part
OTHER_KIND: Final = 0.5  # share of the score that a window without a value of the kind asked for keeps
LENGTH: Final = 0.02  # discount for each word of a window, so that a sentence that names every subject does not win


def proxy_reference(
    query: str,
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    *,
    matrix: NDArray[np.float64] | None = None,
) -> tuple[str, ...]:
    """Chunk ids of the candidates that best match the query and its facets; empty when none has text or matches.

    The members of all `proxy_classes`, each once.
    """
    classes = proxy_classes(query, facets, candidates, matrix=matrix)
    return tuple(dict.fromkeys(chunk_id for members in classes for chunk_id in members))


def proxy_classes(
    query: str,
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    *,
    matrix: NDArray[np.float64] | None = None,
) -> tuple[tuple[str, ...], ...]:
    """For each part of the question the chunk ids of the candidates that match it best and about as well as each
    other, best first: one equivalence class, of which any member will do. Parts that nothing matches have none.

    Each part of the question ("what is the limit, and when must …") takes its best candidates for each combination of
    facets (two years to compare give two). Score of a candidate: (rarity-weighted share of the part's words in its best
    window and heading, discounted for the window's length and for lacking the kind of value asked for, relative
    to the best + how far the retriever's score stands out of the rest, see `standings`) x (weighted facet match)^4.
    Words are rare or common among the candidates that meet the facets best. Of facets that
    were read from the question, names choose nothing (they are among its words), and others spare most of the score of
    a candidate that says nothing of them: extraction can be wrong. Candidates that score nearly as well as the best
    belong to its class too, unless they are `are_alike`: other editions of a text are no evidence beside it.
    """
    margin = TIED if candidates and are_alike(candidates) else MARGIN
    scores = proxy_scores(query, facets, candidates, matrix=matrix)
    classes = (tuple(candidates[index].chunk_id for index in _best(score, margin)) for score in scores)
    return tuple(members for members in classes if members)


def proxy_scores(
    query: str,
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    *,
    matrix: NDArray[np.float64] | None = None,
) -> Iterator[NDArray[np.float64]]:
    """The score of each candidate, `(n,)`, for each combination of facets and each part of the question; see
    `proxy_reference`. None at all where no candidate has text."""
    pool = [Evidence.read(candidate.chunk_id, candidate.text or "") for candidate in candidates]
    if not any(evidence.windows for evidence in pool):
        return
    facets, table = _required(facets, candidates, facet_matrix(facets, candidates) if matrix is None else matrix)
    standing = standings(candidates)
    for rows in facet_combinations(facets, table):
        match = _facet_match(facets, table, rows)
        eligible = [evidence for evidence, value in zip(pool, match, strict=True) if value >= match.max()]
        vocabulary = Vocabulary(eligible)
        for part in sub_questions(query):
            relevance = _relevance(_weights(part, query, vocabulary), asked_for(part), pool)
            yield (relevance / (relevance.max() or 1.0) + standing) * (relevance.max() > 0) * match**FACETS_FIRST


def _required(
    facets: Sequence[Facet], candidates: Sequence[Candidate], matrix: NDArray[np.float64]
) -> tuple[list[Facet], NDArray[np.float64]]:
    """The facets that choose, and their matches; `MISSING` where a chunk says nothing of one that was read."""
    rows = [row for row, facet in enumerate(facets) if facet.source != "query" or facet.kind != "entity"]
    chosen = [facets[row] for row in rows]
    table = np.nan_to_num(matrix[rows], nan=0.0)
    read = [row for row, facet in enumerate(chosen) if facet.source == "query"]
    silent = ~contradictions([chosen[row] for row in read], candidates)
    table[read] = np.where(silent, np.maximum(table[read], MISSING), table[read])
    return chosen, table


def _weights(part: str, query: str, vocabulary: Vocabulary) -> dict[str, float]:
    own = {word: vocabulary.weight(word) for word in content_words(part)}
    context = {word: CONTEXT * vocabulary.weight(word) for word in content_words(query)}
    return context | own


def _relevance(weights: Mapping[str, float], asked: Asked | None, pool: Sequence[Evidence]) -> NDArray[np.float64]:
    total, words = sum(weights.values()), weights.keys()
    scores = np.zeros(len(pool))
    for index, evidence in enumerate(pool):
        named = words & evidence.heading
        ranked: list[tuple[float, Window]] = []
        for window in evidence.windows if total else ():
            shared = math.fsum(map(weights.__getitem__, named | (words & window.words)))  # the same in every order
            ranked.append((shared / total / (1 + LENGTH * len(window.words)), window))
        best = 0.0
        for score, window in sorted(ranked, key=itemgetter(0), reverse=True):
            if score <= best:  # the values of a window are read only where they decide
                break
            best = max(best, score if asked is None or holds_asked(asked, window.values) else score * OTHER_KIND)
        scores[index] = best
    return scores


def _facet_match(facets: Sequence[Facet], table: NDArray[np.float64], rows: tuple[int, ...]) -> NDArray[np.float64]:
    if not rows:
        return np.ones(table.shape[1])
    weights = np.array([facets[row].weight for row in rows])
    match: NDArray[np.float64] = weights @ table[list(rows)] / weights.sum()
    return match


def _best(score: NDArray[np.float64], margin: float) -> list[int]:
    top = float(score.max()) if score.size else 0.0
    if top <= 0.0:
        return []
    order = np.argsort(-score, kind="stable")
    margin = margin if (score >= margin * top).sum() <= MOST else TIED
    return [int(index) for index in order[:MOST] if score[index] >= margin * top]
