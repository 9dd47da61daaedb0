"""Failures of a retriever and a generator that disagree about their best document, and how sure these and a WARG are
when the documents' shares are estimates with an error.

Everywhere the columns of `draws` are the documents in the retriever's order, so that equal values fall back on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.alignment._rankings import Ranking, check_persistence, same_documents
from ragtrace.errors import ConfigurationError
from ragtrace.numeric import check_seed, is_integer, real_array

__all__ = [
    "FlagProbabilities",
    "expected_warg_change",
    "flag_probabilities",
    "noise_distraction",
    "normal_draws",
    "wasted_retrieval",
]

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
