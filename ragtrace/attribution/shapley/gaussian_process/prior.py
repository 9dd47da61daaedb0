"""The prior over games: covariances between coalitions, and between coalitions and Shapley values.

A coalition is x in {-1, +1}^k. The prior covariance of v(x) and v(z) is
b (1 + x.z/k) + prod_i (1 + rho_i x_i z_i)/(1 + rho_i) + eps [x = z]: a constant, an additive game, interactions whose
strength document i sets by rho_i, and noise of every order. A complementary pair observes the odd part
(v(x) - v(-x))/2 and the even part (v(x) + v(-x))/2, which are independent; Shapley values depend on the odd part only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.shapley.weights import coalition_weights, marginal_weights

__all__ = ["EPSILON", "RHO", "Array", "Prior", "default_prior"]

Array = NDArray[np.float64]

RHO = 0.3
EPSILON = 0.01
ADDITIVE = 1000.0  # b: next to flat, so that constants and additive games are not shrunk


@dataclass(frozen=True)
class Prior:
    """How strongly each document interacts (`rho`, `(k,)`, in (0, 1)) and how much noise there is (`epsilon` > 0)."""

    rho: Array
    epsilon: float

    @property
    def reach(self) -> Array:
        """`(k,)`: 2 artanh(rho): minus the logarithm of what a difference in document i leaves of the covariance."""
        return np.log1p(self.rho) - np.log1p(-self.rho)

    def interactions(self, x: Array, z: Array) -> tuple[Array, Array]:
        """The product kernel's odd and even parts, each `(n, p)`, without the additive part and without noise."""
        reach = self.reach
        agreement = (x * reach) @ z.T
        near, far = np.exp((agreement - reach.sum()) / 2), np.exp((-agreement - reach.sum()) / 2)
        return (near - far) / 2, (near + far) / 2

    def odd(self, x: Array, z: Array) -> Array:
        """`(n, p)`: covariance of the odd parts at x and at z, without noise."""
        covariance: Array = self.interactions(x, z)[0] + ADDITIVE / x.shape[1] * (x @ z.T)
        return covariance

    def kernels(self, x: Array) -> tuple[Array, Array]:
        """`(n, n)` each: covariances of the odd and of the even parts at x, noise included."""
        odd, even = self.interactions(x, x)
        noise = self.epsilon / 2 * np.eye(len(x))
        return odd + ADDITIVE / x.shape[1] * (x @ x.T) + noise, even + ADDITIVE + noise

    def covariance_with_values(self, x: Array) -> Array:
        """`(k, n)`: covariance of the Shapley values with the odd part at x; the integral over u is exact."""
        k = x.shape[1]
        nodes, weights = nodes_of(k)
        factors = 1 + (self.rho * x)[:, :, None] * nodes
        products = factors.prod(axis=1) * weights / np.prod(1 + self.rho)
        interacting = self.rho * x * (products[:, None, :] / factors).sum(axis=2)
        covariance: Array = (2 * ADDITIVE / k * x + interacting).T + self.epsilon * coalition_weights(x > 0)
        return covariance

    def variance_of_values(self) -> Array:
        """`(k, k)`: prior covariance of the Shapley values."""
        k = len(self.rho)
        nodes, weights = nodes_of(k)
        u, w = np.outer(nodes, nodes).ravel(), np.outer(weights, weights).ravel()
        factors = 1 + self.rho[:, None] * u
        products = factors.prod(axis=0) * w / np.prod(1 + self.rho)
        inverse = self.rho[:, None] / factors
        interacting = (inverse * products * u) @ inverse.T
        np.fill_diagonal(interacting, (inverse * products).sum(axis=1))
        variance: Array = interacting + 4 * ADDITIVE / k * np.eye(k) + self.epsilon * noise_of_values(k)
        return variance


def default_prior(n_players: int) -> Prior:
    """The prior by which pairs are chosen, and from which fitting starts."""
    return Prior(np.full(n_players, RHO), EPSILON)


@cache
def nodes_of(n_players: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [-1, 1] that integrate polynomials of degree k exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(n_players // 2 + 1)
    return nodes, weights


@cache
def noise_of_values(n_players: int) -> Array:
    """`(k, k)`: covariance of Shapley values of a game of independent noise with variance 1."""
    k, weights = n_players, marginal_weights(n_players)
    variance = 2 * sum(comb(k - 1, s) * weights[s] ** 2 for s in range(k))
    both = sum(comb(k - 2, s - 2) * weights[s - 1] ** 2 for s in range(2, k + 1))
    one = sum(comb(k - 2, s - 1) * weights[s - 1] * weights[s] for s in range(1, k))
    none = sum(comb(k - 2, s) * weights[s] ** 2 for s in range(k - 1))
    covariance = both + none - 2 * one
    spread: Array = np.full((k, k), covariance) + (variance - covariance) * np.eye(k)
    return spread
