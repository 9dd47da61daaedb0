"""What another alpha would have shown: unbiased, with intervals that hold, or refused."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.exposure import (
    FEWEST_EFFECTIVE,
    inclusion_probabilities,
    log_probability,
    propensity_weight,
    reweighted_mean,
    sample_rankings,
)

SCORES = np.array([0.9, 0.1, 0.6, 0.3, 0.35, 0.2])
K = 2


@pytest.mark.parametrize(("recorded", "other", "item"), [(1.0, 2.0, 0), (2.0, 1.0, 3), (0.0, 1.5, 3)])
def test_it_is_unbiased_and_its_intervals_hold(recorded: float, other: float, item: int) -> None:
    """2,000 services of 400 requests: the mean is right within 4 errors, the interval holds in 93 to 97 %."""
    services, requests = 2_000, 400
    truth = inclusion_probabilities(SCORES, other, K)
    drawn = sample_rankings(SCORES, recorded, seed=11, count=services * requests, k=K)
    weights_of = {}
    for ranking in np.unique(drawn, axis=0):
        log = log_probability(ranking.tolist(), SCORES, recorded)
        weights_of[tuple(ranking)] = propensity_weight(ranking.tolist(), SCORES, other, log)
    weights = np.array([weights_of[tuple(ranking)] for ranking in drawn]).reshape(services, requests)
    shown = (drawn == item).any(axis=1).reshape(services, requests)
    found = [reweighted_mean(shown[service], weights[service]) for service in range(services)]
    values = np.array([each.value for each in found])
    assert abs(values.mean() - truth[item]) < 4 * values.std() / np.sqrt(services)
    held = np.mean([each.low <= truth[item] <= each.high for each in found])
    assert 0.93 <= held <= 0.97


def test_the_same_alpha_weighs_every_request_alike() -> None:
    """Then it is the plain mean, and every request counts."""
    ranking = [2, 0, 1]
    assert propensity_weight(ranking, SCORES, 2, log_probability(ranking, SCORES, 2)) == pytest.approx(1, abs=1e-12)
    found = reweighted_mean([1.0] * 40 + [0.0] * 60, np.ones(100))
    assert (found.value, found.effective) == pytest.approx((0.4, 100))


def test_only_the_first_places_count() -> None:
    """What stands behind them was not read."""
    ranking = [2, 0, 1, 3]
    log = log_probability(ranking[:K], SCORES, 1)
    assert propensity_weight(ranking, SCORES, 3, log, k=K) == propensity_weight(ranking[:K], SCORES, 3, log)


def test_too_few_are_refused_with_their_number() -> None:
    """One request that carries nearly all weight is worth one, however many there are."""
    found = reweighted_mean(np.ones(1000), np.r_[1e6, np.ones(999)])
    assert (found.value, found.low, found.high) == (None, None, None)
    assert found.effective < FEWEST_EFFECTIVE
    assert "1000 requests are worth 1 " in str(found.reason)


def test_nothing_likely_is_nothing() -> None:
    """Where the other alpha never shows what was shown."""
    assert reweighted_mean(np.ones(100), np.zeros(100)).effective == 0


@pytest.mark.parametrize("log", [0.5, np.nan, -np.inf])
def test_what_is_no_log_probability_is_refused(log: float) -> None:
    """Above 0 or not finite: a ranking that was drawn had a chance."""
    with pytest.raises(ConfigurationError, match="log-probability"):
        propensity_weight([0], SCORES, 1, log)


def test_a_probability_of_other_places_is_refused() -> None:
    """A weight that is no number says that the two do not belong together."""
    with pytest.raises(ConfigurationError, match="same number of places"):
        propensity_weight([0], SCORES, 1, -5000.0)


@pytest.mark.parametrize(
    ("values", "weights"), [([], []), ([1.0], [1.0, 1.0]), ([np.nan], [1.0]), ([1.0], [-1.0]), ([1.0], [np.inf])]
)
def test_values_and_weights_out_of_range_are_refused(values: list[float], weights: list[float]) -> None:
    """Other lengths, not finite, below 0."""
    with pytest.raises(ConfigurationError):
        reweighted_mean(values, weights)
