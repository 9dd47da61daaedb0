"""The weights of coalitions in Shapley's formula, in the Shapley kernel, and the exact values."""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import Coalitions, Values

__all__ = ["coalition_weights", "exact_values", "kernel_weights", "marginal_weights", "share_residual"]

_BLOCK = 1 << 16  # coalitions weighed at a time, so that 2^20 of them fit into memory


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
