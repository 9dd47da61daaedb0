"""A sparse linear surrogate of a game, as in ContextCite: which documents move the odds of the whole answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import CoalitionLog, Game, all_coalitions
from ragtrace.attribution.shapley.sampling import random_pool
from ragtrace.errors import AttributionError
from ragtrace.numeric import check_seed, is_integer, is_real

__all__ = ["SparseSurrogate", "answer_logits", "sparse_surrogate"]

Floats = NDArray[np.float64]
_SWEEPS = 10_000
_CONVERGED = 1e-10
_ROUNDING = 1e-2  # of the sum of a certain answer's log-probabilities, in half precision


@dataclass(frozen=True, slots=True)
class SparseSurrogate:
    """logit(answer probability) ≈ intercept + Σ_i values_i · [document i is in the prompt].

    values: `(k,)`. fit: the share of the logits' variance that it explains on the coalitions it was fitted to.
    """

    values: Floats
    intercept: float
    fit: float
    n_evaluations: int


def sparse_surrogate(
    game: Game, n_players: int, *, budget: int = 64, penalty: float = 0.01, seed: int = 0
) -> SparseSurrogate:
    """LASSO of the answer's logit on which documents are present.

    game: `(n, k)` coalitions to `(n, m)` log-probabilities of the answer's tokens. budget: distinct coalitions, drawn
    with each document in or out alike, the empty and full one among them; from 2^k on all of them. penalty: on the
    standardized problem, whose logits are divided by the number of tokens, as in ContextCite.

    Raises: AttributionError for a budget below 2, a negative penalty, or values that are no log-probabilities,
        ConfigurationError for a seed.
    Source: Cohen-Wang et al., "ContextCite" (2024).
    """
    if not is_integer(budget) or budget < 2 or not (is_real(penalty) and penalty >= 0):
        raise AttributionError(f"budget {budget!r}, penalty {penalty!r}; give an integer of at least 2, and 0 or more")
    check_seed(seed)
    log = CoalitionLog(n_players)
    k = log.n_players
    drawn = all_coalitions(k) if budget >= 1 << k else random_pool(k, int(budget), seed, paired=False)
    log.evaluate(game, drawn)
    present, log_probabilities = log.coalitions.astype(np.float64), log.values
    n_tokens = max(1, log_probabilities.shape[1])
    target = answer_logits(log_probabilities) / n_tokens
    mean, spread = present.mean(axis=0), present.std(axis=0)
    spread[spread == 0] = 1.0
    weights = _lasso((present - mean) / spread, target - target.mean(), penalty) / spread
    residual = target - target.mean() - (present - mean) @ weights
    variance = float(np.sum((target - target.mean()) ** 2))
    return SparseSurrogate(
        values=weights * n_tokens,
        intercept=float((target.mean() - mean @ weights) * n_tokens),
        fit=1 - float(np.sum(residual**2)) / variance if variance > 0 else 1.0,
        n_evaluations=len(log),
    )


def answer_logits(log_probabilities: Floats) -> Floats:
    """log(p / (1 - p)) of the whole answer from `(n, m)` log-probabilities of its tokens: `(n,)`, finite for p = 1.

    Raises: AttributionError for a sum above 0, but for rounding: that is no log-probability.
    """
    total = log_probabilities.sum(axis=1)
    if total.max(initial=0) > _ROUNDING:
        raise AttributionError(f"the values of a coalition sum to {total.max():.3g}; give log-probabilities, below 0")
    total = np.minimum(total, -1e-12)
    logits: Floats = total - np.log(-np.expm1(total))
    return logits


def _lasso(x: Floats, y: Floats, penalty: float) -> Floats:
    """argmin_w |y - xw|² / 2n + penalty·|w|₁, by coordinate descent on the Gram matrix."""
    n, k = x.shape
    gram, target = x.T @ x / n, x.T @ y / n
    weights = np.zeros(k)
    for _ in range(_SWEEPS):
        moved = 0.0
        for i in range(k):
            if gram[i, i] == 0:
                continue
            pull = target[i] - gram[i] @ weights + gram[i, i] * weights[i]
            found = np.sign(pull) * max(abs(pull) - penalty, 0.0) / gram[i, i]
            moved = max(moved, abs(found - weights[i]))
            weights[i] = found
        if moved <= _CONVERGED:
            break
    return weights
