"""Intervals of corrected rates hold in simulated services, and normal ones would not."""

from __future__ import annotations

import numpy as np
import pytest

from bench.label_rates import RANGES, simulated


def test_intervals_hold_where_they_shall() -> None:
    """In 93 to 97 % of 2,000 services with true rates of 2 to 50 %; no estimate is biased, be the verdict bad."""
    outcomes = simulated(2_000, *RANGES["2 to 50 %"], seed=20)
    assert 0.93 <= np.mean([each.holds for each in outcomes]) <= 0.97
    for some in (outcomes, [each for each in outcomes if each.is_bad]):
        errors = np.array([each.rate - each.truth for each in some])
        assert len(some) > 100
        assert abs(errors.mean()) < 2.6 * errors.std() / np.sqrt(len(errors))


@pytest.mark.parametrize("name", ["0.2 to 2 %", "50 to 95 %"])
def test_intervals_hold_elsewhere(name: str) -> None:
    """In at least 93 % of 1,000 services."""
    assert np.mean([each.holds for each in simulated(1_000, *RANGES[name], seed=20)]) >= 0.93


def test_normal_intervals_do_not_hold() -> None:
    """At rates below 2 % in far fewer than 93 %: what the interval is built for."""
    outcomes = simulated(300, *RANGES["0.2 to 2 %"], seed=20)
    assert np.mean([each.normal_holds for each in outcomes]) < 0.85
