"""The proxy reference and evidence presence: what a question needs, and whether it was found, without an oracle.

Of the reference, only the question, its facets and the candidates are looked at, and *all* candidates are: neither the
answer's claims (they mostly rest on what was packed, so they would judge selection by its own outcome) nor the ranks.
The retriever's scores count beside the words: they judge nothing that the retriever did, only what became of it.

Facets alone seldom tell that a chunk is absent: most questions name none that it would leave unmet. What shows it is
that no candidate speaks of the question as it would, that the generator declined although it was given the best
candidates, or that its answer rests on nothing that was retrieved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage._evidence import repeat_each_other
from ragtrace.coverage._query import Asked, asked_for, facet_combinations, holds_asked, sub_questions
from ragtrace.coverage.facets import contradictions, facet_matrix
from ragtrace.coverage.support import Evidence, Vocabulary
from ragtrace.coverage.text import content_words
from ragtrace.types import Candidate, Claim, Facet

__all__ = [
    "are_alike",
    "evidence_presence",
    "proxy_classes",
    "proxy_reference",
    "proxy_scores",
    "restated_share",
    "spoken_share",
    "standings",
]

MARGIN: Final = 0.9  # a candidate belongs to the reference from this share of the best score on
TIED: Final = 0.99  # the same where candidates repeat each other, or more than `MOST` lie within the margin
MOST: Final = 3  # chunks for one part of a question
FACETS_FIRST: Final = 4  # power of the facet match: another year's chunk must say very much more to be preferred
MISSING: Final = 0.8  # match with a facet read from the question, of a chunk that says nothing of it
CONTEXT: Final = 0.3  # weight of the question's other words beside those of the part
OTHER_KIND: Final = 0.5  # share of the score that a window without a value of the kind asked for keeps
BY_JUDGE: Final = 2.0  # weight of what a judge of relevance says of a candidate, beside that of the words
LENGTH: Final = 0.02  # discount for each word of a window, so that a sentence that names every subject does not win


def proxy_reference(
    query: str,
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    *,
    matrix: NDArray[np.float64] | None = None,
    relevance: Mapping[str, float] | None = None,
) -> tuple[str, ...]:
    """Chunk ids of the candidates that best match the query and its facets; empty when none has text or matches.

    The members of all `proxy_classes`, each once.
    """
    classes = proxy_classes(query, facets, candidates, matrix=matrix, relevance=relevance)
    return tuple(dict.fromkeys(chunk_id for members in classes for chunk_id in members))


def proxy_classes(
    query: str,
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    *,
    matrix: NDArray[np.float64] | None = None,
    relevance: Mapping[str, float] | None = None,
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
    relevance: what a judge says of the candidates by chunk id, at least 0; relative to its best, it counts twice what
    words do.
    """
    margin = TIED if candidates and are_alike(candidates) else MARGIN
    scores = proxy_scores(query, facets, candidates, matrix=matrix, relevance=relevance)
    classes = (tuple(candidates[index].chunk_id for index in _best(score, margin)) for score in scores)
    return tuple(members for members in classes if members)


def proxy_scores(
    query: str,
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    *,
    matrix: NDArray[np.float64] | None = None,
    relevance: Mapping[str, float] | None = None,
) -> Iterator[NDArray[np.float64]]:
    """The score of each candidate, `(n,)`, for each combination of facets and each part of the question; see
    `proxy_classes`. None at all where no candidate has text."""
    pool = [Evidence.read(candidate.chunk_id, candidate.text or "") for candidate in candidates]
    if not any(evidence.reading.sentences for evidence in pool):
        return
    facets, table = _required(facets, candidates, facet_matrix(facets, candidates) if matrix is None else matrix)
    judged = np.array([(relevance or {}).get(candidate.chunk_id, 0.0) for candidate in candidates])
    beside = standings(candidates) + BY_JUDGE * judged / (judged.max() or 1.0)
    for rows in facet_combinations(facets, table):
        match = _facet_match(facets, table, rows)
        eligible = [evidence for evidence, value in zip(pool, match, strict=True) if value >= match.max()]
        vocabulary = Vocabulary(eligible)
        for part in sub_questions(query):
            spoken = _relevance(_weights(part, query, vocabulary), asked_for(part), pool)
            yield (spoken / (spoken.max() or 1.0) + beside) * (spoken.max() > 0) * match**FACETS_FIRST


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
    total, words = sum(weights.values()), frozenset(weights)
    scores = np.zeros(len(pool))
    sums: dict[frozenset[str], float] = {}  # windows share one of few sets of words with the question
    for index, evidence in enumerate(pool):
        reading = evidence.reading
        ranked: list[tuple[float, int]] = []
        windows = zip(reading.shared(words).windows, reading.window_sizes, strict=True) if total else ()
        for at, (shared, size) in enumerate(windows):
            if shared not in sums:
                sums[shared] = math.fsum(map(weights.__getitem__, shared))  # the same in every order
            ranked.append((sums[shared] / total / (1 + LENGTH * size), at))
        best = 0.0
        for score, at in sorted(ranked, key=itemgetter(0), reverse=True):
            if score <= best:  # the values of a window are read only where they decide
                break
            best = max(
                best, score if asked is None or holds_asked(asked, reading.window_values(at)) else score * OTHER_KIND
            )
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


FEWEST: Final = 10  # candidates: among fewer, what is rare or stands out cannot be told
REPEATS: Final = 2  # so many candidates that repeat the best one: editions, which words do not tell apart

# Weights of the logarithm of the odds, fitted by logistic regression on faults in requests of SciFact, CLAP-NQ and
# MTRAG, both outcomes weighed alike. No score of the retriever is among them: it would speak for itself.
BASE, SPOKEN, FIRST, RESTATED, DECLINED = -7.18, 1.00, 4.04, 5.61, -4.33


def evidence_presence(
    query: str, candidates: Sequence[Candidate], *, claims: Sequence[Claim] = (), declined: bool = False
) -> float | None:
    """The estimated probability that the candidates hold the evidence, in (0, 1); 0 where there are no candidates.

    1 / (1 + exp(-(b + w_1 · spoken + w_2 · first + w_3 · restated + w_4 · declined))), see `spoken_share` and
    `restated_share`; `first` is the share of the question's words that the best candidate holds. Absent and present
    evidence are taken to be alike frequent. None where the candidates are few or have no text, or the question has
    no words. Where they are alike (see `are_alike`), only absence can be told: None from 0.5 on. claims: those of
    the answer; declined: it abstains although the best candidates stood in its prompt.
    """
    if not candidates:
        return 0.0
    pool = _read(sorted(candidates, key=lambda candidate: candidate.rank))
    words = content_words(query)
    if len(pool) < FEWEST or not words or not any(chunk.reading.sentences for chunk in pool):
        return None
    vocabulary = Vocabulary(pool)
    asked = _weighted(words, vocabulary)
    logit = BASE + SPOKEN * _spoken(asked, pool) + FIRST * _share(asked, pool[0].words | pool[0].heading)
    logit += RESTATED * _restated(claims, pool, vocabulary) + DECLINED * declined
    return None if logit >= 0 and _repeated(pool) >= REPEATS else 1 / (1 + math.exp(-logit))


def are_alike(candidates: Sequence[Candidate]) -> bool:
    """Whether others nearly repeat the best candidate, as editions of one text do: they share at least half of all
    their terms. Words then do not tell whether the right one of them is there; facets do."""
    return _repeated(_read(sorted(candidates, key=lambda each: each.rank))) >= REPEATS


def spoken_share(query: str, candidates: Sequence[Candidate]) -> float | None:
    """The rarity-weighted share of the question's words that one window of a candidate holds, with its heading: the
    best one's, in [0, 1]. None without text of any candidate, or without words in the question."""
    pool = _read(candidates)
    asked = _weighted(content_words(query), Vocabulary(pool))
    return _spoken(asked, pool) if asked and any(chunk.reading.sentences for chunk in pool) else None


def restated_share(claims: Sequence[Claim], candidates: Sequence[Candidate]) -> float:
    """The rarity-weighted share of a factual claim's words that one candidate holds, or the claim's support, weighed by
    what it says beyond the question, where that is more: of the claim for which it is largest, in [0, 1]. 1 without
    factual claims, which tell nothing.

    A generator that alters what it was given leaves most words, and one that tells it in words of its own is supported;
    one that was given nothing has both its own words and no support.
    """
    pool = _read(candidates)
    return _restated(claims, pool, Vocabulary(pool))


def _repeated(pool: Sequence[Evidence]) -> int:
    """How many chunks nearly repeat the first."""
    return sum(repeat_each_other(pool[0], other) for other in pool[1:])


def _spoken(asked: dict[str, float], pool: Sequence[Evidence]) -> float:
    best = 0.0
    for chunk in pool:
        if _share(asked, chunk.words | chunk.heading) <= best:
            continue  # no window of it holds more than all of it
        best = max(best, *(_share(asked, held) for held in chunk.reading.shared(frozenset(asked)).distinct))
    return best


def _restated(claims: Sequence[Claim], pool: Sequence[Evidence], vocabulary: Vocabulary) -> float:
    restated = [
        (_weighted(content_words(claim.text), vocabulary), claim.weight * (claim.support or 0.0))
        for claim in claims
        if claim.factual
    ]
    shares = (max(_share(words, chunk.words), support) for words, support in restated if words for chunk in pool)
    return max(shares, default=1.0)


def _read(candidates: Iterable[Candidate]) -> list[Evidence]:
    return [Evidence.read(candidate.chunk_id, candidate.text or "") for candidate in candidates]


def _weighted(words: Iterable[str], vocabulary: Vocabulary) -> dict[str, float]:
    return {word: vocabulary.weight(word) for word in words}


def _share(weights: dict[str, float], among: Set[str]) -> float:
    """The weight of the words that are `among` others over that of all."""
    shared = math.fsum(weights[word] for word in weights.keys() & among)  # the same in every order
    return shared / math.fsum(weights.values()) if weights else 0.0


NEIGHBORS: Final = 5  # scores behind the best that may belong to evidence as well; the rest is the background
BACKGROUND: Final = 5  # fewer scores than this are no background


def standings(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Each candidate's place between the background (0) and the best score (1): `(n,)`, in [0, 1].

    The background is the mean of all scores but the first few. Zeros where the scores tell nothing: some are absent,
    too few, all alike, or not in the order of the ranks (as where several retrievers' scores are mixed).
    """
    scores = _ordered(candidates)
    if scores is None:
        return np.zeros(len(candidates))
    background = np.sort(scores)[:-NEIGHBORS].mean()
    return np.asarray(np.clip((scores - background) / (scores.max() - background), 0.0, 1.0), dtype=np.float64)


def _ordered(candidates: Sequence[Candidate]) -> NDArray[np.float64] | None:
    """The scores, greater for a better rank (distances are turned around); None where they tell nothing."""
    ranked = sorted(candidates, key=lambda candidate: candidate.rank)
    known = [candidate.score for candidate in ranked if candidate.score is not None]
    if len(known) < len(ranked) or len(known) < NEIGHBORS + BACKGROUND or not np.isfinite(known).all():
        return None
    steps = np.diff(known)
    if not steps.any() or ((steps > 0).any() and (steps < 0).any()):
        return None
    sign = -1.0 if (steps > 0).any() else 1.0
    return sign * np.array([candidate.score for candidate in candidates], dtype=float)
