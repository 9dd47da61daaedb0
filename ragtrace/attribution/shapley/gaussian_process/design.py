"""Which complementary pairs to evaluate: those that tell most about the Shapley values under the prior.

The design is independent of the answers, so it is computed once per k, number of pairs, seed and costs, and it is
nested: a larger one begins with the smaller one.

A language model reads once what prompts begin with alike. Where costs are given, pairs after the first 2 k are chosen
by what they tell over the square root of what they cost beside those that are chosen already. The first 2 k are not:
there an orthogonal design is worth more than any saving.
"""

from __future__ import annotations

from copy import copy
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import Coalitions, decode, encode
from ragtrace.attribution.shapley.gaussian_process.prior import Array, default_prior

__all__ = ["designed_pairs", "signs"]

CANDIDATES = 2048
ENUMERATED = 12  # up to so many players every pair is a candidate
CHOSEN = 512  # pairs that are chosen one by one; those after them come in random order
RESTARTS = 4  # of the first block, with ties broken otherwise; the best is kept
PASSES = 3  # over a block that is improved by exchanges


def signs(coalitions: Coalitions) -> Array:
    """`(n, k)` in {-1, +1}: +1 where the player takes part."""
    return np.where(coalitions, 1.0, -1.0)


def designed_pairs(n_players: int, n_pairs: int, seed: int, costs: tuple[float, ...] | None = None) -> Coalitions:
    """`(n_pairs, k)`: one member of each pair, the full coalition first; to be read only.

    costs: what it takes to read each player's part of a prompt, and what follows the last one; k + 1 positive numbers.
    """
    most = 4 * n_players
    while most < n_pairs:
        most *= 2
    return _design(n_players, min(most, 1 << (n_players - 1)), seed, costs)[:n_pairs]


@lru_cache(maxsize=64)
def _design(n_players: int, n_pairs: int, seed: int, costs: tuple[float, ...] | None) -> Coalitions:
    """The pairs of a design, computed once."""
    random = np.random.default_rng([n_players, seed])
    candidates = _candidates(n_players, random)
    priority = random.permutation(len(candidates))
    shared = None if costs is None else _Shared(candidates, np.array(costs))
    order = _chosen(_Pool(signs(candidates), priority), min(n_pairs, CHOSEN), random, shared)
    rest = np.setdiff1d(np.arange(len(candidates)), order)
    pairs: Coalitions = candidates[np.concatenate([order, rest[np.argsort(priority[rest])]])[:n_pairs]]
    if n_pairs > len(pairs):
        pairs = np.concatenate(
            [pairs, _further(pairs, n_pairs - len(pairs), np.random.default_rng([n_players, seed, 1]))]
        )
    pairs.setflags(write=False)
    return pairs


def _candidates(n_players: int, random: np.random.Generator) -> Coalitions:
    """`(p, k)`: one member of each candidate pair, the full coalition first."""
    top = np.int64(1) << np.int64(n_players - 1)
    if n_players <= ENUMERATED:
        return decode(2 * top - 1 - np.arange(top), n_players)
    eye = np.eye(n_players, dtype=np.bool_)
    first, second = np.triu_indices(n_players, 1)
    small = np.concatenate([np.ones((1, n_players), dtype=np.bool_), eye, eye[first] | eye[second]])
    return np.concatenate([small, _further(small, CANDIDATES - len(small), random)])


def _further(known: Coalitions, n: int, random: np.random.Generator) -> Coalitions:
    """`(n, k)`: random coalitions of at most half of the players, drawn evenly over sizes, none of them known."""
    k = known.shape[1]
    seen = set(encode(known).tolist()) | set(encode(~known).tolist())
    found: list[Coalitions] = []
    while len(found) < n:
        coalition = np.zeros((1, k), dtype=np.bool_)
        coalition[0, random.choice(k, random.integers(1, k // 2 + 1), replace=False)] = True
        code = int(encode(coalition)[0])
        if code not in seen:
            seen |= {code, (1 << k) - 1 - code}
            found.append(coalition)
    return np.concatenate(found)


class _Pool:
    """The candidates `(p, k)` under the default prior; `priority` breaks ties."""

    def __init__(self, x: Array, priority: NDArray[np.int64]) -> None:
        prior = default_prior(x.shape[1])
        self.x, self.priority, self.noise = x, priority, prior.epsilon / 2
        self.odd = prior.odd(x, x)
        self.covariance = prior.covariance_with_values(x)

    def prioritized(self, priority: NDArray[np.int64]) -> _Pool:
        """The same candidates, ties broken in another way."""
        other = copy(self)
        other.priority = priority
        return other

    def best(self, gain: Array) -> int:
        """The candidate with most gain; of equal ones (to rounding) that of the lowest priority number."""
        tied = np.flatnonzero(gain >= gain.max() * (1 - 1e-9))
        return int(tied[np.argmin(self.priority[tied])])


class _Shared:
    """What the candidates `(p, k)` cost beside pairs whose prompts are read already.

    Of a pair, exactly one member contains player i; what precedes i there is the pair's pattern up to i, whichever of
    the two it is. So a pair's two prompts are one path in the tree of patterns.
    """

    def __init__(self, candidates: Coalitions, costs: Array) -> None:
        k = candidates.shape[1]
        agreeing = (candidates == candidates[:, :1]) @ np.triu(np.full((k, k), 1) << np.arange(k)[:, None])
        _, self.nodes = np.unique(agreeing + (np.arange(k) << k), return_inverse=True)
        self.nodes = self.nodes.reshape(candidates.shape)
        self.new = np.ones(self.nodes.max() + 1, dtype=np.bool_)
        self.players, self.own = costs[:-1], 2 * costs[-1]

    @property
    def marginal(self) -> Array:
        """`(p,)`: the cost of each."""
        cost: Array = self.new[self.nodes] @ self.players + self.own
        return cost

    def read(self, rows: list[int]) -> None:
        """Takes some of them as read."""
        self.new[self.nodes[rows]] = False


def _chosen(pool: _Pool, n: int, random: np.random.Generator, shared: _Shared | None) -> list[int]:
    """The candidates' rows: the best one after another; the first k, and the next k, are then improved as a block.

    Every larger design begins with the same blocks, whatever n is.
    """
    most, k = pool.x.shape
    starts = [_block(pool, [0], min(k, most))]
    for _ in range(RESTARTS if k <= ENUMERATED else 0):
        starts.append(_block(pool.prioritized(random.permutation(most)), [0], min(k, most)))
    order = max(starts, key=lambda start: round(_Conditioned(pool, start).explained, 9))
    order = _block(pool, order, min(2 * k, most))
    _extend(pool, order, min(n, most), shared)
    return order


def _block(pool: _Pool, order: list[int], n: int) -> list[int]:
    """The order extended to n, its new part improved."""
    extended = order.copy()
    _extend(pool, extended, n)
    _improve(pool, extended, len(order))
    return extended


def _extend(pool: _Pool, order: list[int], n: int, shared: _Shared | None = None) -> None:
    """Adds the best candidate until there are n; where costs are known, the best for its cost."""
    state = _Conditioned(pool, order)
    if shared is not None:
        shared.read(order)
    while len(order) < n:
        order.append(pool.best(state.gain if shared is None else state.gain / np.sqrt(shared.marginal)))
        state.add(order[-1])
        if shared is not None:
            shared.read(order[-1:])


def _improve(pool: _Pool, order: list[int], start: int) -> None:
    """Exchanges one pair at a time, from the start, for a better one, until none is better."""
    for _ in range(PASSES):
        before = order.copy()
        for at in range(start, len(order)):
            gain = _Conditioned(pool, order[:at] + order[at + 1 :]).gain
            best = pool.best(gain)
            if gain[best] > gain[order[at]] * (1 + 1e-6):
                order[at] = best
        if order == before:
            return


class _Conditioned:
    """The prior of all candidates, given the values at those that are chosen."""

    def __init__(self, pool: _Pool, chosen: list[int]) -> None:
        self.pool = pool
        self.free = np.ones(len(pool.x), dtype=np.bool_)
        self.free[chosen] = False
        crossed = pool.odd[chosen]
        root = np.linalg.inv(np.linalg.cholesky(crossed[:, chosen] + pool.noise * np.eye(len(chosen))))
        self.factor = root @ crossed
        self.explained = float(((pool.covariance[:, chosen] @ root.T) ** 2).sum())  # of the values' prior variance
        self.covariance = pool.covariance - pool.covariance[:, chosen] @ root.T @ self.factor
        self.variance = pool.odd[0, 0] + pool.noise - (self.factor**2).sum(axis=0)

    @property
    def gain(self) -> Array:
        """`(p,)`: the variance of the Shapley values that each candidate would remove; -inf for the chosen ones."""
        gain: Array = (self.covariance**2).sum(axis=0) / np.maximum(self.variance, self.pool.noise)
        return np.where(self.free, gain, -np.inf)

    def add(self, row: int) -> None:
        """Conditions on one more: a rank-1 update."""
        column = self.pool.odd[row] - self.factor[:, row] @ self.factor
        column[row] += self.pool.noise
        column /= np.sqrt(column[row])
        self.covariance = self.covariance - np.outer(self.covariance[:, row] / column[row], column)
        self.variance = self.variance - column**2
        self.factor = np.vstack([self.factor, column])
        self.free[row] = False
