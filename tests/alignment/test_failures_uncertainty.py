"""Flags and WARG from draws of the documents' shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from ragtrace.alignment import (
    expected_warg_change,
    flag_probabilities,
    noise_distraction,
    normal_draws,
    rank_by_score,
    warg,
    wasted_retrieval,
)
from ragtrace.errors import ConfigurationError

matrices = arrays(np.float64, (5, 6), elements=st.integers(-3, 3).map(float))


@given(matrices)
def test_probabilities_are_shares_of_draws(draws: np.ndarray) -> None:
    """Each draw is ranked as an estimate would be, ties included."""
    documents = list("abcdef")
    orders = [rank_by_score(documents, draw).documents for draw in draws]
    found = flag_probabilities(draws)
    assert found is not None
    assert found.wasted_retrieval == pytest.approx(np.mean([wasted_retrieval(documents, order) for order in orders]))
    assert found.noise_distraction == pytest.approx(np.mean([noise_distraction(documents, order) for order in orders]))


@given(matrices, st.floats(0.2, 0.95))
def test_expected_change_is_a_mean_over_draws(draws: np.ndarray, p: float) -> None:
    """Against WARG of each draw, one by one."""
    documents, estimate = list("abcdef"), draws[0]
    base = warg(documents, rank_by_score(documents, estimate).documents, p)
    changes = [abs(warg(documents, rank_by_score(documents, draw).documents, p) - base) for draw in draws]
    assert expected_warg_change(estimate, draws, p) == pytest.approx(np.mean(changes), abs=1e-12)


def test_a_sure_estimate_has_sure_flags() -> None:
    """Without an error every draw is the estimate."""
    values = [0.0, 1.0, 2.0, 3.0]
    draws = normal_draws(values, [0.0] * 4)
    found = flag_probabilities(draws)
    assert found is not None
    assert (found.wasted_retrieval, found.noise_distraction) == (1.0, 1.0)
    assert expected_warg_change(values, draws) == 0


def test_an_unsure_estimate_has_unsure_flags() -> None:
    """Equal values with an equal error: each order is as likely, so each flag has its chance of 1/4."""
    draws = normal_draws([0.0] * 4, [1.0] * 4, n_draws=20_000)
    found = flag_probabilities(draws)
    assert found is not None
    assert found.wasted_retrieval == pytest.approx(0.25, abs=0.02)
    assert found.noise_distraction == pytest.approx(0.25, abs=0.02)


def test_draws_have_the_covariance_that_was_given() -> None:
    """Correlated errors stay correlated, and a seed gives the same draws."""
    covariance = np.array([[1.0, -0.9, 0.0], [-0.9, 1.0, 0.0], [0.0, 0.0, 0.0]])
    draws = normal_draws([1, 2, 3], covariance, n_draws=20_000, seed=3)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.05)
    np.testing.assert_array_equal(draws, normal_draws([1, 2, 3], covariance, n_draws=20_000, seed=3))


def test_too_few_documents() -> None:
    """With k <= 3 the flags are undefined, and so is their probability."""
    assert flag_probabilities(np.zeros((4, 3))) is None


def test_bad_input() -> None:
    """Shapes that do not fit and errors that are undefined are refused."""
    with pytest.raises(ConfigurationError, match="standard errors or a"):
        normal_draws([1, 2], [1, 2, 3])
    with pytest.raises(ConfigurationError, match="raise the budget"):
        normal_draws([1, 2], [np.nan, 1])
    with pytest.raises(ConfigurationError, match="give finite numbers"):
        flag_probabilities([[1, 2, 3, np.inf]])
    with pytest.raises(ConfigurationError, match="do not fit"):
        expected_warg_change([1, 2], [[1, 2, 3]])
    with pytest.raises(ConfigurationError, match=r"values \(2, 1\) and draws"):
        expected_warg_change([[1], [2]], [[1, 2]])
    with pytest.raises(ConfigurationError, match="draws must be an array of real numbers"):
        flag_probabilities([["a", "b", "c", "d"]])


@pytest.mark.parametrize("n_draws", [0, 2.5, "3", True, None])
def test_the_number_of_draws(n_draws: int) -> None:
    """An integer of at least 1."""
    with pytest.raises(ConfigurationError, match=r"n_draws .* is not usable; give an integer of at least 1"):
        normal_draws([1, 2], [1, 1], n_draws=n_draws)


def test_draws_need_a_seed() -> None:
    """None would draw otherwise each time."""
    with pytest.raises(ConfigurationError, match="seed None is not usable"):
        normal_draws([1, 2], [1, 1], seed=None)  # type: ignore[arg-type]
