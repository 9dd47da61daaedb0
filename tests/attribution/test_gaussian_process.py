"""The Gaussian process: its covariances, the design, the fit, and how well its intervals are calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bench.games import KnownGame, synthetic_games
from ragtrace.attribution import shapley_values
from ragtrace.attribution._gaussian_process import (
    ADDITIVE,
    LEFT_OUT,
    GaussianProcess,
    Prior,
    _Likelihood,
    _Shared,
    default_prior,
    designed_pairs,
    effective_columns,
    fitted_prior,
    minimized,
    signs,
)
from ragtrace.attribution.game import all_coalitions, coalition_weights, complements, encode
from ragtrace.engines._token_tree import Edge, grow
from tests.attribution.games import random_table, table_game

PRIOR = Prior(np.array([0.2, 0.5, 0.7, 0.35]), 0.05)


def covariance_of_games(prior: Prior) -> np.ndarray:
    """The prior covariance of all 2^k values, from its definition."""
    k = len(prior.rho)
    x = signs(all_coalitions(k))
    products = np.prod((1 + prior.rho * x[:, None] * x) / (1 + prior.rho), axis=2)
    covariance: np.ndarray = ADDITIVE * (1 + x @ x.T / k) + products + prior.epsilon * np.eye(1 << k)
    return covariance


def test_covariances_agree_with_their_definition() -> None:
    """Those of the values, of the values with the odd part, and both kernels follow from that of all coalitions."""
    coalitions = all_coalitions(4)
    games, weights = covariance_of_games(PRIOR), coalition_weights(coalitions)
    x = signs(coalitions)[8:]
    odd = (np.eye(16)[8:] - np.eye(16)[encode(~coalitions)[8:]]) / 2
    even = (np.eye(16)[8:] + np.eye(16)[encode(~coalitions)[8:]]) / 2
    assert np.allclose(PRIOR.variance_of_values(), weights @ games @ weights.T)
    assert np.allclose(PRIOR.covariance_with_values(x), weights @ games @ odd.T)
    odd_kernel, even_kernel = PRIOR.kernels(x)
    assert np.allclose(odd_kernel, odd @ games @ odd.T)
    assert np.allclose(even_kernel, even @ games @ even.T)
    assert np.allclose(odd @ games @ even.T, 0, atol=1e-9)


@pytest.mark.parametrize("n_players", [2, 3, 5, 12, 13, 30])
def test_design_is_nested_and_distinct(n_players: int) -> None:
    """A larger design begins with the smaller one, with the full coalition; no pair appears twice."""
    n = min(40, 2 ** (n_players - 1))
    pairs = designed_pairs(n_players, n, 3)
    assert pairs[0].all()
    assert len(set(encode(pairs).tolist()) | set(encode(~pairs).tolist())) == 2 * n
    for fewer in {1, n // 2, n - 1} - {0}:
        assert np.array_equal(designed_pairs(n_players, fewer, 3), pairs[:fewer])


def test_design_beyond_its_candidates() -> None:
    """With more pairs than candidates random ones follow, still distinct and nested."""
    pairs = designed_pairs(13, 2500, 0)
    assert len(set(encode(pairs).tolist()) | set(encode(~pairs).tolist())) == 5000
    assert np.array_equal(designed_pairs(13, 2300, 0), pairs[:2300])


def test_design_is_kept() -> None:
    """The same design is not computed again, and nobody can change it."""
    pairs = designed_pairs(9, 20, 0)
    assert np.shares_memory(designed_pairs(9, 30, 0), pairs)
    with pytest.raises(ValueError, match="read-only"):
        pairs[0, 0] = False


def test_first_pairs_are_orthogonal_where_that_is_possible() -> None:
    """With eight players the first eight pairs are a Hadamard matrix: nothing tells more about eight values."""
    x = signs(designed_pairs(8, 8, 0))
    assert np.array_equal(x @ x.T, 8 * np.eye(8))


def tokens_read(coalitions: np.ndarray, costs: tuple[int, ...]) -> int:
    """What the engine's tree holds of prompts with documents of these lengths, and the last length behind them."""
    documents = [[1000 * (at + 1) + place for place in range(cost)] for at, cost in enumerate(costs[:-1])]
    tail = list(range(costs[-1]))
    sequences = [[token for at in np.flatnonzero(row) for token in documents[at]] + tail for row in coalitions]

    def size(edges: list[Edge]) -> int:
        return sum(len(edge.tokens) + size(edge.children) for edge in edges)

    return size(grow(sequences, len(tail)))


@settings(deadline=None, max_examples=25)
@given(n_players=st.integers(2, 9), seed=st.integers(0, 99))
def test_pairs_cost_what_the_engine_reads(n_players: int, seed: int) -> None:
    """The costs of pairs, one beside those before it, add up to the tokens in the tree of their prompts."""
    random = np.random.default_rng(seed)
    costs = tuple(int(cost) for cost in random.integers(1, 9, n_players + 1))
    count = min(12, 1 << (n_players - 1))
    coalitions = all_coalitions(n_players)[random.choice(1 << (n_players - 1), count, replace=False)]
    shared, total = _Shared(coalitions, np.array(costs, dtype=np.float64)), 0.0
    for row in range(count):
        total += shared.marginal[row]
        shared.read([row])
    assert total == tokens_read(complements(coalitions), costs)


@pytest.mark.parametrize("n_players", [8, 10, 16])
def test_costs_make_pairs_share(n_players: int) -> None:
    """After the same first 2 k pairs come others that take fewer tokens; only relative costs count."""
    costs = (*[12] * n_players, 8)
    plain = designed_pairs(n_players, 4 * n_players, 1)
    sharing = designed_pairs(n_players, 4 * n_players, 1, costs)
    assert np.array_equal(sharing[: 2 * n_players], plain[: 2 * n_players])
    assert len(set(encode(sharing).tolist()) | set(encode(~sharing).tolist())) == 8 * n_players
    assert tokens_read(complements(sharing), costs) < 0.95 * tokens_read(complements(plain), costs)
    assert np.array_equal(sharing, designed_pairs(n_players, 4 * n_players, 1, tuple(3.0 * cost for cost in costs)))
    assert np.array_equal(sharing[:-3], designed_pairs(n_players, 4 * n_players - 3, 1, costs))


def test_costs_lower_the_error_at_equal_tokens() -> None:
    """As geometric mean over games and seeds, with as many subsets as the tokens of the plain design allow."""
    costs = (*[121] * 10, 84)
    logarithms = []
    for seed in range(2):
        most = tokens_read(GaussianProcess().coalitions(10, 80, seed), costs)
        coalitions = GaussianProcess(costs=costs).coalitions(10, 120, seed)
        budget = max(n for n in range(40, 121, 2) if tokens_read(coalitions[:n], costs) <= most)
        assert budget > 85
        for game in synthetic_games(10, 2, 7000):
            plain = shapley_values(game.game, 10, budget=80, seed=seed)
            sharing = shapley_values(game.game, 10, budget=budget, seed=seed, costs=costs)
            logarithms.append(np.log(((sharing.values - game.truth) ** 2).mean()))
            logarithms.append(-np.log(((plain.values - game.truth) ** 2).mean()))
    assert np.exp(2 * np.mean(logarithms)) < 0.95


def test_gradient_of_the_likelihood() -> None:
    """It agrees with central differences in every parameter."""
    x = signs(designed_pairs(6, 14, 0))
    random = np.random.default_rng(0)
    odd, even = random.normal(size=(2, 14, 3))
    likelihood = _Likelihood(x, odd @ odd.T, even @ even.T, 2.5)
    point = random.normal(size=7) * 0.5 - 1
    gradient = likelihood(point)[1]
    for at in range(7):
        step = np.eye(7)[at] * 1e-5
        slope = (likelihood(point + step)[0] - likelihood(point - step)[0]) / 2e-5
        assert slope == pytest.approx(gradient[at], rel=1e-4, abs=1e-5)


def test_search_finds_a_minimum() -> None:
    """BFGS solves a crooked quadratic and Rosenbrock's valley."""

    def rosenbrock(p: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = p
        return (1 - a) ** 2 + 100 * (b - a * a) ** 2, np.array([2 * (a - 1) - 400 * a * (b - a * a), 200 * (b - a * a)])

    curvature = np.diag([1.0, 10.0, 1000.0])
    quadratic = minimized(lambda p: (float(p @ curvature @ p) / 2, curvature @ p), np.ones(3), 50)
    assert np.abs(quadratic).max() < 1e-4
    assert np.allclose(minimized(rosenbrock, np.array([-1.2, 1.0]), 100), 1, atol=1e-3)


def test_fit_tells_who_interacts() -> None:
    """Documents that interact get a larger rho than one that only adds."""
    players = all_coalitions(6).astype(float)
    table = players[:, :1] + 2 * players[:, [1]] * players[:, [2]] * players[:, [3]]
    x = designed_pairs(6, 24, 0)
    first, second = table[encode(x)], table[encode(~x)]
    even = (first + second) / 2
    prior = fitted_prior(signs(x), (first - second) / 2, even - even.mean(axis=0), 1.0)
    assert prior.rho[1:4].min() > 2 * prior.rho[[0, 4, 5]].max()


def test_effective_columns() -> None:
    """Copies of one column count once, independent columns fully, nothing as one."""
    columns = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 4)))[0]
    columns = np.linalg.qr(columns - columns.mean(axis=0))[0]
    assert effective_columns(columns) == pytest.approx(4)
    assert effective_columns(np.repeat(columns[:, :1], 5, axis=1)) == pytest.approx(1)
    assert effective_columns(np.zeros((5, 2))) == 1


def test_pairwise_games_need_two_k_evaluations() -> None:
    """A game of interactions between at most two documents is met from N = 2k on, up to what the prior shrinks."""
    random, players = np.random.default_rng(0), all_coalitions(8).astype(float)
    pairs = np.stack([players[:, a] * players[:, b] for a in range(8) for b in range(a)], axis=1)
    table = players @ random.normal(size=(8, 1)) + pairs @ random.normal(size=(28, 1))
    truth = shapley_values(table_game(table), 8, method="exact").values
    for budget in (16, 30):
        result = shapley_values(table_game(table), 8, method="gp", budget=budget, prior="fixed")
        assert np.abs(result.values - truth).max() < 5e-3 * np.abs(truth).max()


def test_almost_complete_budget_is_almost_exact() -> None:
    """One pair short of 2^k the error is small: the process interpolates what it has seen."""
    table = random_table(7)
    truth = shapley_values(table_game(table), 7, method="exact").values
    result = shapley_values(table_game(table), 7, method="gp", budget=126)
    assert not result.exact
    assert np.abs(result.values - truth).max() < 0.03


@pytest.mark.parametrize(("method", "multiple"), [("gp", 2), ("gp", 4), ("gp", 8), ("pmcshap", 8), ("kernelshap", 8)])
def test_intervals_hold(method: str, multiple: int) -> None:
    """About nine in ten 90 % intervals hold the exact value, on games that no factor was calibrated on."""
    held = []
    for game in synthetic_games(8, 3, 5000):
        result = shapley_values(game.game, 8, method=method, budget=8 * multiple)
        held.append(np.abs(result.values - game.truth) <= 1.645 * result.standard_error)
    assert 0.82 <= np.mean(held) <= 0.98


@pytest.mark.parametrize(("multiple", "most"), [(2, 0.5), (4, 0.2), (8, 0.1)])
def test_default_beats_pmcshap(multiple: int, most: float) -> None:
    """The squared error relative to PMCSHAP's, as geometric mean over games (bench/shapley.py prints the figures)."""
    logarithms = []
    for game in synthetic_games(8, 2, 6000):
        own, reference = (squared_error(game, method, 8 * multiple) for method in ("auto", "pmcshap"))
        logarithms.append(np.log(own / reference))
    assert np.exp(np.mean(logarithms)) < most


def squared_error(game: KnownGame, method: str, budget: int) -> float:
    """The mean squared error over two seeds."""
    runs = [shapley_values(game.game, game.n_players, method=method, budget=budget, seed=seed) for seed in range(2)]
    return float(np.mean([(run.values - game.truth) ** 2 for run in runs]))


@pytest.mark.parametrize("exponent", [-400, 330, 500])
def test_the_unit_of_the_values_does_not_matter(exponent: int) -> None:
    """Values in 2^330 (1e99) or 2^500 (1e150): the estimate is the same to the last digit, in that unit."""
    table, unit = random_table(8, 2), 2.0**exponent
    usual = shapley_values(table_game(table), 8, method="gp", budget=60)
    scaled = shapley_values(table_game(table * unit), 8, method="gp", budget=60)
    np.testing.assert_array_equal(scaled.values, usual.values * unit)
    np.testing.assert_allclose(scaled.standard_error, usual.standard_error * unit, rtol=1e-9)


def test_errors_are_scaled_by_pairs_left_out() -> None:
    """From 3 k on: each pair predicted by a process that never saw it, in a loop; the mean of what was missed, in units
    of what should be missed, is the square of the scale."""
    k, n = 5, 10
    x = signs(designed_pairs(k, n, 0))
    odd = np.random.default_rng(1).normal(size=(n, 2))
    even = np.zeros_like(odd)
    kernel = default_prior(k).kernels(x)[0]
    missed = []
    for left in range(1, n):
        rest = [at for at in range(n) if at != left]
        weights = np.linalg.solve(kernel[np.ix_(rest, rest)], kernel[rest, left])
        variance = kernel[left, left] - weights @ kernel[rest, left]
        columns = np.column_stack([odd, odd.mean(axis=1)])
        missed.append((columns[left] - weights @ columns[rest]) ** 2 / variance)
    process = GaussianProcess(prior="fixed")
    values = np.empty((2 * n, 2))
    values[::2], values[1::2] = even + odd, even - odd
    fitted = process.estimate(complements(designed_pairs(k, n, 0)), values, 0)
    covariance = default_prior(k).covariance_with_values(x)
    unscaled = default_prior(k).variance_of_values() - covariance @ np.linalg.solve(kernel, covariance.T)
    scale = LEFT_OUT**2 * np.mean(missed, axis=0)
    np.testing.assert_allclose(fitted.covariance, unscaled * scale[-1], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fitted.standard_error, np.sqrt(np.outer(np.diagonal(unscaled), scale[:-1])), rtol=1e-5)
