"""What an estimator of Shapley values returns: values, errors, and the distribution of the document scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment import normal_draws
from ragtrace.attribution.game import CoalitionLog, Values
from ragtrace.errors import AttributionError

__all__ = ["Fitted", "ShapleyValues", "token_mean", "undefined"]


class Fitted(NamedTuple):
    """Values `(k, m)`, their standard errors `(k, m)`, the scores' covariance `(k, k)`, why there are none."""

    values: Values
    standard_error: Values
    covariance: NDArray[np.float64]
    reason: str | None


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
