"""Shapley values: what an estimator returns (values, errors, the distribution of the document scores), the weights of
coalitions in Shapley's formula and in the Shapley kernel, and the exact values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment import normal_draws
from ragtrace.attribution.game import CoalitionLog, Coalitions, Values
from ragtrace.errors import AttributionError

__all__ = [
    "Fitted",
    "ShapleyValues",
    "coalition_weights",
    "exact_values",
    "kernel_weights",
    "marginal_weights",
    "share_residual",
    "token_mean",
    "undefined",
]

_BLOCK = 1 << 16  # coalitions weighed at a time, so that 2^20 of them fit into memory


class Fitted(NamedTuple):
    """Values `(k, m)`, their standard errors `(k, m)`, the scores' covariance `(k, k)`, why there are none.

    cautious: the covariance by which a ranking counts as settled, where it is another one.
    """

    values: Values
    standard_error: Values
    covariance: NDArray[np.float64]
    reason: str | None
    cautious: NDArray[np.float64] | None = None


def undefined(values: Values, reason: str) -> Fitted:
    """An estimate whose errors are unknown (NaN)."""
    k = len(values)
    return Fitted(values, np.full_like(values, np.nan), np.full((k, k), np.nan), reason)


@dataclass(frozen=True)
class ShapleyValues:
    """Shapley values of k players for m output tokens.

    Attributes:
        values: `(k, m)`; each column sums to `full - empty` (to 1e-9; not so for `pmcshap(released=True)`).
        standard_error: `(k, m)`, calibrated; 0 where exact, NaN where undefined.
        empty: `(m,)`, the value of the coalition without players.
        full: `(m,)`, the value of the coalition of all players.
        n_evaluations: the distinct coalitions that the values rest on, empty and full included.
        exact: whether all 2^k coalitions were evaluated.
        method: the estimator that was used, never "auto".
        covariance: `(k, k)`, of the errors of `scores`.
        log: every coalition evaluated so far; `continue_from=` takes it.
        stopped: what ended the run before its budget: "target_standard_error", "settle", or None.
        reason: why the standard error is undefined, or None.
    """

    values: Values
    standard_error: Values
    empty: NDArray[np.float64]
    full: NDArray[np.float64]
    n_evaluations: int
    exact: bool
    method: str
    covariance: NDArray[np.float64]
    log: CoalitionLog
    stopped: str | None = None
    reason: str | None = None

    @property
    def scores(self) -> NDArray[np.float64]:
        """`(k,)`: each player's mean over the output tokens, by which documents are ranked; NaN without tokens."""
        return token_mean(self.values)

    @property
    def ranking(self) -> list[int]:
        """Players by descending score; players with equal scores in their own order."""
        return [int(player) for player in np.argsort(-self.scores, kind="stable")]

    def draws(self, n: int, seed: int = 0) -> NDArray[np.float64]:
        """`(n, k)` vectors of scores from the estimate's distribution.

        The share of draws in which a flag is set is its probability. Columns are players in their own order.

        Raises: AttributionError where the standard error is undefined.
        """
        if self.reason is not None:
            raise AttributionError(f"the estimate has no distribution to draw from: {self.reason}")
        return normal_draws(self.scores, self.covariance, n_draws=n, seed=seed)


def token_mean(values: Values) -> NDArray[np.float64]:
    """`(k,)`: mean over the columns, NaN where there are none."""
    return np.asarray(values.mean(axis=1)) if values.shape[1] else np.full(len(values), np.nan)


def marginal_weights(n_players: int) -> NDArray[np.float64]:
    """`(k,)`: what a player's marginal contribution to a coalition of size 0 .. k-1 weighs, s!(k-s-1)!/k!."""
    return np.array([1 / (n_players * comb(n_players - 1, size)) for size in range(n_players)])


def coalition_weights(coalitions: Coalitions) -> NDArray[np.float64]:
    """`(k, n)`: the weight of each coalition's value in each player's Shapley value."""
    n_players = coalitions.shape[1]
    weights = np.append(marginal_weights(n_players), 0.0)  # a player outside the full coalition does not exist
    sizes = coalitions.sum(axis=1)
    joining, staying = weights[np.maximum(sizes - 1, 0)], -weights[sizes]
    signed: NDArray[np.float64] = np.where(coalitions, joining[:, None], staying[:, None]).T
    return signed


def kernel_weights(coalitions: Coalitions) -> NDArray[np.float64]:
    """`(n,)`: the Shapley kernel (k-1)/(C(k,s) s (k-s)) of coalitions that are neither empty nor full."""
    k = coalitions.shape[1]
    by_size = np.array([0.0] + [(k - 1) / (comb(k, s) * s * (k - s)) for s in range(1, k)] + [0.0])
    weights: NDArray[np.float64] = by_size[coalitions.sum(axis=1)]
    return weights


def exact_values(coalitions: Coalitions, values: Values) -> Values:
    """`(k, m)`: the Shapley values from the values of all 2^k coalitions, in any order."""
    phi = np.zeros((coalitions.shape[1], values.shape[1]))
    for start in range(0, len(coalitions), _BLOCK):
        phi += coalition_weights(coalitions[start : start + _BLOCK]) @ values[start : start + _BLOCK]
    return phi


def share_residual(phi: Values, difference: NDArray[np.float64]) -> Values:
    """The values shifted equally per player, so that they sum to v(full) - v(empty) in each column."""
    shifted: Values = phi + (difference - phi.sum(axis=0)) / len(phi)
    return shifted
