"""Estimators that sample coalitions: permutations of the players; KernelSHAP, MCSHAP and PMCSHAP, which are least
squares under the Shapley kernel, on a random pool or averaged over sub-pools; and a sparse surrogate (ContextCite).

Pools are of distinct coalitions, and nested in the budget. Permutations: marginal contributions along random orders of
the players and along the reversed orders.

Source: Lundberg and Lee (2017) for the kernel; RAG-E, algorithm 1, for the sub-pools; here every fit is constrained to
sum to v(full) - v(empty). A group is what a sub-pool draws: one coalition, or a complementary pair; its size counts the
empty and the full coalition, which are in every sub-pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import (
    CoalitionLog,
    Coalitions,
    Fitted,
    Game,
    Values,
    all_coalitions,
    complements,
    decode,
    encode,
    kernel_weights,
    share_residual,
    undefined,
)
from ragtrace.errors import AttributionError, ConfigurationError
from ragtrace.numeric import check_seed, is_integer, is_real

__all__ = [
    "KernelShap",
    "MonteCarloShap",
    "PairedMonteCarloShap",
    "Permutations",
    "SparseSurrogate",
    "answer_logits",
    "random_pool",
    "sparse_surrogate",
    "sub_pools",
]

_ENUMERATED = 16  # up to so many players all coalitions are permuted; beyond, repeated draws are dropped
_BLOCK = 4096  # how many are drawn at a time; part of what a seed means
LEAST_PAIRS = 3  # of orders, for a standard error
MAX_ORDERS = 4096  # near 2^k coalitions most orders pass only known ones: they cost nothing, and tell ever less
N_FITS = 200
POOL_SHARE = 0.75
# Of the published code: pools of 10, of which the empty and the full are dropped.
RELEASED_GROUPS, RELEASED_RIDGE = 4, 0.001
# What the jackknife's standard errors are multiplied by, from the calibration games of bench/shapley.py.
CALIBRATION_OF_SINGLES, CALIBRATION_OF_PAIRS = 1.0, 1.1


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


@dataclass(frozen=True)
class KernelShap:
    """One constrained fit to the whole pool; `paired` draws coalitions with their complements."""

    paired: bool = False
    name = "kernelshap"

    def __post_init__(self) -> None:
        _check_switch("paired", self.paired)

    def coalitions(self, n_players: int, budget: int, seed: int) -> Coalitions:
        """A random pool."""
        return random_pool(n_players, budget, seed, paired=self.paired)

    def estimate(self, coalitions: Coalitions, values: Values, seed: int) -> Fitted:
        """The fit, its error from fits to sub-pools."""
        fits = _Fits(coalitions, values, 2 if self.paired else 1)
        return fits.spread(fits.of_all(), N_FITS, POOL_SHARE, seed)


@dataclass(frozen=True)
class MonteCarloShap:
    """The mean of `n_fits` constrained fits, each to a random `pool_share` of the coalitions."""

    n_fits: int = N_FITS
    pool_share: float = POOL_SHARE
    name = "mcshap"

    def __post_init__(self) -> None:
        _check_pools(self.n_fits, self.pool_share)

    def coalitions(self, n_players: int, budget: int, seed: int) -> Coalitions:
        """A random pool."""
        return random_pool(n_players, budget, seed, paired=False)

    def estimate(self, coalitions: Coalitions, values: Values, seed: int) -> Fitted:
        """The mean of the fits and their spread."""
        return _Fits(coalitions, values, 1).spread(None, self.n_fits, self.pool_share, seed)


@dataclass(frozen=True)
class PairedMonteCarloShap:
    """MCSHAP over complementary pairs.

    `released=True` reproduces the code that was published with the paper: 100 sub-pools of four pairs, ridge regression
    with an intercept, the empty and the full coalition left out. Its sums are off, and more budget does not mend it.
    """

    n_fits: int | None = None
    pool_share: float = POOL_SHARE
    released: bool = False

    def __post_init__(self) -> None:
        _check_pools(self._n_fits, self.pool_share)
        _check_switch("released", self.released)

    @property
    def name(self) -> str:
        """The method's name, which says whether it is the published code's."""
        return "pmcshap (released)" if self.released else "pmcshap"

    @property
    def _n_fits(self) -> int:
        """The paper's 200 fits, the published code's 100."""
        return (100 if self.released else N_FITS) if self.n_fits is None else self.n_fits

    def coalitions(self, n_players: int, budget: int, seed: int) -> Coalitions:
        """A random pool of complementary pairs."""
        return random_pool(n_players, budget, seed, paired=True)

    def estimate(self, coalitions: Coalitions, values: Values, seed: int) -> Fitted:
        """The mean of the fits and their spread."""
        if self.released:
            return _released(coalitions, values, self._n_fits, seed)
        return _Fits(coalitions, values, 2).spread(None, self._n_fits, self.pool_share, seed)


def _check_pools(n_fits: int, pool_share: float) -> None:
    """Raises ConfigurationError for a number of fits or a share that cannot be used."""
    if not is_integer(n_fits) or n_fits < 2:
        raise ConfigurationError.of("n_fits", n_fits, "an integer of at least 2")
    if not (is_real(pool_share) and 0 < pool_share < 1):
        raise ConfigurationError.of("pool_share", pool_share, "a number between 0 and 1")


def _check_switch(name: str, value: bool) -> None:
    """Raises ConfigurationError for what is neither True nor False: the text "no" would be taken for yes."""
    if not isinstance(value, bool):
        raise ConfigurationError.of(name, value, "True or False")


class _Fits:
    """Normal equations per group, in coordinates in which all values sum to v(full) - v(empty)."""

    def __init__(self, coalitions: Coalitions, values: Values, group: int) -> None:
        self.k, self.difference = coalitions.shape[1], values[1] - values[0]
        self.n_groups, self.unseen = (len(coalitions) - 2) // group, 1 - (len(coalitions) - 2) / (2**self.k - 2)
        self.n_evaluations, self.group = len(coalitions), group
        self.calibration = CALIBRATION_OF_PAIRS if group == 2 else CALIBRATION_OF_SINGLES
        inner, gained = coalitions[2:], values[2:] - values[0]
        ones = np.ones((self.k, 1))
        self.basis = np.linalg.qr(np.hstack([ones, np.eye(self.k)[:, 1:]]))[0][:, 1:]
        rows = inner @ self.basis
        weighted = rows * kernel_weights(inner)[:, None]
        rest = gained - inner.mean(axis=1, keepdims=True) * self.difference
        self.squares = _by_group(weighted[:, :, None] * rows[:, None, :], group)
        self.products = _by_group(weighted[:, :, None] * rest[:, None, :], group)

    def solve(self, pools: NDArray[np.float64]) -> NDArray[np.float64]:
        """`(f, k, m)`: the constrained fit to each pool `(f, n_groups)`; the most even where a pool leaves a choice."""
        squares = np.tensordot(pools, self.squares, axes=1)
        products = np.tensordot(pools, self.products, axes=1)
        inverses = np.linalg.pinv(squares, rcond=1e-10, hermitian=True)
        fitted: NDArray[np.float64] = self.difference / self.k + self.basis @ (inverses @ products)
        return fitted

    def of_all(self) -> Values:
        """`(k, m)`: the fit to the whole pool."""
        whole: Values = self.solve(np.ones((1, self.n_groups)))[0]
        return whole

    def spread(self, phi: Values | None, n_fits: int, share: float, seed: int) -> Fitted:
        """These values (None: the fits' mean) with errors by the jackknife that leaves out a share of the groups."""
        size = max(1, (int(share * self.n_evaluations) - 2) // self.group)
        fits = self.solve(sub_pools(self.n_groups, size, n_fits, seed))
        phi = share_residual(fits.mean(axis=0) if phi is None else phi, self.difference)
        left_out = self.n_groups - size
        if size < self.k - 1 or left_out <= 0:
            return undefined(phi, f"sub-pools of {size} out of {self.n_groups} draws do not determine {self.k} values")
        scale = self.calibration * np.sqrt(self.unseen * size / left_out)
        deviations = fits.mean(axis=2) - fits.mean(axis=(0, 2))
        return Fitted(phi, scale * fits.std(axis=0), scale**2 / n_fits * deviations.T @ deviations, None)


def _by_group(rows: NDArray[np.float64], group: int) -> NDArray[np.float64]:
    """The sums over consecutive rows."""
    summed: NDArray[np.float64] = rows.reshape(-1, group, *rows.shape[1:]).sum(axis=1)
    return summed


def _released(coalitions: Coalitions, values: Values, n_fits: int, seed: int) -> Fitted:
    """The published code: ridge regression with an intercept on sub-pools of four pairs."""
    pairs = (len(coalitions) - 2) // 2
    if not pairs:
        raise ConfigurationError.of("budget", len(coalitions), "at least 4: the published code drops empty and full")
    pools = sub_pools(pairs, min(RELEASED_GROUPS, pairs), n_fits, seed).repeat(2, axis=1).astype(np.bool_)
    x, y, weights = coalitions[2:].astype(np.float64), values[2:], kernel_weights(coalitions[2:])
    fits = np.array([_ridge(x[pool], y[pool], weights[pool]) for pool in pools])
    return undefined(fits.mean(axis=0), "the published code has no error estimate")


def _ridge(x: NDArray[np.float64], y: Values, weights: NDArray[np.float64]) -> Values:
    """`(k, m)`: the coefficients of a weighted ridge regression whose intercept is not penalized."""
    share = weights / weights.sum()
    x, y = x - share @ x, y - share @ y
    weighted = (x * weights[:, None]).T
    coefficients = np.linalg.solve(weighted @ x + RELEASED_RIDGE * np.eye(x.shape[1]), weighted @ y)
    return coefficients.astype(np.float64)


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
