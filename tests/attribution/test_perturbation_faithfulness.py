"""Perturbation curves and the area between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrace.attribution import Curves, aipc, aipc_difference, perturbation_curves
from ragtrace.attribution.game import Coalitions, Values
from ragtrace.attribution.perturbation import area_between
from ragtrace.errors import AttributionError, ConfigurationError

WORTH = np.array([4.0, 1.0, 2.0, 0.0])


def additive(coalitions: Coalitions) -> Values:
    """Two tokens that share the worth of the players."""
    return np.stack([coalitions @ WORTH, coalitions @ WORTH * 2], axis=1)


def test_players_leave_in_order() -> None:
    """By descending and by ascending attribution; values are summed over the tokens."""
    curves = perturbation_curves(additive, WORTH)
    np.testing.assert_allclose(curves.morf, np.array([7, 3, 1, 0, 0]) * 3)
    np.testing.assert_allclose(curves.lerf, np.array([7, 7, 6, 4, 0]) * 3)


def test_the_area_by_hand() -> None:
    """The gaps 0, 4, 5, 4, 0 of a range of 7, over four steps."""
    assert area_between(perturbation_curves(additive, WORTH)) == pytest.approx((4 + 5 + 4) / 7 / 4)


@given(st.permutations(range(4)))
def test_the_truth_is_not_beaten(order: list[int]) -> None:
    """No other attribution has more area, the opposite one has it with the other sign, a constant one none."""
    best = area_between(perturbation_curves(additive, WORTH))
    assert area_between(perturbation_curves(additive, np.array(order))) <= best + 1e-12
    assert area_between(perturbation_curves(additive, -WORTH)) == pytest.approx(-best)
    assert area_between(perturbation_curves(additive, np.ones(4))) == 0


def test_a_game_without_effects_has_no_area() -> None:
    """And no division by zero."""
    assert area_between(perturbation_curves(lambda coalitions: np.ones((len(coalitions), 1)), WORTH)) == 0


@pytest.mark.parametrize("level", [-300.0, 1e-12, 0.3])
def test_rounding_has_no_area(level: float) -> None:
    """A value that differs in its last digit alone; one that really differs, at the same level, has an area."""
    flat, off = np.full(3, level), np.array([level, np.float32(level) * (1 + 2e-7), level])
    assert area_between(Curves(flat, off)) == 0
    assert area_between(Curves(flat, flat * [1, 1.1, 1])) == pytest.approx(np.sign(level) / 2)


def test_one_sample_has_no_interval() -> None:
    """Its resamples are all alike: an interval without width would call any difference certain."""
    one = [perturbation_curves(additive, WORTH)]
    for found in (aipc(one), aipc_difference(one, [perturbation_curves(additive, -WORTH)])):
        assert found.mean > 0
        assert np.isnan([found.low, found.high]).all()


def test_the_mean_has_an_interval() -> None:
    """It holds the mean, shrinks with the number of samples, and repeats by seed."""
    rng = np.random.default_rng(0)

    def curves(n: int) -> list[Curves]:
        return [perturbation_curves(additive, WORTH + rng.normal(0, 2, 4)) for _ in range(n)]

    few, many = aipc(curves(8)), aipc(curves(200))
    assert few.low <= few.mean <= few.high
    assert many.high - many.low < few.high - few.low
    assert many.mean == pytest.approx(many.per_sample.mean())
    samples = curves(5)
    assert aipc(samples, seed=3).low == aipc(samples, seed=3).low


def test_a_paired_comparison_sees_small_differences() -> None:
    """Samples differ widely, one method is a little better on each: paired it shows, unpaired it would not."""
    rng = np.random.default_rng(0)
    levels = rng.uniform(0.1, 0.8, 30)

    def curves(area: float) -> Curves:
        return Curves(np.array([1.0, 0.5 - area / 2, 0.0]), np.array([1.0, 0.5 + area / 2, 0.0]))

    better, worse = [curves(level + 0.02) for level in levels], [curves(level) for level in levels]
    difference = aipc_difference(better, worse)
    assert difference.mean == pytest.approx(0.01)
    assert difference.low > 0
    assert aipc(better).low < aipc(worse).high


def test_bad_input() -> None:
    """Nothing to average, attributions that are undefined, unpaired samples."""
    with pytest.raises(AttributionError, match="no samples"):
        aipc([])
    with pytest.raises(AttributionError, match="one finite number for each"):
        perturbation_curves(additive, [1, np.nan, 2, 3])
    with pytest.raises(AttributionError, match="attribution must be an array of real numbers"):
        perturbation_curves(additive, ["1", "2", "3", "4"])
    with pytest.raises(AttributionError, match="a curve must be an array of real numbers"):
        aipc([Curves(np.ones(2) * 1j, np.zeros(2))])  # type: ignore[arg-type]
    for seed in (None, -1):
        with pytest.raises(ConfigurationError, match=r"seed .* is not usable"):
            aipc([Curves(np.arange(2.0), np.zeros(2))] * 2, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(AttributionError, match="the same samples for both"):
        aipc_difference([perturbation_curves(additive, WORTH)], [])
    with pytest.raises(AttributionError, match="two of one length"):
        area_between(Curves(np.zeros(3), np.zeros(4)))
    with pytest.raises(AttributionError, match="a value that is not finite"):
        aipc([Curves(np.array([1, np.nan]), np.zeros(2))])
    with pytest.raises(AttributionError, match=r"give finite \(n, m\)"):
        perturbation_curves(lambda coalitions: np.full((len(coalitions), 1), np.nan), WORTH)


def test_a_game_returns_real_numbers() -> None:
    """Complex ones are refused, not cut to their real part."""
    with pytest.raises(AttributionError, match="the game returns must be an array of real numbers: got complex128"):
        perturbation_curves(lambda coalitions: np.asarray(additive(coalitions) * 1j), WORTH)
