"""The sparse linear surrogate of a game."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.attribution import sparse_surrogate
from ragtrace.attribution._sampling import answer_logits
from ragtrace.attribution.game import Coalitions, Values
from ragtrace.errors import AttributionError, ConfigurationError

EFFECTS = np.array([3.0, 0.0, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0])


def linear_in_logits(coalitions: Coalitions) -> Values:
    """Two tokens that share the answer's log-probability, whose logit is linear in two documents."""
    log_probability = -np.log1p(np.exp(-(coalitions @ EFFECTS - 1)))
    return np.stack([log_probability * 0.25, log_probability * 0.75], axis=1)


def test_the_documents_that_matter_are_found() -> None:
    """Without a penalty the linear logit is met exactly, with one the others get exactly nothing."""
    exact = sparse_surrogate(linear_in_logits, 8, budget=40, penalty=0)
    np.testing.assert_allclose(exact.values, EFFECTS, atol=1e-6)
    assert exact.intercept == pytest.approx(-1, abs=1e-6)
    assert exact.fit == pytest.approx(1)
    assert exact.n_evaluations == 40
    sparse = sparse_surrogate(linear_in_logits, 8, budget=40, penalty=0.1)
    assert set(np.flatnonzero(sparse.values)) == {0, 3}
    assert 0 < sparse.values[0] < 3
    assert -2 < sparse.values[3] < 0


def test_the_solution_is_the_lasso_optimum() -> None:
    """Its gradient is the penalty where a weight moves, and no more where it does not."""
    rng = np.random.default_rng(1)
    table = rng.normal(-3, 1, size=(64, 3))
    rows = (np.arange(64)[:, None] >> np.arange(6)) & 1
    found = sparse_surrogate(lambda coalitions: table[coalitions @ (1 << np.arange(6))], 6, budget=64, penalty=0.05)
    x = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    target = answer_logits(table) / 3
    weights = found.values / 3 * rows.std(axis=0)
    pull = x.T @ (target - target.mean() - x @ weights) / 64
    moved = weights != 0
    assert moved.any()
    np.testing.assert_allclose(pull[moved], 0.05 * np.sign(weights[moved]), atol=1e-8)
    assert (np.abs(pull[~moved]) <= 0.05 + 1e-8).all()


def test_coalitions_are_distinct_and_seeded() -> None:
    """Empty and full are among them, a budget of all of them is all of them, a seed repeats the run."""
    seen: list[Coalitions] = []

    def noted(coalitions: Coalitions) -> Values:
        seen.append(coalitions)
        return linear_in_logits(coalitions)

    first = sparse_surrogate(noted, 8, budget=20, seed=5)
    assert len(np.unique(seen[0], axis=0)) == 20
    assert {0, 8} <= set(seen[0].sum(axis=1).tolist())
    np.testing.assert_array_equal(first.values, sparse_surrogate(linear_in_logits, 8, budget=20, seed=5).values)
    assert sparse_surrogate(linear_in_logits, 8, budget=1000).n_evaluations == 256


def test_players_are_counted_in_any_integer() -> None:
    """Also in NumPy's small ones, in which 2^k overflows."""
    for n_players in (np.int8(8), np.uint8(8)):
        assert sparse_surrogate(linear_in_logits, n_players, budget=40).n_evaluations == 40  # type: ignore[arg-type]
        assert sparse_surrogate(linear_in_logits, n_players, budget=1000).n_evaluations == 256  # type: ignore[arg-type]


def test_logits_stay_finite() -> None:
    """Of a certain answer, and of one that is next to impossible."""
    logits = answer_logits(np.array([[0.0, 0.0], [-1000.0, -1000.0], [np.log(0.5), 0.0]]))
    assert np.isfinite(logits).all()
    assert logits[1] == pytest.approx(-2000)
    assert logits[2] == pytest.approx(0)


def test_what_is_no_log_probability() -> None:
    """A certain answer may be off by rounding; probabilities in place of their logarithms are refused."""
    assert np.isfinite(answer_logits(np.array([[1e-3, -1e-4]]))).all()
    with pytest.raises(AttributionError, match=r"sum to 1.4; give log-probabilities, below 0"):
        sparse_surrogate(lambda coalitions: 0.7 * np.ones((len(coalitions), 2)), 4)


def test_a_constant_game_has_no_effects() -> None:
    """And a fit that is not undefined."""
    found = sparse_surrogate(lambda coalitions: np.full((len(coalitions), 1), -1.0), 3)
    np.testing.assert_array_equal(found.values, 0)
    assert found.fit == 1


def test_bad_input() -> None:
    """A budget without the empty and full coalition, a negative penalty, values that are not finite."""
    with pytest.raises(AttributionError, match="budget 1"):
        sparse_surrogate(linear_in_logits, 8, budget=1)
    for budget in (2.5, "64", None, True):
        with pytest.raises(AttributionError, match="give an integer of at least 2"):
            sparse_surrogate(linear_in_logits, 8, budget=budget)  # type: ignore[arg-type]
    for penalty in (-1, float("nan"), "0.1", None):
        with pytest.raises(AttributionError, match=f"penalty {penalty!r}"):
            sparse_surrogate(linear_in_logits, 8, penalty=penalty)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="seed None is not usable"):
        sparse_surrogate(linear_in_logits, 8, seed=None)  # type: ignore[arg-type]
    with pytest.raises(AttributionError, match="must be finite"):
        sparse_surrogate(lambda coalitions: np.full((len(coalitions), 1), np.nan), 3)
