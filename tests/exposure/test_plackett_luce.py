"""The Plackett–Luce distribution, against every ranking of few items."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ragtrace.errors import ConfigurationError
from ragtrace.exposure import (
    inclusion_probabilities,
    log_probability,
    plackett_luce_logits,
    sample_rankings,
    seed_of,
)

SCORES = [0.9, 0.2, 0.55, 0.2, -0.4]
scores = st.lists(st.floats(-50, 50), min_size=1, max_size=5)
alphas = st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0, 8.0])


def by_definition(ranking: tuple[int, ...], values: list[float], alpha: float) -> float:
    """Π exp(l_i) / Σ exp(l_j) over what is left, with l = (1 + minmax)^alpha, term by term."""
    low, high = min(values), max(values)
    rates = [np.exp((1 + ((value - low) / (high - low) if high > low else 0.0)) ** alpha) for value in values]
    left, found = set(range(len(values))), 1.0
    for item in ranking:
        found *= rates[item] / sum(rates[other] for other in left)
        left.remove(item)
    return float(found)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_probabilities_are_those_of_the_definition(alpha: float, k: int) -> None:
    """Of every prefix of k places; together they are 1."""
    prefixes = list(permutations(range(len(SCORES)), k))
    found = np.exp([log_probability(each, SCORES, alpha) for each in prefixes])
    assert found == pytest.approx([by_definition(each, SCORES, alpha) for each in prefixes], abs=1e-12)
    assert found.sum() == pytest.approx(1, abs=1e-12)


@given(scores, alphas, st.integers(1, 5))
@settings(max_examples=40)
def test_inclusion_is_the_sum_over_all_rankings(values: list[float], alpha: float, k: int) -> None:
    """An item's chance to be among the first k is the mass of the rankings that have it there."""
    expected = np.zeros(len(values))
    for ranking in permutations(range(len(values)), min(k, len(values))):
        expected[list(ranking)] += np.exp(log_probability(ranking, values, alpha))
    assert inclusion_probabilities(values, alpha, k) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0, 4.0])
def test_draws_have_these_probabilities(alpha: float) -> None:
    """First place and the first three, within 4 standard errors of 200,000 draws."""
    drawn = sample_rankings(SCORES, alpha, seed=7, count=200_000, k=3)
    for k in (1, 3):
        expected = inclusion_probabilities(SCORES, alpha, k)
        seen = np.bincount(drawn[:, :k].ravel(), minlength=len(SCORES)) / len(drawn)
        error = np.sqrt(expected * (1 - expected) / len(drawn))
        assert np.all(np.abs(seen - expected) <= 4 * error + 1e-12)


def test_no_alpha_is_uniform() -> None:
    """At 0 each item is in each place alike."""
    assert inclusion_probabilities(SCORES, 0, 2) == pytest.approx(np.full(5, 0.4), abs=1e-12)


@pytest.mark.parametrize("alpha", [1000.0, np.inf])
def test_a_large_alpha_is_the_order_of_the_scores_with_ties_by_chance(alpha: float) -> None:
    """Items of one score take each other's place in half of the draws, and no other order is ever drawn."""
    drawn = sample_rankings(SCORES, alpha, seed=1, count=20_000)
    orders, counts = np.unique(drawn, axis=0, return_counts=True)
    assert orders.tolist() == [[0, 2, 1, 3, 4], [0, 2, 3, 1, 4]]
    assert abs(counts[0] - 10_000) < 4 * np.sqrt(5_000)
    assert np.exp(log_probability([0, 2, 1, 3, 4], SCORES, alpha)) == pytest.approx(0.5)
    assert log_probability([2, 0, 1, 3, 4], SCORES, alpha) < -1e100
    assert inclusion_probabilities(SCORES, alpha, 3) == pytest.approx([1, 0.5, 1, 0.5, 0])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(1, 5))
@settings(max_examples=40)
def test_an_infinite_alpha_shares_places_among_ties(values: list[int], k: int) -> None:
    """Exactly: every order of the scores is as likely as another that breaks ties otherwise; all else is impossible."""
    sorted_ones = [
        each for each in permutations(range(len(values))) if all(values[a] >= values[b] for a, b in pairwise(each))
    ]
    expected = [sum(item in each[:k] for each in sorted_ones) / len(sorted_ones) for item in range(len(values))]
    assert inclusion_probabilities(values, np.inf, k) == pytest.approx(expected, abs=1e-9)
    chances = np.exp([log_probability(each, values, np.inf) for each in permutations(range(len(values)))])
    assert sorted(chances.tolist())[-len(sorted_ones) :] == pytest.approx([1 / len(sorted_ones)] * len(sorted_ones))
    assert chances.sum() == pytest.approx(1, abs=1e-9)


def test_equal_scores_are_uniform_at_any_alpha() -> None:
    """Minmax of equal scores divides by nothing."""
    assert plackett_luce_logits([3.0, 3.0, 3.0], 8).tolist() == [1, 1, 1]
    assert inclusion_probabilities([3.0, 3.0, 3.0], 8, 2) == pytest.approx(np.full(3, 2 / 3))


def test_many_items_with_far_apart_logits() -> None:
    """Probabilities of 60 items at alpha 8 sum to k, fall with the score, and agree with draws."""
    values = np.linspace(0, 1, 60)
    found = inclusion_probabilities(values, 8, 5)
    assert found.sum() == pytest.approx(5, abs=1e-9)
    assert np.all(np.diff(found) >= -1e-12)
    seen = np.bincount(sample_rankings(values, 8, seed=3, count=20_000, k=5).ravel(), minlength=60) / 20_000
    assert np.abs(seen - found).max() < 4 * np.sqrt(0.25 / 20_000)


def test_a_request_gets_the_same_ranking_again() -> None:
    """The seed is the request's id."""
    first, again, other = (sample_rankings(SCORES, 1, seed=seed_of(name), count=3).tolist() for name in ("a", "a", "b"))
    assert first == again != other


def test_scores_of_the_whole_range_of_numbers() -> None:
    """Their difference is no number, their order is."""
    assert plackett_luce_logits([-1.7e308, 0.0, 1.7e308], 1).tolist() == [1, 1.5, 2]


@pytest.mark.parametrize("alpha", [-1, np.nan, 1001, "1", True])
def test_an_alpha_out_of_range_is_refused(alpha: object) -> None:
    """With the value and what is allowed."""
    with pytest.raises(ConfigurationError, match="alpha"):
        plackett_luce_logits(SCORES, alpha)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [[], [[1.0]], [1.0, np.inf], ["a"]])
def test_scores_that_are_none_are_refused(values: list[object]) -> None:
    """Empty, not a row, not finite, no numbers."""
    with pytest.raises(ConfigurationError):
        plackett_luce_logits(values, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("ranking", [[0, 0], [5], [-1], [1.0]])
def test_a_ranking_of_other_items_is_refused(ranking: list[int]) -> None:
    """A position that is not there, or twice."""
    with pytest.raises(ConfigurationError):
        log_probability(ranking, SCORES, 1)


@pytest.mark.parametrize("arguments", [{"k": 0}, {"count": 0}, {"seed": -1}])
def test_counts_out_of_range_are_refused(arguments: dict[str, int]) -> None:
    """Of places, draws and seeds."""
    with pytest.raises(ConfigurationError):
        sample_rankings(SCORES, 1, **{"seed": 0, **arguments})
