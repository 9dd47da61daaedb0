"""Alignment of a request's answer with its documents: with their ranking, and of each claim with its chunk.

The chunk of a claim is layer 3 of its support: the one that the generator took it from, by what is lost without that
chunk. Dropping a chunk tells what an answer was made from, not whether it is true: support and contradiction stay what
words and models said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment import (
    FlagProbabilities,
    flag_probabilities,
    noise_distraction,
    normal_draws,
    rank_by_score,
    spearman,
    warg,
    warg_adjusted,
    warg_chance,
    warg_floor,
    warg_normalized,
    wasted_retrieval,
)
from ragtrace.analyze.prompts import Unexplained
from ragtrace.coverage import SUPPORTED
from ragtrace.explanations import RESOLUTION, Alignment, GeneratorAttribution, TermUse
from ragtrace.types import Claim, RequestRecord, replace

__all__ = ["ABLATION", "LEAST_USE", "PERSISTENCES", "align", "align_terms", "chunk_drops", "ranking_of", "resting_on"]

Shares: TypeAlias = NDArray[np.float64]

PERSISTENCES: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
LEAST_USE: Final = 0.1
"""Nats a token: an answer to which all documents add less, as a mean over its tokens, does not rest on them."""
_DRAWS: Final = 1000
_DECIMALS: Final = 9  # as `rank_by_score` has it


def ranking_of(record: RequestRecord, documents: Sequence[str]) -> tuple[str, ...] | None:
    """The order in which these documents entered the prompt's ranking, best first: the reranker's where it ranked
    them, else the retriever's; documents that were not ranked come last. None where no ranking is known.

    Source: RAG-E, §3.3.
    """
    moved = {move.chunk_id: move.rank_after for move in record.moves if move.rank_after is not None}
    retrieved = {candidate.chunk_id: candidate.rank for candidate in record.candidates}
    ranks = moved if any(chunk_id in moved for chunk_id in documents) else retrieved
    if not any(chunk_id in ranks for chunk_id in documents):
        return None
    last = len(documents) + max(ranks.values())
    behind = {chunk_id: last + retrieved.get(chunk_id, last) for chunk_id in documents}
    return tuple(sorted(documents, key=lambda chunk_id: ranks.get(chunk_id, behind[chunk_id])))


def align(ranking: Sequence[str] | None, generator: GeneratorAttribution) -> Alignment:
    """WARG at each p, flags and their probabilities. ranking: as `ranking_of` gives it.

    Raises: Unexplained where no ranking is known, a single document has no order, or all shares are equal: the ranking
    that breaks ties would then be compared with itself.
    """
    if ranking is None:
        raise Unexplained("the documents' ranking is not known")
    if len(ranking) < 2:
        raise Unexplained(f"a single {generator.players.removesuffix('s')} has only one order")
    places = [generator.chunk_ids.index(each) for each in ranking]
    shares = _with_ties(np.array(generator.shares)[places])
    used = rank_by_score(ranking, shares)
    order = tuple(map(str, used.documents))
    k = len(ranking)
    if used.ties == k - 1:
        raise Unexplained(f"all {generator.players} have the same share, so that the answer gives them no order")
    unused = _is_unused(generator)
    sure = None if unused else _probabilities(generator, places, shares)
    return Alignment(
        retriever=tuple(ranking),
        generator=order,
        ties=used.ties,
        ps=PERSISTENCES,
        warg=tuple(warg(ranking, order, p) for p in PERSISTENCES),
        floor=tuple(warg_floor(k, p) for p in PERSISTENCES),
        chance=tuple(warg_chance(k, p) for p in PERSISTENCES),
        normalized=tuple(warg_normalized(ranking, order, p) for p in PERSISTENCES),
        adjusted=tuple(warg_adjusted(ranking, order, p) or 0.0 for p in PERSISTENCES),
        spearman=spearman(ranking, order),
        wasted_retrieval=None if unused else wasted_retrieval(ranking, order),
        wasted_probability=None if sure is None else sure.wasted_retrieval,
        noise_distraction=None if unused else noise_distraction(ranking, order),
        noise_probability=None if sure is None else sure.noise_distraction,
        unused=unused,
    )


def align_terms(terms: Sequence[TermUse], query: GeneratorAttribution) -> Alignment:
    """The same of the question's terms: how far what the answer needs of the question is what retrieval went by.

    terms: as `term_uses` gives them; those that the generator never saw do not count. A term is named by its place,
    `START:END`. Wasted retrieval: the term that raised the scores most is hardly needed by the answer; noise
    distraction: the term that the answer needs most hardly raised them.

    Raises: Unexplained as `align`, and where no term has a part in the scores. Source: RAG-E, §3.3.
    """
    parts = {f"{term.place[0]}:{term.place[1]}": term.retriever for term in terms if term.place is not None}
    if not any(parts.values()):
        raise Unexplained("no term of the question has a part in the scores of retrieval")
    ranking = sorted(parts, key=lambda name: -parts[name])
    names = tuple(f"{start}:{end}" for start, end in query.query_spans)
    return align(ranking, replace(query, chunk_ids=names))


def _is_unused(generator: GeneratorAttribution) -> bool:
    """Whether the documents together add next to nothing to the answer: then none of them was wasted, and none
    distracted."""
    known = generator.unit == "log_probability" and generator.full is not None and generator.empty is not None
    return known and abs((generator.full or 0.0) - (generator.empty or 0.0)) < LEAST_USE


def _with_ties(shares: Shares) -> Shares:
    """The shares, those that cannot be told apart (such as of documents with the same text) put to their mean."""
    order = np.argsort(-shares, kind="stable")
    borders = np.flatnonzero(-np.diff(shares[order]) > RESOLUTION) + 1
    united = shares.copy()
    for group in np.split(order, borders):
        united[group] = shares[group].mean()
    return united


def _probabilities(generator: GeneratorAttribution, places: list[int], shares: Shares) -> FlagProbabilities | None:
    """By draws from the shares' distribution, whose errors go together; None where it is unknown."""
    if not generator.share_covariance:
        return None
    covariance = np.array(generator.share_covariance)[np.ix_(places, places)]
    draws = normal_draws(shares, covariance, n_draws=_DRAWS, seed=generator.seed)
    return flag_probabilities(np.round(draws, _DECIMALS))  # shares that tie must tie in the draws, too


ABLATION: Final = "ablation"
"""The layer of a claim whose chunk was found by leaving chunks out."""
LEAST: Final = 0.1  # nats per token that a claim must lose without a chunk to rest on it


def chunk_drops(found: GeneratorAttribution, start: int, end: int) -> dict[str, float]:
    """What each chunk's removal takes from the mean log-probability of the tokens of `answer[start:end]`, in nats.

    mean_j [v_j(all chunks) - v_j(all but this one)], over the tokens j that stand in the span, if only in part: many
    begin with the space before it. A chunk whose removal was not scored is left out. Source: "Diagnosing Hallucinations
    with Attribution Traces and Retrieval Coverage Metrics", §3.
    """
    tokens = [place for place, (first, last) in enumerate(found.answer_spans) if first < end and start < last]
    if not tokens:
        return {}
    pairs = zip(found.chunk_ids, found.drops, strict=False)
    return {chunk: float(np.mean([drops[place] for place in tokens])) for chunk, drops in pairs if drops}


def resting_on(claims: Sequence[Claim], found: GeneratorAttribution | None) -> tuple[Claim, ...]:
    """`claims`, those that lose their likelihood without a chunk with that chunk as their best one.

    A contradicted claim keeps the chunk that contradicts it. A claim that stands as firmly without any one chunk (it
    is in two, or in the model) keeps what earlier layers found.
    """
    return tuple(claims) if found is None else tuple(_resting(claim, found) for claim in claims)


def _resting(claim: Claim, found: GeneratorAttribution) -> Claim:
    if not claim.factual or (claim.contradiction or 0.0) >= SUPPORTED:
        return claim
    drops = chunk_drops(found, claim.start, claim.end)
    best = max(drops, key=lambda chunk: drops[chunk], default=None)
    if best is None or drops[best] < LEAST:
        return claim
    reason = f"without {best} each token is {drops[best]:.2f} nats less likely"
    return replace(claim, best_chunk=best, layer=ABLATION, reason=reason)
