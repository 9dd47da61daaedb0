"""The axioms of the Shapley value, for the exact values and for every estimator for which they hold by design.

Symmetry, dummy and permutation equivariance hold for an estimator only where its design treats the players alike, which
no finite random design does; they are tested for the exact values, at complete budgets. Efficiency holds for all.
Linearity holds for all estimators whose weights do not depend on the values, that is all but `gp` with a fitted prior.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ragtrace.attribution import shapley_values
from ragtrace.attribution.game import all_coalitions, encode
from tests.attribution.games import ESTIMATORS, SAMPLING, random_table, table_game

LINEAR = [name for name in ESTIMATORS if name != "gp"]
tables = st.builds(random_table, st.integers(2, 5), st.integers(1, 3), st.integers(0, 10_000))


def values(table: NDArray[np.float64], name: str = "exact", **more: Any) -> NDArray[np.float64]:
    """The values of the game of this table."""
    return shapley_values(table_game(table), len(table).bit_length() - 1, **ESTIMATORS[name], **more).values


@settings(deadline=None, max_examples=25)
@given(n_players=st.integers(4, 8), share=st.floats(0.2, 1), seed=st.integers(0, 99), name=st.sampled_from(SAMPLING))
def test_efficiency(n_players: int, share: float, seed: int, name: str) -> None:
    """Each column sums to v(full) - v(empty), at whatever budget."""
    table = random_table(n_players, seed=seed)
    budget = max(n_players + 1, int(share * 2**n_players))
    result = shapley_values(table_game(table), n_players, budget=budget, seed=seed, **ESTIMATORS[name])
    assert np.abs(result.values.sum(axis=0) - (table[-1] - table[0])).max() < 1e-9
    assert result.n_evaluations <= budget
    assert np.array_equal(result.empty, table[0])
    assert np.array_equal(result.full, table[-1])


@settings(deadline=None, max_examples=25)
@given(table=tables, name=st.sampled_from(list(ESTIMATORS)))
def test_complete_budget_is_exact(table: NDArray[np.float64], name: str) -> None:
    """With 2^k evaluations every estimator returns the exact values, without error."""
    result = shapley_values(table_game(table), len(table).bit_length() - 1, budget=len(table), **ESTIMATORS[name])
    assert np.abs(result.values - by_definition(table)).max() < 1e-9
    assert result.exact
    assert not result.standard_error.any()


@settings(deadline=None, max_examples=25)
@given(first=tables, seed=st.integers(0, 99), factor=st.floats(-3, 3), name=st.sampled_from(LINEAR))
def test_linearity(first: NDArray[np.float64], seed: int, factor: float, name: str) -> None:
    """The values of a weighted sum of games are the weighted sum of their values."""
    k = len(first).bit_length() - 1
    second = random_table(k, first.shape[1], seed)
    budget = {"budget": len(first) - 1} if name != "exact" and k > 2 else {}
    together = values(first + factor * second, name, **budget)
    assert np.allclose(together, values(first, name, **budget) + factor * values(second, name, **budget), atol=1e-7)


@settings(deadline=None, max_examples=25)
@given(table=tables, data=st.data())
def test_symmetry(table: NDArray[np.float64], data: st.DataObject) -> None:
    """Two players that contribute the same to every coalition get the same."""
    k = len(table).bit_length() - 1
    first, second = data.draw(st.permutations(range(k)))[:2]
    swapped = all_coalitions(k)
    swapped[:, [first, second]] = swapped[:, [second, first]]
    symmetric = (table + table[encode(swapped)]) / 2
    phi = values(symmetric)
    assert np.allclose(phi[first], phi[second], atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(table=tables, data=st.data())
def test_dummy(table: NDArray[np.float64], data: st.DataObject) -> None:
    """A player that never changes the value gets nothing."""
    k = len(table).bit_length() - 1
    player = data.draw(st.integers(0, k - 1))
    without = all_coalitions(k)
    without[:, player] = False
    assert np.allclose(values(table[encode(without)])[player], 0, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(table=tables, data=st.data())
def test_equivariance(table: NDArray[np.float64], data: st.DataObject) -> None:
    """Renamed players keep their values."""
    k = len(table).bit_length() - 1
    order = data.draw(st.permutations(range(k)))
    renamed = table[encode(all_coalitions(k)[:, order])]
    assert np.allclose(values(renamed)[order], values(table), atol=1e-12)


@pytest.mark.parametrize("name", SAMPLING)
def test_additive_game(name: str) -> None:
    """A game without interactions is met by every estimator as soon as its design determines k values."""
    weights = np.random.default_rng(0).normal(size=(8, 2))
    table = all_coalitions(8) @ weights - 1
    assert np.abs(values(table, name, budget=40) - weights).max() < 1e-3


def by_definition(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean marginal contribution over all orders of the players."""
    k = len(table).bit_length() - 1
    phi, orders = np.zeros((k, table.shape[1])), list(permutations(range(k)))
    for order in orders:
        code = 0
        for player in order:
            phi[player] += table[code | 1 << player] - table[code]
            code |= 1 << player
    return phi / len(orders)
