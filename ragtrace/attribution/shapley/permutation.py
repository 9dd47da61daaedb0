"""Permutation sampling: marginal contributions along random orders of the players and along the reversed orders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ragtrace.attribution.game import Coalitions, Values, decode, encode
from ragtrace.attribution.shapley.values import Fitted, undefined
from ragtrace.attribution.shapley.weights import share_residual
from ragtrace.errors import ConfigurationError

__all__ = ["Permutations"]

LEAST_PAIRS = 3  # of orders, for a standard error
MAX_ORDERS = 4096  # near 2^k coalitions most orders pass only known ones: they cost nothing, and tell ever less


@dataclass(frozen=True)
class Permutations:
    """The mean over antithetic pairs of orders; with less than 2k evaluations one order alone, with k + 1 at least."""

    name = "permutation"

    def coalitions(self, n_players: int, budget: int, seed: int) -> Coalitions:
        """The distinct coalitions that the orders pass, the empty and the full one first."""
        return decode(np.array(_orders(n_players, budget, seed)[1], dtype=np.int64), n_players)

    def estimate(self, coalitions: Coalitions, values: Values, seed: int) -> Fitted:
        """The mean contribution of each player and the spread over pairs of orders."""
        orders = np.array(_orders(coalitions.shape[1], len(coalitions), seed)[0])
        rows = dict(zip(encode(coalitions).tolist(), range(len(coalitions)), strict=True))
        passed = np.array([[rows[code] for code in _passed(order)] for order in orders.tolist()])
        steps = np.diff(values[passed], axis=1)
        contributions = np.take_along_axis(steps, orders.argsort(axis=1)[:, :, None], axis=1)
        phi = share_residual(contributions.mean(axis=0), values[1] - values[0])
        if len(orders) < 2 * LEAST_PAIRS:
            return undefined(phi, f"{len(orders)} orders of the players do not show their spread; raise the budget")
        pairs = contributions.reshape(-1, 2, *phi.shape).mean(axis=1)
        scale = _widening(len(pairs) - 1) / np.sqrt(len(pairs))
        return Fitted(phi, scale * pairs.std(axis=0, ddof=1), scale**2 * np.cov(pairs.mean(axis=2).T), None)


def _widening(freedom: int) -> float:
    """The 95 % quantile of Student's t over the normal's (Cornish-Fisher, to 5 %): few pairs show too little spread."""
    return 1 + 0.926 / freedom + 0.863 / freedom**2


def _passed(order: list[int]) -> list[int]:
    """The coalitions, as integers, that grow from the empty to the full one in this order."""
    codes = [0]
    for player in order:
        codes.append(codes[-1] | 1 << player)
    return codes


@lru_cache(maxsize=16)
def _orders(n_players: int, budget: int, seed: int) -> tuple[list[list[int]], list[int]]:
    """The orders, each followed by its reverse, that the budget pays for, and the distinct coalitions they pass."""
    random = np.random.default_rng([n_players, seed])
    known = dict.fromkeys([0, (1 << n_players) - 1])
    orders: list[list[int]] = []
    while len(orders) < MAX_ORDERS:
        order: list[int] = random.permutation(n_players).tolist()
        pair = [order, order[::-1]]
        reached = known | dict.fromkeys(code for each in pair for code in _passed(each))
        if len(reached) > budget:
            break
        orders, known = orders + pair, reached
    if not orders:
        if budget <= n_players:
            raise ConfigurationError.of(
                "budget", budget, f"at least {n_players + 1} for one order of {n_players} players"
            )
        orders, known = [order], known | dict.fromkeys(_passed(order))
    return orders, list(known)
