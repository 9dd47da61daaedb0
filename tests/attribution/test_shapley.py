"""What `shapley_values` promises whatever the estimator: budgets, seeds, continued runs, odd input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.attribution import CoalitionLog, Method, default_budget, known_values, shapley_values
from ragtrace.attribution.shapley import METHODS
from ragtrace.errors import AttributionError, ConfigurationError
from tests.attribution.games import ESTIMATORS, SAMPLING, CountedGame, random_table, table_game

TABLES = Path(__file__).parents[3] / "shared" / "data" / "shapley-games" / "half_k8.npz"


@pytest.mark.parametrize("name", SAMPLING)
def test_no_coalition_twice(name: str) -> None:
    """Within the budget, empty and full among them, in one call."""
    game = CountedGame(table_game(random_table(7)))
    result = shapley_values(game, 7, budget=50, **ESTIMATORS[name])
    assert set(game.seen.values()) == {1}
    assert {0, 127} <= set(game.seen)
    assert result.n_evaluations == len(game.seen) <= 50
    assert game.calls == 1


@pytest.mark.parametrize("name", SAMPLING)
def test_more_budget_continues_a_run(name: str) -> None:
    """A continued run evaluates only what is new and ends where a fresh run would."""
    table, options = random_table(7), ESTIMATORS[name]
    first = shapley_values(table_game(table), 7, budget=30, **options)
    game = CountedGame(table_game(table))
    continued = shapley_values(game, 7, budget=90, continue_from=first.log, **options)
    fresh = shapley_values(table_game(table), 7, budget=90, **options)
    assert np.allclose(continued.values, fresh.values, atol=1e-12)
    assert len(game.seen) == fresh.n_evaluations - first.n_evaluations
    assert len(first.log) == first.n_evaluations
    assert len(continued.log) == continued.n_evaluations


def test_estimators_share_a_log() -> None:
    """What one estimator has evaluated no other evaluates again."""
    table = random_table(6)
    log = shapley_values(table_game(table), 6, method="exact").log
    game = CountedGame(table_game(table))
    for name in SAMPLING:
        result = shapley_values(game, 6, budget=30, continue_from=log, **ESTIMATORS[name])
        assert result.method != "exact"
    assert not game.calls
    assert shapley_values(game, 6, budget=30, continue_from=log).exact


@pytest.mark.parametrize("name", SAMPLING)
def test_seed_decides(name: str) -> None:
    """The same seed gives the same values; another one gives others."""
    table, options = random_table(8), ESTIMATORS[name]
    first, again, other = (
        shapley_values(table_game(table), 8, budget=40, seed=seed, **options).values for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


def test_default_budget() -> None:
    """Exact up to six players, 8 k beyond."""
    assert [default_budget(k) for k in (0, 1, 5, 6, 7, 10, 30)] == [1, 2, 32, 64, 56, 80, 240]
    assert shapley_values(table_game(random_table(6)), 6).exact
    assert shapley_values(table_game(random_table(7)), 7).method == "gp"
    assert shapley_values(table_game(random_table(7)), 7, method="exact").n_evaluations == 128


def test_many_evaluations_go_to_permutations() -> None:
    """Beyond 8,192 evaluations the default leaves the Gaussian process, whose cost is cubic."""
    result = shapley_values(lambda coalitions: coalitions.sum(axis=1, keepdims=True) ** 1.5, 14, budget=9000)
    assert result.method == "permutation"
    assert np.allclose(result.values, 14**0.5, atol=0.05)


@pytest.mark.parametrize("name", ["kernelshap", "kernelshap-paired", "mcshap", "gp"])
def test_largest_game(name: str) -> None:
    """Thirty players, of which three matter."""

    def game(coalitions: np.ndarray) -> np.ndarray:
        present = coalitions[:, [2, 11, 29]].astype(float)
        values: np.ndarray = present @ [3.0, 2.0, 1.0] + 0.5 * present[:, 0] * present[:, 1]
        return values[:, None]

    result = shapley_values(game, 30, budget=160, **ESTIMATORS[name])
    assert result.ranking[:3] == [2, 11, 29]
    assert np.isfinite(result.standard_error).all()


def test_no_player() -> None:
    """Nothing to attribute to: no values, one evaluation."""
    game = CountedGame(lambda coalitions: np.full((len(coalitions), 2), -1.5))
    result = shapley_values(game, 0)
    assert result.values.shape == result.standard_error.shape == (0, 2)
    assert result.empty.tolist() == result.full.tolist() == [-1.5, -1.5]
    assert result.n_evaluations == sum(game.seen.values()) == 1


def test_one_player() -> None:
    """The only player gets the whole difference."""
    result = shapley_values(table_game(np.array([[1.0], [4.0]])), 1)
    assert result.values.tolist() == [[3.0]]
    assert result.exact


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_token(name: str) -> None:
    """An empty answer has no values, and no distribution to draw from."""
    budget = 32 if name == "exact" else 20
    result = shapley_values(lambda coalitions: np.zeros((len(coalitions), 0)), 5, budget=budget, **ESTIMATORS[name])
    assert result.values.shape == (5, 0)
    assert np.isnan(result.scores).all()
    with pytest.raises(AttributionError, match="no tokens"):
        result.draws(10)


@pytest.mark.parametrize("name", SAMPLING)
def test_constant_game(name: str) -> None:
    """A game that nobody influences gives zeros without a warning."""
    result = shapley_values(lambda coalitions: np.full((len(coalitions), 2), -3.0), 6, budget=40, **ESTIMATORS[name])
    assert np.allclose(result.values, 0, atol=1e-9)
    assert np.allclose(np.nan_to_num(result.standard_error), 0, atol=1e-9)


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("n_players", [2, 3, 4, 7])
def test_smallest_budgets(name: str, n_players: int) -> None:
    """Every budget that an estimator takes gives finite values that sum up."""
    table = random_table(n_players)
    for budget in range(n_players + 1 if name == "permutation" else 2, 2**n_players + 1):
        result = shapley_values(table_game(table), n_players, budget=budget, **ESTIMATORS[name])
        assert np.allclose(result.values.sum(axis=0), table[-1] - table[0], atol=1e-9)
        assert (result.reason is None) == np.isfinite(result.standard_error).all()


def test_unknown_errors_have_a_reason() -> None:
    """Where so few evaluations show no error it is NaN, the reason is given, and nothing can be drawn."""
    result = shapley_values(table_game(random_table(8)), 8, budget=8)
    assert np.isnan(result.standard_error).all()
    assert "8 coalitions" in str(result.reason)
    with pytest.raises(AttributionError, match="no distribution"):
        result.draws(10)


def test_draws_follow_the_covariance() -> None:
    """Draws are centered at the scores, spread as the covariance says, and the same for the same seed."""
    result = shapley_values(table_game(random_table(8)), 8, budget=40)
    draws = result.draws(20_000, seed=1)
    assert np.allclose(
        draws.mean(axis=0), result.scores, atol=4 * np.sqrt(np.diagonal(result.covariance).max() / 20_000)
    )
    assert np.allclose(np.cov(draws.T), result.covariance, atol=0.05 * np.diagonal(result.covariance).max())
    assert np.array_equal(result.draws(5, seed=2), result.draws(5, seed=2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "shap"}, "exact, kernelshap"),
        ({"budget": 1}, "at least 2"),
        ({"budget": 2.5}, "at least 2"),
        ({"budget": True}, "at least 2"),
        ({"seed": -1}, "at least 0"),
        ({"method": "exact", "budget": 100}, "256"),
        ({"method": "permutation", "budget": 8}, "at least 9"),
        ({"prior": "flat"}, "fitted"),
        ({"prio": "fixed"}, "of prior, costs"),
        ({"costs": [1.0] * 8}, "9 positive numbers"),
        ({"costs": [1.0] * 8 + [0.0]}, "9 positive numbers"),
        ({"costs": [1.0] * 8 + [float("nan")]}, "9 positive numbers"),
        ({"method": "exact", "budget": 256, "prior": "fixed"}, "of none"),
        ({"method": "pmcshap", "n_fits": 1}, "at least 2"),
        ({"method": "mcshap", "pool_share": 1.0}, "between 0 and 1"),
        ({"method": "pmcshap", "released": True, "budget": 2}, "at least 4"),
        ({"target_standard_error": 0}, "above 0"),
        ({"settle": 1.0}, "between 0.5 and 1"),
        ({"settle": 0.9, "ranking": [0, 1]}, "each player"),
        ({"settle": 0.9, "ranking": [float(player) for player in range(8)]}, "each player"),
        ({"settle": 0.9, "ranking": [False, True, *range(2, 8)]}, "each player"),
        ({"settle": 0.9, "ranking": [*range(7), "7"]}, "each player"),
        ({"settle": 0.9, "ranking": 3}, "each player"),
        ({"settle": "0.9"}, "between 0.5 and 1"),
        ({"target_standard_error": "0.1"}, "above 0"),
        ({"seed": None}, "at least 0"),
        ({"method": ["gp"]}, "exact, kernelshap"),
        ({"method": "mcshap", "pool_share": "most"}, "between 0 and 1"),
        ({"method": "kernelshap", "paired": "no"}, "True or False"),
        ({"method": "pmcshap", "released": "no"}, "True or False"),
        ({"costs": "123456789"}, "real numbers"),
        ({"costs": [None] * 9}, "9 positive numbers"),
        ({"continue_from": "log"}, "continue_from 'str' is not usable; give the attribute `log`"),
    ],
)
def test_unusable_arguments(arguments: dict[str, object], message: str) -> None:
    """Each is an error that says what to give instead."""
    with pytest.raises(ConfigurationError, match=message):
        shapley_values(table_game(random_table(8)), 8, **({"budget": 40} | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_players_are_counted_in_any_integer(kind: Any) -> None:
    """Also in NumPy's small ones, in which 2^k overflows."""
    table = random_table(8)
    every: list[dict[str, Any]] = [{}, {"budget": kind(40)}, {"method": "exact"}, {"target_standard_error": 0.1}]
    for options in every:
        usual = shapley_values(table_game(table), 8, **options)
        again = shapley_values(table_game(table), kind(8), **options)
        assert (again.n_evaluations, again.method) == (usual.n_evaluations, usual.method)
        assert np.array_equal(again.values, usual.values)
    assert default_budget(kind(20)) == 160


@pytest.mark.parametrize("n_players", [-1, 31, 8.0, True, "8", None])
def test_unusable_players(n_players: int) -> None:
    """The default budget knows them as little as the estimate."""
    for function in (default_budget, lambda k: shapley_values(table_game(random_table(8)), k)):
        with pytest.raises(AttributionError, match="give an integer from 0 to 30"):
            function(n_players)


def test_only_relative_costs_count() -> None:
    """Also of the largest numbers there are."""
    values = [
        shapley_values(table_game(random_table(8)), 8, budget=60, costs=[unit] * 8 + [2 * unit]).values
        for unit in (1.0, 2.0**-1000, 2.0**1022)
    ]
    assert np.array_equal(values[0], values[1])
    assert np.array_equal(values[0], values[2])


def test_too_many_coalitions() -> None:
    """2^k values of more than twenty players are refused; the game is not asked."""
    game = CountedGame(lambda coalitions: np.zeros((len(coalitions), 1)))
    with pytest.raises(AttributionError, match="at most 20 players"):
        shapley_values(game, 21, method="exact")
    assert not game.calls


def test_log_of_another_game() -> None:
    """A log with another number of players is an error."""
    with pytest.raises(AttributionError, match="its own log"):
        shapley_values(table_game(random_table(3)), 3, continue_from=CoalitionLog(4))


def test_methods_are_those_of_the_contract() -> None:
    """Beside "exact" and "auto"."""
    assert set(METHODS) == {"kernelshap", "mcshap", "pmcshap", "permutation", "gp"}


@pytest.mark.skipif(not TABLES.exists(), reason="the value tables of a language model are not here")
def test_language_model_games() -> None:
    """On a language model's tables, half of the budget of PMCSHAP gives the default a smaller error."""
    with np.load(TABLES) as held:
        games = [held[f"t{at}"].astype(float) for at in range(15)]
    errors = {"auto": 0.0, "pmcshap": 0.0}
    for table in games:
        truth = shapley_values(table_game(table), 8, method="exact").values
        for method, budget in (("auto", 32), ("pmcshap", 64)):
            errors[method] += (
                (shapley_values(table_game(table), 8, method=method, budget=budget).values - truth) ** 2
            ).mean()
    assert errors["auto"] < errors["pmcshap"]


@pytest.mark.parametrize("name", SAMPLING)
def test_a_complete_log_serves_every_method(name: str) -> None:
    """Within a budget each method gives what it would have given by itself; with all of the log, exact values."""
    table = random_table(6)
    log = shapley_values(table_game(table), 6, method="exact").log
    own = shapley_values(table_game(table), 6, budget=30, seed=2, **ESTIMATORS[name])
    found = known_values(log, budget=30, seed=2, **ESTIMATORS[name])
    assert np.array_equal(found.values, own.values)
    assert np.array_equal(found.covariance, own.covariance)
    assert known_values(log, **ESTIMATORS[name]).exact


def test_another_methods_coalitions_are_read_as_they_are() -> None:
    """Pairs that one method chose, another fits: exact for an additive game; what cannot read them says so."""
    worth = np.arange(8.0)
    log = shapley_values(lambda coalitions: (coalitions @ worth)[:, None], 8, budget=40).log
    for name in ("pmcshap", "kernelshap", "mcshap", "gp"):
        found = known_values(log, method=name)
        assert np.allclose(found.scores, worth, atol=1e-6), name
        assert found.n_evaluations == 40
    with pytest.raises(AttributionError, match="no whole orders"):
        known_values(log, method="permutation")
    with pytest.raises(AttributionError, match="exact values need all 256"):
        known_values(log, method="exact")


def test_pairs_are_found_wherever_they_stand_in_a_log() -> None:
    """A log that several methods wrote gives paired methods its pairs, in any order, and nothing else."""
    table, random = random_table(6), np.random.default_rng(0)
    log = shapley_values(table_game(table), 6, budget=20, method="gp").log
    codes = random.permutation(20)
    mixed = CoalitionLog(6, log.coalitions[codes], log.values[codes])
    single = ~np.eye(6, dtype=bool)[:1] & np.array([1, 1, 1, 0, 0, 0], dtype=bool)
    mixed.evaluate(table_game(table), single)
    again = known_values(mixed, method="pmcshap", n_fits=400)
    assert again.n_evaluations in (20, 21, 22)
    assert np.allclose(again.scores, known_values(log, method="pmcshap", n_fits=400).scores, atol=0.1)
    assert np.allclose(again.values.sum(axis=0), log.values[0] - log.values[1], atol=1e-9)


def test_a_method_is_written_as_a_text() -> None:
    """With its settings, and read back; what a result rests on names the defaults as well."""
    method = Method.parse("pmcshap:n_fits=50+released=true")
    assert method.options == {"n_fits": 50, "released": True}
    assert Method.parse(str(method)) == method
    found = Method.parse("mcshap:pool_share=0.5").values(table_game(random_table(7)), 7, budget=40)
    assert found.method == "mcshap"
    assert Method.parse("mcshap:pool_share=0.5").settings(found) == {"n_fits": 200, "pool_share": 0.5}


@pytest.mark.parametrize("text", ["shap", "gp:prior", "gp:prior=flat", "exact:n_fits=3", "pmcshap:paired=true"])
def test_a_method_that_is_none_is_refused(text: str) -> None:
    """By name, by form, by a setting that it does not have, or by its value."""
    with pytest.raises(ConfigurationError):
        Method.parse(text)
