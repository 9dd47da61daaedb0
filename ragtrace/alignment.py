"""Agreement of the retriever's ranking with the generator's use of it: WARG, failure modes, and how sure they are.

Everything here is arithmetic on rankings, best first; no model is needed. WARG of a finite ranking is not normalized:
its least value, and the value of a random order, depend on k and p. So a raw value means something only beside these
two, and two values compare only at equal k and p; alerts and gates use `warg_adjusted`. Failures are those of a
retriever and a generator that disagree about their best document; where the documents' shares are estimates with an
error, the columns of `draws` are the documents in the retriever's order, so that equal values fall back on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.errors import ConfigurationError
from ragtrace.numeric import check_seed, is_integer, is_real, real_array

__all__ = [
    "FlagProbabilities",
    "Ranked",
    "Ranking",
    "expected_warg_change",
    "flag_probabilities",
    "noise_distraction",
    "normal_draws",
    "rank_by_score",
    "rbo",
    "rbo_ext",
    "spearman",
    "warg",
    "warg_adjusted",
    "warg_chance",
    "warg_floor",
    "warg_normalized",
    "wasted_retrieval",
]

Ranking: TypeAlias = Sequence[Hashable]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Documents by descending score. `ties`: neighbors whose order the score left open."""

    documents: tuple[Hashable, ...]
    ties: int


def _positions(ranking: Ranking, name: str = "ranking") -> dict[Hashable, int]:
    """The 0-based rank of each document.

    Raises: ConfigurationError for what is no sequence of hashable ids (a set has no order), for an empty ranking, and
        for a document that stands in it twice.
    """
    if isinstance(ranking, str | bytes) or not isinstance(ranking, Sequence | np.ndarray):
        raise ConfigurationError(f"{name} is {ranking!r}; give a sequence of document ids, best first")
    try:
        found = {document: rank for rank, document in enumerate(ranking)}
    except TypeError as error:
        raise ConfigurationError(f"{name} holds what is no document id: {error}; give hashable ids") from error
    if not found:
        raise ConfigurationError(f"{name} is empty; give at least one document id")
    if len(found) < len(ranking):
        twice = next(document for document, times in Counter(ranking).items() if times > 1)
        raise ConfigurationError(f"{name} holds {twice!r} more than once; give each document one rank")
    return found


def same_documents(retriever: Ranking, generator: Ranking) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """The ranks in two rankings of the same documents.

    Raises: ConfigurationError when one ranking holds a document that the other lacks.
    """
    first, second = _positions(retriever, "retriever"), _positions(generator, "generator")
    if first.keys() != second.keys():
        odd = next(document for document in (*first, *second) if document not in first or document not in second)
        raise ConfigurationError(
            f"{odd!r} stands in one of the two rankings only; restrict both to the documents of the prompt"
        )
    return first, second


def rank_by_score(documents: Ranking, scores: ArrayLike, *, tolerance: float = 1e-9) -> Ranked:
    """The generator's ranking: documents by descending score, ties in the order of `documents`.

    documents: `k` ids in the retriever's order. scores: `(k,)`, or `(k, m)` with one column per output token, whose
    mean counts. Neighbors whose scores differ by no more than `tolerance` tie.

    Raises: ConfigurationError for scores that are not finite, or not one per document, and a negative tolerance.
    """
    _positions(documents, "documents")
    if not (is_real(tolerance) and tolerance >= 0):
        raise ConfigurationError(f"tolerance is {tolerance!r}; give a number of 0 or more")
    values = real_array(scores, "scores", ConfigurationError)
    if values.ndim not in (1, 2) or len(values) != len(documents) or values.size == 0:
        raise ConfigurationError(f"scores have the shape {values.shape}; give one row for each of {len(documents)} ids")
    means = values.reshape(len(documents), -1).mean(axis=1)
    if not np.isfinite(means).all():
        raise ConfigurationError(f"the score of {documents[int(np.argmin(np.isfinite(means)))]!r} is not finite")
    order = np.argsort(-means, kind="stable")
    tied = -np.diff(means[order]) <= tolerance
    group = np.concatenate([[0], np.cumsum(~tied)])
    return Ranked(tuple(documents[i] for i in order[np.lexsort((order, group))]), int(tied.sum()))


def spearman(first: Ranking, second: Ranking) -> float | None:
    """Spearman's rank correlation of two rankings of the same documents, in [-1, 1]; None for a single document.

    Raises: ConfigurationError when the rankings hold different documents.
    """
    a, b = same_documents(first, second)
    k = len(a)
    if k < 2:
        return None
    squares = sum((a[document] - b[document]) ** 2 for document in a)
    return 1 - 6 * squares / (k * (k * k - 1))


def check_persistence(p: float) -> None:
    """Raises: ConfigurationError unless 0 < p < 1."""
    if not (is_real(p) and 0 < p < 1):
        raise ConfigurationError(f"p is {p!r}; give a number between 0 and 1, both excluded, such as 0.9")


def _overlaps(a: Ranking, b: Ranking) -> NDArray[np.float64]:
    """|a_1:d ∩ b_1:d| for each depth d, down to the length of the longer ranking. Raises: as `rbo`."""
    ranks_a, ranks_b = _positions(a, "a"), _positions(b, "b")
    deeper = [max(rank, ranks_b[document]) for document, rank in ranks_a.items() if document in ranks_b]
    return np.cumsum(np.bincount(deeper, minlength=max(len(a), len(b)))).astype(np.float64)


def _discounted(by_depth: NDArray[np.float64], p: float) -> float:
    """Σ p^(d-1) x_d."""
    return float(np.sum(p ** np.arange(len(by_depth)) * by_depth))


def rbo(a: Ranking, b: Ranking, p: float) -> float:
    """Rank-biased overlap (1-p) Σ_{d=1..k} p^(d-1) |a_1:d ∩ b_1:d| / d, in [0, 1 - p^k].

    k is the length of the longer ranking; beyond its end the shorter one stays whole. Symmetric. Not normalized:
    equal rankings have 1 - p^k.

    Raises: ConfigurationError for a p outside of (0, 1), an empty ranking, or a document that stands in one twice.
    Source: Webber, Moffat and Zobel, "A similarity measure for indefinite rankings" (2010); RAG-E, eq. 11.
    """
    check_persistence(p)
    overlap = _overlaps(a, b)
    return (1 - p) * _discounted(overlap / np.arange(1, len(overlap) + 1), p)


def rbo_ext(a: Ranking, b: Ranking, p: float) -> float:
    """Rank-biased overlap extrapolated beyond the end of the rankings, in [0, 1]; equal rankings have 1.

    Assumes that the agreement seen at the end goes on, also for rankings of different lengths. Symmetric.

    Raises: as `rbo`. Source: Webber, Moffat and Zobel (2010), eq. 32.
    """
    check_persistence(p)
    overlap = _overlaps(a, b)
    short, long = sorted((len(a), len(b)))
    depth = np.arange(1, long + 1)
    at_short, at_long = float(overlap[short - 1]), float(overlap[long - 1])
    beyond = at_short * np.clip(depth - short, 0, None) / short
    seen = (1 - p) * _discounted((overlap + beyond) / depth, p)
    return min(1.0, seen + ((at_long - at_short) / long + at_short / short) * p**long)  # rounding aside it is below


def warg(retriever: Ranking, generator: Ranking, p: float = 0.9) -> float:
    """Weighted Attribution-Relevance Gap 1 - RBO, in [p^k, 1].

    retriever, generator: document ids, best first; the retriever's restricted to the documents of the prompt.

    Raises: as `rbo`. Source: RAG-E, eq. 12.
    """
    check_persistence(p)
    disagreement = _disagreement(retriever, generator)
    return min(1.0, warg_floor(len(disagreement), p) + (1 - p) * _discounted(disagreement, p))  # but for rounding


def warg_floor(k: int, p: float) -> float:
    """WARG of two equal rankings of `k` documents: p^k.

    Raises: ConfigurationError for k < 1 or a p outside of (0, 1).
    """
    _check_size(k)
    check_persistence(p)
    return float(p**k)


def warg_chance(k: int, p: float) -> float:
    """Exact mean of WARG over all orders of `k` documents: 1 - (1-p)/k Σ_{d=1..k} d p^(d-1).

    Two random prefixes of length d share d²/k documents on average. Raises: as `warg_floor`.
    """
    _check_size(k)
    check_persistence(p)
    depth = np.arange(1, k + 1)
    return float(1 - (1 - p) / k * np.sum(depth * p ** (depth - 1)))


def warg_normalized(retriever: Ranking, generator: Ranking, p: float = 0.9) -> float:
    """(WARG - floor) / (1 - floor), in [0, 1]; 0 means equal rankings.

    Raises: ConfigurationError as `rbo`, and when the rankings hold different documents.
    """
    check_persistence(p)
    same_documents(retriever, generator)
    disagreement = _disagreement(retriever, generator)
    return _discounted(disagreement, p) / _discounted(np.ones(len(disagreement)), p)


def warg_adjusted(retriever: Ranking, generator: Ranking, p: float = 0.9) -> float | None:
    """(WARG - floor) / (chance - floor): 0 means equal rankings, 1 no better than a random order, more means opposed.

    None for a single document, whose only order is both. Raises: as `warg_normalized`.
    """
    check_persistence(p)
    same_documents(retriever, generator)
    disagreement = _disagreement(retriever, generator)
    k = len(disagreement)
    return _discounted(disagreement, p) / _discounted(1 - np.arange(1, k + 1) / k, p) if k > 1 else None


def _disagreement(retriever: Ranking, generator: Ranking) -> NDArray[np.float64]:
    """`(k,)`: which part of the prefixes of each length the rankings do not share.

    WARG is its floor and (1 - p) of the discounted sum of these, a factor that every ratio above the floor loses. So
    equal rankings have the floor exactly, and ratios stay right where p is so close to 1 that p^k rounds to 1.
    """
    shared = _overlaps(retriever, generator)
    return 1 - shared / np.arange(1, len(shared) + 1)


def _check_size(k: int) -> None:
    if not is_integer(k) or k < 1:
        raise ConfigurationError(f"k is {k!r}; give the number of ranked documents, at least 1")


Floats = NDArray[np.float64]


def wasted_retrieval(retriever: Ranking, generator: Ranking, cutoff: int = 2) -> bool | None:
    """Whether the generator hardly used the retriever's best document: its 0-based generator rank is above `cutoff`.

    None (undefined) for k <= cutoff + 1 documents, of which none can be ranked so low.

    Raises: ConfigurationError for a negative cutoff, or rankings of different documents. Source: RAG-E, §5.2.
    """
    return _ranked_low(retriever, generator, cutoff)


def noise_distraction(retriever: Ranking, generator: Ranking, cutoff: int = 2) -> bool | None:
    """Whether the generator rests on a document that the retriever ranked low: its 0-based rank is above `cutoff`.

    None (undefined) for k <= cutoff + 1 documents. Raises: as `wasted_retrieval`. Source: RAG-E, §5.2.
    """
    return _ranked_low(generator, retriever, cutoff)


def _check_cutoff(cutoff: int) -> None:
    """Raises: ConfigurationError unless `cutoff` is a rank: an integer of 0 or more."""
    if not is_integer(cutoff) or cutoff < 0:
        raise ConfigurationError(f"cutoff is {cutoff!r}; give a 0-based rank, an integer of 0 or more")


def _ranked_low(best_of: Ranking, ranked_by: Ranking, cutoff: int) -> bool | None:
    _check_cutoff(cutoff)
    _, ranks = same_documents(best_of, ranked_by)
    return None if len(ranks) <= cutoff + 1 else bool(ranks[best_of[0]] > cutoff)


@dataclass(frozen=True, slots=True)
class FlagProbabilities:
    """The share of draws in which each flag is set, in [0, 1]."""

    wasted_retrieval: float
    noise_distraction: float


def normal_draws(values: ArrayLike, error: ArrayLike, *, n_draws: int = 200, seed: int = 0) -> Floats:
    """Draws `(n_draws, k)` from the normal distribution of an estimate; deterministic by seed.

    values: `(k,)`. error: `(k,)` standard errors, then drawn independently, or a `(k, k)` covariance.

    Raises: ConfigurationError for shapes that do not fit, numbers that are not finite, or no draw.
    """
    check_seed(seed)
    if not is_integer(n_draws) or n_draws < 1:
        raise ConfigurationError.of("n_draws", n_draws, "an integer of at least 1")
    mean, spread = (real_array(each, name, ConfigurationError) for each, name in ((values, "values"), (error, "error")))
    if mean.ndim != 1 or spread.shape not in ((len(mean),), (len(mean), len(mean))):
        raise ConfigurationError(
            f"values {mean.shape}, error {spread.shape}; give (k,) values, (k,) standard errors or a (k, k) covariance"
        )
    if not (np.isfinite(mean).all() and np.isfinite(spread).all()):
        raise ConfigurationError("values or error are not finite; there is nothing to draw from: raise the budget")
    normal = np.random.default_rng(seed).standard_normal((n_draws, len(mean)))
    if spread.ndim == 1:
        return np.asarray(mean + normal * spread)
    scale, directions = np.linalg.eigh((spread + spread.T) / 2)
    return np.asarray(mean + normal * np.sqrt(np.clip(scale, 0, None)) @ directions.T)


def flag_probabilities(draws: ArrayLike, cutoff: int = 2) -> FlagProbabilities | None:
    """The share of `draws` `(n, k)` in which each flag is set; None (undefined) for k <= cutoff + 1 documents.

    Raises: ConfigurationError for an empty or not finite matrix, or a negative cutoff.
    """
    _check_cutoff(cutoff)
    order, ranks = _generator_orders(draws)
    if order.shape[1] <= cutoff + 1:
        return None
    return FlagProbabilities(float((ranks[:, 0] > cutoff).mean()), float((order[:, 0] > cutoff).mean()))


def expected_warg_change(values: ArrayLike, draws: ArrayLike, p: float = 0.9) -> float:
    """Mean |WARG(draw) - WARG(estimate)|: how far the reported WARG is likely to be off.

    values: `(k,)` estimates in the retriever's order. draws: `(n, k)`. Raises: as `flag_probabilities`.
    """
    check_persistence(p)
    estimate, drawn = real_array(values, "values", ConfigurationError), real_array(draws, "draws", ConfigurationError)
    if estimate.ndim != 1 or drawn.ndim != 2 or len(estimate) != drawn.shape[1]:
        raise ConfigurationError(f"values {estimate.shape} and draws {drawn.shape} do not fit: give (k,) and (n, k)")
    return float(np.abs(_wargs(drawn, p) - _wargs(estimate[None], p)).mean())


def _wargs(scores: Floats, p: float) -> Floats:
    _, ranks = _generator_orders(scores)
    k = ranks.shape[1]
    depth = np.arange(1, k + 1)
    weights = (1 - p) * p ** (depth - 1) / depth
    shares = np.cumsum(weights[::-1])[::-1]  # what a document adds from the depth on at which both prefixes hold it
    shared: Floats = shares[np.maximum(ranks, depth - 1)].sum(axis=1)
    return 1 - shared


def _generator_orders(draws: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Documents by descending score, and the rank of each document, row by row."""
    scores = real_array(draws, "draws", ConfigurationError)
    if scores.ndim != 2 or scores.size == 0 or not np.isfinite(scores).all():
        raise ConfigurationError(f"draws have the shape {scores.shape}; give finite numbers, one row per draw")
    order = np.argsort(-scores, axis=1, kind="stable")
    return order, np.argsort(order, axis=1, kind="stable")
