"""A sparse linear surrogate of a game, as in ContextCite: which documents move the odds of the whole answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import CoalitionLog, Game, all_coalitions
from ragtrace.errors import AttributionError

__all__ = ["SparseSurrogate", "answer_logits", "sparse_surrogate"]

Floats = NDArray[np.float64]
_SWEEPS = 10_000
_CONVERGED = 1e-10


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

    Raises: AttributionError for a budget below 2, a negative penalty, or values that are not finite.
    Source: Cohen-Wang et al., "ContextCite" (2024).
    """
    if budget < 2 or not penalty >= 0:
        raise AttributionError(f"budget {budget!r}, penalty {penalty!r}; give at least 2, and 0 or more")
    log = CoalitionLog(n_players)
    log.evaluate(game, _drawn(n_players, budget, seed))
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
    """log(p / (1 - p)) of the whole answer from `(n, m)` log-probabilities of its tokens: `(n,)`, finite for p = 1."""
    total = np.minimum(log_probabilities.sum(axis=1), -1e-12)
    logits: Floats = total - np.log(-np.expm1(total))
    return logits


def _drawn(n_players: int, budget: int, seed: int) -> NDArray[np.bool_]:
    """Distinct coalitions, the empty and the full one first."""
    if n_players < 63 and budget >= 1 << n_players:
        return all_coalitions(n_players)
    rng = np.random.default_rng(seed)
    rows = np.stack([np.zeros(n_players, dtype=np.bool_), np.ones(n_players, dtype=np.bool_)])
    while len(rows) < budget:
        more = np.concatenate([rows, rng.random((budget, n_players)) < 0.5])
        rows = more[np.sort(np.unique(more, axis=0, return_index=True)[1])]
    return rows[:budget]


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
