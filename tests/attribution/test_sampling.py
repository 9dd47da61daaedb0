"""KernelSHAP, MCSHAP, PMCSHAP and the code that was published with it."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.attribution import shapley_values
from ragtrace.attribution._sampling import random_pool, sub_pools
from ragtrace.attribution.game import all_coalitions, encode, kernel_weights
from ragtrace.errors import ConfigurationError
from tests.attribution.games import CountedGame, random_table, table_game


def test_pools_are_nested_and_distinct() -> None:
    """A larger pool begins with the smaller one; pairs are complementary; beyond 16 players as well."""
    for n_players in (6, 20):
        for paired in (False, True):
            small, large = (random_pool(n_players, budget, 1, paired=paired) for budget in (20, 60))
            assert np.array_equal(large[:20], small)
            assert len(set(encode(large).tolist())) == 60
            assert not paired or np.array_equal(large[2::2], ~large[3::2])


def test_sub_pools_have_their_size() -> None:
    """Each draws that many groups, all groups alike."""
    pools = sub_pools(20, 15, 400, 0)
    assert (pools.sum(axis=1) == 15).all()
    assert np.abs(pools.mean(axis=0) - 0.75).max() < 0.1


def test_kernelshap_is_constrained_least_squares() -> None:
    """The fit is the minimum of the weighted squared error among values that sum to v(full) - v(empty)."""
    table = random_table(6, 1)
    result = shapley_values(table_game(table), 6, method="kernelshap", budget=40)
    inner = random_pool(6, 40, 0, paired=False)[2:]
    weights = kernel_weights(inner)

    def loss(phi: np.ndarray) -> float:
        return float(weights @ (table[encode(inner), 0] - table[0, 0] - inner @ phi) ** 2)

    best, random = loss(result.values[:, 0]), np.random.default_rng(0)
    for _ in range(50):
        step = random.normal(size=6)
        assert loss(result.values[:, 0] + 1e-3 * (step - step.mean())) > best


def test_sub_pools_count_the_empty_and_the_full() -> None:
    """With N = 40 and N' = .75 N a PMCSHAP fit sees 14 pairs; the mean of many fits is the estimate."""
    table = random_table(6, 2)
    result = shapley_values(table_game(table), 6, method="pmcshap", budget=40, n_fits=5)
    pool = random_pool(6, 40, 0, paired=True)
    inner, empty, difference = pool[2:], table[0], table[-1] - table[0]
    fits = []
    for chosen in sub_pools(19, 14, 5, 0).repeat(2, axis=1).astype(bool):
        x = inner[chosen].astype(float)
        root = np.sqrt(kernel_weights(inner[chosen]))[:, None]
        y = table[encode(inner[chosen])] - empty - x[:, -1:] * difference
        phi = np.linalg.lstsq(root * (x[:, :-1] - x[:, -1:]), root * y, rcond=None)[0]
        fits.append(np.vstack([phi, difference - phi.sum(axis=0)]))
    assert np.allclose(result.values, np.mean(fits, axis=0), atol=1e-9)


def test_released_code_is_off_by_a_constant() -> None:
    """The published code leaves the empty and the full coalition out of its fits: its sums are off, and it says so."""
    players = all_coalitions(7)
    together = players.all(axis=1, keepdims=True)
    table = players @ np.random.default_rng(0).normal(size=(7, 1)) + together
    game = CountedGame(table_game(table))
    result = shapley_values(game, 7, method="pmcshap", released=True, budget=60)
    assert {0, 127} <= set(game.seen)
    assert result.method == "pmcshap (released)"
    assert np.isnan(result.standard_error).all()
    assert "published code" in str(result.reason)
    assert np.abs(result.values.sum(axis=0) - (table[-1] - table[0])).max() > 0.5
    ours = shapley_values(table_game(table), 7, method="pmcshap", budget=60)
    assert np.abs(ours.values.sum(axis=0) - (table[-1] - table[0])).max() < 1e-9


def test_released_code_does_not_converge() -> None:
    """Sub-pools of four pairs and a ridge leave an error that more budget does not take away."""
    table = random_table(8, 4)
    truth = shapley_values(table_game(table), 8, method="exact").values
    off = [
        np.abs(
            shapley_values(table_game(table), 8, method="pmcshap", budget=250, released=released).values - truth
        ).mean()
        for released in (True, False)
    ]
    assert off[0] > 10 * off[1]


@pytest.mark.parametrize("method", ["mcshap", "pmcshap"])
@pytest.mark.parametrize("n_fits", [1, 2.5, "a", True])
def test_the_number_of_fits_is_an_integer(method: str, n_fits: object) -> None:
    """Two at least, since their spread is the error."""
    with pytest.raises(ConfigurationError, match=r"n_fits .* is not usable; give an integer of at least 2"):
        shapley_values(table_game(random_table(6)), 6, method=method, budget=20, n_fits=n_fits)
