"""The `gp` estimator: Shapley values under a Gaussian process over games, observed at designed pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragtrace.attribution.game import Coalitions, Values, complements
from ragtrace.attribution.shapley.gaussian_process.design import designed_pairs, signs
from ragtrace.attribution.shapley.gaussian_process.fitting import effective_columns, fitted_prior
from ragtrace.attribution.shapley.gaussian_process.prior import Array, Prior, default_prior
from ragtrace.attribution.shapley.values import Fitted, undefined
from ragtrace.attribution.shapley.weights import share_residual
from ragtrace.errors import ConfigurationError
from ragtrace.numeric import real_array

__all__ = ["GaussianProcess"]

FITTED_PAIRS = 256  # the prior is fitted to the first so many pairs; all of them enter the estimate
CALIBRATION = 0.8  # of the standard errors, from the calibration set of bench/shapley.py and development tables


@dataclass(frozen=True)
class GaussianProcess:
    """Shapley values under a Gaussian process.

    prior: "fitted" to the answer's games, or the "fixed" default one. costs: what a model reads, as k lengths of the
    players' texts in the order of the prompt, and the length of what follows them; pairs that share beginnings are then
    preferred. Any unit will do.
    """

    prior: Literal["fitted", "fixed"] = "fitted"
    costs: Sequence[float] | None = None
    name = "gp"

    def __post_init__(self) -> None:
        if self.prior not in ("fitted", "fixed"):
            raise ConfigurationError.of("prior", self.prior, '"fitted" or "fixed"')

    def coalitions(self, n_players: int, budget: int, seed: int) -> Coalitions:
        """The designed pairs that the budget buys, both members of each; full and empty first."""
        return complements(designed_pairs(n_players, budget // 2, seed, self._costs(n_players)))

    def estimate(self, coalitions: Coalitions, values: Values, seed: int) -> Fitted:
        """The posterior mean of the Shapley values and its calibrated standard errors."""
        x, first, second = signs(coalitions[::2]), values[::2], values[1::2]
        odd, even = (first - second) / 2, (first + second) / 2
        even = even - even.mean(axis=0)
        prior = self._prior(x, odd, even)
        covariance = prior.covariance_with_values(x)
        odd_kernel, even_kernel = prior.kernels(x)
        solution = np.linalg.solve(odd_kernel, covariance.T).T
        phi = share_residual(solution @ odd, 2 * odd[0])
        freedom = 2 * len(x) - x.shape[1] - 1
        if freedom <= 0:
            return undefined(phi, f"{2 * len(x)} coalitions cannot tell noise from {x.shape[1]} players' values")
        unscaled = prior.variance_of_values() - solution @ covariance.T
        scale = (_energy(odd_kernel, odd) + _energy(even_kernel, even)) * CALIBRATION**2 / freedom
        error = np.sqrt(np.outer(np.maximum(np.diagonal(unscaled), 0), scale[:-1]))
        return Fitted(phi, error, unscaled * scale[-1], None)

    def _costs(self, n_players: int) -> tuple[float, ...] | None:
        """The costs as numbers. Raises: ConfigurationError where they do not fit the players."""
        if self.costs is None:
            return None
        costs = real_array(self.costs, "costs", ConfigurationError)
        if costs.shape != (n_players + 1,) or not (np.isfinite(costs) & (costs > 0)).all():
            allowed = f"{n_players + 1} positive numbers: one for each player, one for what follows them"
            raise ConfigurationError.of("costs", self.costs, allowed)
        return tuple((costs / costs.max()).tolist())

    def _prior(self, x: Array, odd: Array, even: Array) -> Prior:
        """The prior of these observations; what they say counts by the share of them that k values leave over."""
        n, k = min(len(x), FITTED_PAIRS), x.shape[1]
        weight = min(1.0, (n - k) / k)
        if self.prior == "fixed" or weight <= 0:
            return default_prior(k)
        columns = effective_columns(np.concatenate([odd[:n], even[:n]]))
        return fitted_prior(x[:n], odd[:n], even[:n], weight * columns)


def _energy(kernel: Array, part: Array) -> Array:
    """`(m + 1,)`: what was observed, in units of the prior's variance, for each token and for their mean."""
    columns = np.column_stack([part, part.mean(axis=1)])
    energy: Array = (columns * np.linalg.solve(kernel, columns)).sum(axis=0)
    return energy
