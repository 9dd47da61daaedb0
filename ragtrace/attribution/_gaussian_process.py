"""The `gp` estimator: Shapley values under a Gaussian process over games, observed at designed pairs.

A coalition is x in {-1, +1}^k. The prior covariance of v(x) and v(z) is b (1 + x.z/k) + prod_i (1 + rho_i x_i z_i)/(1 +
rho_i) + eps [x = z]: a constant, an additive game, interactions whose strength document i sets by rho_i, and noise of
every order. A complementary pair observes the odd part (v(x) - v(-x))/2 and the even part (v(x) + v(-x))/2, which are
independent; Shapley values depend on the odd part only.

The prior is fitted to what was observed by a quasi-Newton search over rho and epsilon with exact gradients.

The design is of the complementary pairs that tell most about the Shapley values under the prior. It is independent of
the answers, so it is computed once per k, number of pairs, seed and costs, and it is nested: a larger one begins with
the smaller one. A language model reads once what prompts begin with alike. Where costs are given, pairs after the first
2 k are chosen by what they tell over the square root of what they cost beside those that are chosen already. The first
2 k are not: there an orthogonal design is worth more than any saving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, lru_cache
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import (
    Coalitions,
    Fitted,
    Values,
    coalition_weights,
    complements,
    decode,
    encode,
    marginal_weights,
    share_residual,
    undefined,
)
from ragtrace.errors import ConfigurationError
from ragtrace.numeric import real_array

__all__ = [
    "GaussianProcess",
    "Prior",
    "designed_pairs",
    "effective_columns",
    "fitted_prior",
    "minimized",
    "signs",
]

Array = NDArray[np.float64]

RHO = 0.3
EPSILON = 0.01
ADDITIVE = 1000.0  # b: next to flat, so that constants and additive games are not shrunk
ITERATIONS = 30
_START = float(np.log(RHO / (1 - RHO)))  # logit rho
_RHO_SPREAD, _EPSILON_SPREAD = 1.5, 2.0  # of the normal priors on logit rho and log epsilon
_LIMIT = 16.0  # no parameter beyond: the kernel matrices would lose their rank
CANDIDATES = 2048
ENUMERATED = 12  # up to so many players every pair is a candidate
CHOSEN = 512  # pairs that are chosen one by one; those after them come in random order
RESTARTS = 4  # of the first block, with ties broken otherwise; the best is kept
PASSES = 3  # over a block that is improved by exchanges
FITTED_PAIRS = 256  # the prior is fitted to the first so many pairs; all of them enter the estimate
CALIBRATION = 0.8  # of errors by the likelihood, from the calibration set of bench/shapley.py and development tables
LEFT_OUT = 0.95  # of errors by pairs left out, from bench/intervals.py


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
        by_likelihood = (_energy(odd_kernel, odd) + _energy(even_kernel, even)) * CALIBRATION**2 / freedom
        scale = _scale(by_likelihood, odd_kernel, odd, x.shape[1])
        error = np.sqrt(np.outer(np.maximum(np.diagonal(unscaled), 0), scale[:-1]))
        cautious = unscaled * max(float(scale[-1]), float(by_likelihood[-1]))
        return Fitted(phi, error, unscaled * scale[-1], None, cautious)

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


def _scale(by_likelihood: Array, kernel: Array, odd: Array, n_players: int) -> Array:
    """`(m + 1,)`: by how much the prior's variances are off, for each token and for their mean.

    From 3 k coalitions on it is what predicting each pair from the others missed, in units of what it should miss:
    Shapley values depend on the odd part alone, and the even part of language models is rougher. With k pairs for k
    values none can be left out, and the likelihood of both parts tells; between the two it passes over.
    """
    trust = min(1.0, 2 * (len(odd) - n_players) / n_players)
    if trust <= 0:
        return by_likelihood
    inverse = np.linalg.inv(kernel)
    missed = (inverse @ _with_mean(odd)) ** 2 / np.diagonal(inverse)[:, None]
    left_out = LEFT_OUT**2 * missed[1:].mean(axis=0)  # without the full and the empty one, which are always known
    mixed: Array = by_likelihood ** (1 - trust) * left_out**trust
    return mixed


def _with_mean(part: Array) -> Array:
    """`(n, m + 1)`: the tokens, and their mean."""
    return np.column_stack([part, part.mean(axis=1)])


def _energy(kernel: Array, part: Array) -> Array:
    """`(m + 1,)`: what was observed, in units of the prior's variance, for each token and for their mean."""
    columns = _with_mean(part)
    energy: Array = (columns * np.linalg.solve(kernel, columns)).sum(axis=0)
    return energy


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
        nodes, weights = _nodes_of(k)
        factors = 1 + (self.rho * x)[:, :, None] * nodes
        products = factors.prod(axis=1) * weights / np.prod(1 + self.rho)
        interacting = self.rho * x * (products[:, None, :] / factors).sum(axis=2)
        covariance: Array = (2 * ADDITIVE / k * x + interacting).T + self.epsilon * coalition_weights(x > 0)
        return covariance

    def variance_of_values(self) -> Array:
        """`(k, k)`: prior covariance of the Shapley values."""
        k = len(self.rho)
        nodes, weights = _nodes_of(k)
        u, w = np.outer(nodes, nodes).ravel(), np.outer(weights, weights).ravel()
        factors = 1 + self.rho[:, None] * u
        products = factors.prod(axis=0) * w / np.prod(1 + self.rho)
        inverse = self.rho[:, None] / factors
        interacting = (inverse * products * u) @ inverse.T
        np.fill_diagonal(interacting, (inverse * products).sum(axis=1))
        variance: Array = interacting + 4 * ADDITIVE / k * np.eye(k) + self.epsilon * _noise_of_values(k)
        return variance


def default_prior(n_players: int) -> Prior:
    """The prior by which pairs are chosen, and from which fitting starts."""
    return Prior(np.full(n_players, RHO), EPSILON)


@cache
def _nodes_of(n_players: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [-1, 1] that integrate polynomials of degree k exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(n_players // 2 + 1)
    return nodes, weights


@cache
def _noise_of_values(n_players: int) -> Array:
    """`(k, k)`: covariance of Shapley values of a game of independent noise with variance 1."""
    k, weights = n_players, marginal_weights(n_players)
    variance = 2 * sum(comb(k - 1, s) * weights[s] ** 2 for s in range(k))
    both = sum(comb(k - 2, s - 2) * weights[s - 1] ** 2 for s in range(2, k + 1))
    one = sum(comb(k - 2, s - 1) * weights[s - 1] * weights[s] for s in range(1, k))
    none = sum(comb(k - 2, s) * weights[s] ** 2 for s in range(k - 1))
    covariance = both + none - 2 * one
    spread: Array = np.full((k, k), covariance) + (variance - covariance) * np.eye(k)
    return spread


def effective_columns(values: Array) -> float:
    """The participation ratio of the columns' covariance: how many independent columns there are, at least 1."""
    scaled = values / _magnitude(values)
    centered = scaled - scaled.mean(axis=0)
    gram = centered @ centered.T
    square = float((gram**2).sum())
    return float(np.trace(gram)) ** 2 / square if square > 0 else 1.0


def fitted_prior(x: Array, odd: Array, even: Array, n_effective: float) -> Prior:
    """The prior under which the odd and even parts `(n, m)`, observed at x `(n, k)`, are most plausible."""
    magnitude = max(_magnitude(odd), _magnitude(even))
    odd, even = odd / magnitude, even / magnitude
    energy = float((odd**2).sum() + (even**2).sum())
    if energy <= 0:
        return Prior(np.full(x.shape[1], RHO), EPSILON)
    likelihood = _Likelihood(x, odd @ odd.T / energy, even @ even.T / energy, n_effective)
    start = np.append(np.full(x.shape[1], _START), np.log(EPSILON))
    return _prior(minimized(likelihood, start, ITERATIONS))


def _magnitude(values: Array) -> float:
    """The power of two at the largest value, by which all can be divided without rounding: squares then stay finite."""
    return float(np.ldexp(1.0, int(np.frexp(np.abs(values).max(initial=0.0))[1]) - 1))


def _prior(parameters: Array) -> Prior:
    """The prior of these (logit rho, log epsilon)."""
    return Prior(1 / (1 + np.exp(-parameters[:-1])), float(np.exp(parameters[-1])))


class _Likelihood:
    """Minus the log posterior of (logit rho, log epsilon), the games' scale profiled out, and its gradient."""

    def __init__(self, x: Array, odd: Array, even: Array, n_effective: float) -> None:
        self.x, self.odd, self.even, self.n_effective = x, odd, even, n_effective
        self.additive = ADDITIVE / x.shape[1] * (x @ x.T)

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """The objective and its gradient; infinite where the kernel matrices are not positive definite."""
        flat = np.zeros_like(parameters)
        if np.abs(parameters).max() > _LIMIT:
            return np.inf, flat
        prior = _prior(parameters)
        sinh, cosh = prior.interactions(self.x, self.x)
        noise = prior.epsilon / 2 * np.eye(len(self.x))
        try:
            odd, odd_determinant = _inverse(self.additive + sinh + noise)
            even, even_determinant = _inverse(ADDITIVE + cosh + noise)
        except np.linalg.LinAlgError:
            return np.inf, flat
        odd_fit, even_fit = odd @ self.odd, even @ self.even
        scale = float(np.trace(odd_fit) + np.trace(even_fit))
        n = 2 * len(self.x)
        value = self.n_effective / 2 * (n * np.log(scale) + odd_determinant + even_determinant)
        by_odd = self.n_effective / 2 * (odd - n / scale * odd_fit @ odd)
        by_even = self.n_effective / 2 * (even - n / scale * even_fit @ even)
        gradient = self._chain(prior, sinh, cosh, by_odd, by_even)
        return value + self._penalty(parameters), gradient + self._penalty_gradient(parameters)

    def _chain(self, prior: Prior, sinh: Array, cosh: Array, by_odd: Array, by_even: Array) -> Array:
        """From the gradient by the kernel matrices to that by the parameters."""
        crossed = ((by_odd * cosh + by_even * sinh) @ self.x * self.x).sum(axis=0)
        by_reach = (crossed - (by_odd * sinh + by_even * cosh).sum()) / 2
        by_rho = by_reach * 2 / (1 - prior.rho**2)
        by_epsilon = (np.trace(by_odd) + np.trace(by_even)) / 2
        return np.append(by_rho * prior.rho * (1 - prior.rho), by_epsilon * prior.epsilon)

    def _penalty(self, parameters: Array) -> float:
        """The normal priors on the parameters."""
        rho, epsilon = (parameters[:-1] - _START) / _RHO_SPREAD, (parameters[-1] - np.log(EPSILON)) / _EPSILON_SPREAD
        return float((rho**2).sum() + epsilon**2) / 2

    def _penalty_gradient(self, parameters: Array) -> Array:
        """The gradient of the penalty."""
        rho, epsilon = parameters[:-1] - _START, parameters[-1] - np.log(EPSILON)
        return np.append(rho / _RHO_SPREAD**2, epsilon / _EPSILON_SPREAD**2)


def _inverse(matrix: Array) -> tuple[Array, float]:
    """The inverse of a positive definite matrix and the logarithm of its determinant."""
    lower = np.linalg.cholesky(matrix)
    root = np.linalg.inv(lower)
    return root.T @ root, 2 * float(np.log(np.diagonal(lower)).sum())


def minimized(objective: Callable[[Array], tuple[float, Array]], start: Array, iterations: int) -> Array:
    """The point that a BFGS search with backtracking reaches; the objective returns its value and its gradient."""
    point, (value, gradient) = start, objective(start)
    inverse = np.eye(len(start)) / max(1.0, float(np.linalg.norm(gradient)))
    for iteration in range(iterations):
        direction = -inverse @ gradient
        slope = float(gradient @ direction)
        if slope > -1e-9:
            break
        step = 1.0
        reached = objective(point + direction)
        while reached[0] > value + 1e-4 * step * slope and step > 1e-6:
            step /= 2
            reached = objective(point + step * direction)
        if not reached[0] < value:
            break
        moved, turned = step * direction, reached[1] - gradient
        curvature = float(moved @ turned)
        if curvature > 1e-12:
            if iteration == 0:
                inverse = np.eye(len(start)) * curvature / float(turned @ turned)
            inverse = _updated(inverse, moved, turned, curvature)
        point, (value, gradient) = point + moved, reached
    return point


def _updated(inverse: Array, moved: Array, turned: Array, curvature: float) -> Array:
    """The BFGS update of the inverse Hessian after a step that turned the gradient."""
    left = np.eye(len(moved)) - np.outer(moved, turned) / curvature
    updated: Array = left @ inverse @ left.T + np.outer(moved, moved) / curvature
    return updated


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
