"""Runs of `shapley_values` that end before their budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragtrace.attribution import CoalitionLog, shapley_values
from ragtrace.attribution.game import all_coalitions
from tests.attribution.games import ESTIMATORS, SAMPLING, CountedGame, random_table, table_game


def test_stops_at_a_standard_error() -> None:
    """The run ends at the first look at which the largest error of a score is small enough."""
    table = random_table(9, 1)
    game = CountedGame(table_game(table))
    result = shapley_values(game, 9, budget=400, target_standard_error=0.2)
    assert result.stopped == "target_standard_error"
    assert np.sqrt(np.diagonal(result.covariance)).max() <= 0.2
    assert result.n_evaluations < 400
    assert set(game.seen.values()) == {1}
    before = shapley_values(table_game(table), 9, budget=result.n_evaluations - 8)
    assert np.sqrt(np.diagonal(before.covariance)).max() > 0.2


def test_stops_when_settled() -> None:
    """A clear game is settled early, one whose players are alike not before its budget ends."""

    def clear(coalitions: np.ndarray) -> np.ndarray:
        return np.asarray(coalitions @ np.arange(9.0, 1.0, -1.0)[:, None])

    settled = shapley_values(clear, 8, budget=128, settle=0.9)
    assert settled.stopped == "settle"
    assert settled.n_evaluations <= 32
    unsettled = shapley_values(
        lambda coalitions: coalitions.sum(axis=1, keepdims=True) ** 1.5, 8, budget=64, settle=0.9
    )
    assert unsettled.stopped is None
    assert unsettled.n_evaluations == 64


def test_looks_become_rarer() -> None:
    """Each at most a sixteenth, or 8, above the one before: hundreds of fits would cost more than the evaluations."""
    game = CountedGame(table_game(random_table(12, 1)))
    result = shapley_values(game, 12, method="permutation", budget=4000, target_standard_error=1e-9)
    assert result.n_evaluations > 3900
    assert 50 < game.calls < 80


def test_a_whole_budget_was_not_stopped() -> None:
    """A condition that holds at the end of the budget has ended nothing before it."""
    game = table_game(random_table(8))
    reached = float(np.sqrt(np.diagonal(shapley_values(game, 8, budget=48).covariance)).max())
    for budget, stopped in ((48, None), (49, "target_standard_error"), (80, "target_standard_error")):
        result = shapley_values(game, 8, budget=budget, target_standard_error=reached * (1 + 1e-9))
        assert (result.n_evaluations, result.stopped) == (48, stopped)


@pytest.mark.parametrize("name", SAMPLING)
def test_a_condition_stops_at_no_less_than_is_known(name: str) -> None:
    """What a log knows costs nothing, so that a continued run rests on it, up to the last look."""
    table, options = random_table(7), ESTIMATORS[name]
    first = shapley_values(table_game(table), 7, budget=70, **options)
    game = CountedGame(table_game(table))
    limits: dict[str, Any] = {"budget": 120, "target_standard_error": 1e9}
    continued = shapley_values(game, 7, continue_from=first.log, **limits, **options)
    assert not game.calls
    assert (continued.stopped, continued.n_evaluations) == ("target_standard_error", first.n_evaluations)
    complete = CoalitionLog(7, all_coalitions(7), table)
    assert shapley_values(game, 7, continue_from=complete, **limits | {"budget": 128}, **options).exact


def test_what_is_settled_depends_on_the_retriever() -> None:
    """The flags compare with the retriever's order: another order may need more evaluations, not other values."""
    table = random_table(8, 1, seed=9)
    runs = [
        shapley_values(table_game(table), 8, budget=200, settle=0.9, ranking=order)
        for order in (range(8), [7, 6, 5, 4, 3, 2, 1, 0], [3, 1, 0, 2, 5, 4, 7, 6])
    ]
    assert len({run.n_evaluations for run in runs}) > 1


def test_stopping_at_the_last_round_is_exact() -> None:
    """A budget of 2^k that no condition cut short ends in the exact values."""
    table = np.random.default_rng(0).normal(size=(32, 1))
    result = shapley_values(table_game(table), 5, settle=0.99)
    assert result.exact
    assert result.stopped is None
