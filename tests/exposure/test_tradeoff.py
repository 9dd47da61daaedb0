"""Curves over disparity, and paired tests by interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from ragtrace.errors import ConfigurationError
from ragtrace.exposure import disparity_curve, interval_differences


def test_slope_and_area_of_a_line() -> None:
    """A line's slope is its own, its area its height in the middle, at any spacing and order."""
    x = np.array([0.9, 0.1, 0.4])
    found = disparity_curve(x, 0.2 + 0.5 * x)
    assert (found.slope, found.area) == pytest.approx((0.5, 0.45), abs=1e-12)


def test_slope_of_points_is_that_of_least_squares() -> None:
    """As a library finds it; points of one disparity are averaged for the area."""
    x, y = [0.0, 0.0, 0.5, 1.0], [0.1, 0.3, 0.8, 0.4]
    found = disparity_curve(x, y)
    assert found.slope == pytest.approx(stats.linregress(x, y).slope, abs=1e-12)
    assert found.area == pytest.approx((0.2 + 0.8) / 4 + (0.8 + 0.4) / 4, abs=1e-12)


def test_points_of_one_disparity_have_no_curve() -> None:
    """None, and the reason."""
    found = disparity_curve([0.5, 0.5], [0.1, 0.2])
    assert (found.slope, found.area) == (None, None)
    assert "0.5" in str(found.reason)


def test_an_interval_that_is_better_is_found() -> None:
    """Each request against itself; intervals without requests have no figures and do not count in Holm's correction."""
    chance = np.random.default_rng(5)
    fixed = chance.uniform(0, 1, 60)
    disparities = np.tile([0.1, 0.5, 1.0], (60, 1))
    utilities = np.stack([fixed - 0.2, fixed + chance.normal(0, 0.1, 60), fixed], axis=1)
    utilities[0, 0] = np.nan
    found = interval_differences(disparities, utilities, fixed, seed=0)
    assert [each.requests for each in found] == [59, 0, 60, 0, 60]
    worse, none, noise, _, equal = found
    assert worse.difference == pytest.approx(-0.2)
    assert none.difference is None
    assert none.adjusted is None
    assert worse.adjusted == pytest.approx(3 * 1e-4)
    assert worse.high_end is not None
    assert worse.high_end < 0
    assert noise.low_end is not None
    assert noise.high_end is not None
    assert noise.low_end < noise.difference < noise.high_end  # type: ignore[operator]
    assert (equal.difference, equal.p_value, equal.adjusted) == (0, 1, 1)


def test_few_requests_are_tested_exactly() -> None:
    """Of the 16 signs of four equal gains two are as extreme."""
    found = interval_differences(np.full((4, 1), 0.3), np.ones((4, 1)), np.zeros(4), seed=0)
    assert found[1].p_value == pytest.approx(2 / 16)


def test_flipped_signs_are_right_under_no_difference() -> None:
    """The p-value is below 0.05 in about 5 % of 400 services without a difference."""
    chance = np.random.default_rng(2)
    below = [
        interval_differences(np.full((10, 1), 0.1), chance.normal(size=(10, 1)), np.zeros(10), seed=1)[0].p_value
        for _ in range(400)
    ]
    assert 0.02 < np.mean(np.array(below) <= 0.05) < 0.085


def test_shapes_that_do_not_fit_are_refused() -> None:
    """A row for each request, and finite points."""
    with pytest.raises(ConfigurationError):
        interval_differences(np.zeros((2, 2)), np.zeros((2, 3)), np.zeros(2), seed=0)
    with pytest.raises(ConfigurationError):
        disparity_curve([0.1, np.nan], [1, 2])
