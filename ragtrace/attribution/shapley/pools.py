"""Random pools of distinct coalitions, nested in the budget, and the random sub-pools that fits are averaged over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import Coalitions, complements, decode

__all__ = ["random_pool", "sub_pools"]

_ENUMERATED = 16  # up to so many players all coalitions are permuted; beyond, repeated draws are dropped
_BLOCK = 4096  # how many are drawn at a time; part of what a seed means


def random_pool(n_players: int, budget: int, seed: int, *, paired: bool) -> Coalitions:
    """The empty and the full coalition, then distinct others drawn uniformly; if paired, each with its complement."""
    ends = np.array([[False], [True]]).repeat(n_players, axis=1)
    if paired:
        codes = _distinct(1, 1 << (n_players - 1), (budget - 2) // 2, n_players, seed)
        return np.concatenate([ends, complements(decode(codes, n_players))])
    codes = _distinct(1, (1 << n_players) - 1, budget - 2, n_players, seed)
    return np.concatenate([ends, decode(codes, n_players)])


def _distinct(low: int, high: int, n: int, n_players: int, seed: int) -> NDArray[np.int64]:
    """The first n of a random order of low .. high-1."""
    random = np.random.default_rng([n_players, seed])
    if n_players <= _ENUMERATED:
        return (random.permutation(high - low) + low)[:n]
    found: dict[int, None] = {}
    while len(found) < n:
        found |= dict.fromkeys(random.integers(low, high, _BLOCK).tolist())
    return np.array(list(found)[:n], dtype=np.int64)


def sub_pools(n_groups: int, size: int, n_fits: int, seed: int) -> NDArray[np.float64]:
    """`(n_fits, n_groups)`: 1 where a group (a coalition or a pair) is in the sub-pool, drawn without replacement."""
    random = np.random.default_rng([n_groups, seed, 1])
    ranks = random.random((n_fits, n_groups)).argsort(axis=1).argsort(axis=1)
    return (ranks < size).astype(np.float64)
