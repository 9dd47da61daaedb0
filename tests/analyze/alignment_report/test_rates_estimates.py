"""Weighted means over requests with bootstrap intervals."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.analyze.alignment_report._rates import estimated


def test_requests_count_by_the_inverse_of_their_probability() -> None:
    """A request kept with probability 1/3 stands for three."""
    found = estimated([1.0, 0.0], [3.0, 1.0])

    assert found is not None
    assert found.mean == pytest.approx(0.75)
    assert found.requests == 2


def test_the_interval_is_that_of_the_mean() -> None:
    """Near the normal one for many values; the same for the same seed, another for another."""
    values = np.random.default_rng(1).normal(size=400)
    first, again, other = (estimated(values.tolist(), [1.0] * 400, seed) for seed in (0, 0, 1))

    assert first is not None
    assert first.low == pytest.approx(values.mean() - 1.96 * values.std() / 20, abs=0.02)
    assert first.high == pytest.approx(values.mean() + 1.96 * values.std() / 20, abs=0.02)
    assert first == again != other


def test_many_requests_are_resampled_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many resamples are held at once does not change their number or order."""
    values = [float(each % 7) for each in range(50)]
    whole = estimated(values, [1.0] * 50)
    monkeypatch.setattr("ragtrace.analyze.alignment_report._rates._CELLS", 170)

    assert estimated(values, [1.0] * 50) == whole


def test_one_request_has_no_interval_and_none_has_no_mean() -> None:
    """Nothing is made up."""
    one = estimated([0.4], [2.0])

    assert one is not None
    assert (one.mean, one.low, one.high) == (0.4, None, None)
    assert estimated([], []) is None
