"""BCa bounds against SciPy's, and the bounds of what a small sample has not shown."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from ragtrace.gate.statistics.bootstrap import Replicates, resample
from ragtrace.gate.statistics.samples import Floats, Sample, Side, side_of


def plain(values: Floats, weights: Floats | None = None, clusters: Floats | None = None) -> Side:
    """A side of one metric."""
    numbers = None if clusters is None else clusters.astype(np.int64)
    return side_of([values], np.ones(len(values)) if weights is None else weights, numbers)


def replicates(sample: Sample, worst: float = -np.inf, count: int = 20_000) -> Replicates:
    """With a seed."""
    return resample(sample, count, [np.array([worst])] * len(sample.sides), np.random.default_rng(1))


def test_bounds_of_pairs_agree_with_scipy() -> None:
    """A skewed column, both ends."""
    values = np.random.default_rng(2).exponential(1, 80) - 1
    found = replicates(Sample((plain(values),), (1,)))
    expected = stats.bootstrap(
        (values,), np.mean, confidence_level=0.9, method="BCa", n_resamples=20_000, rng=np.random.default_rng(3)
    ).confidence_interval
    assert found.low(0.05)[0] == pytest.approx(expected.low, abs=0.01)
    assert found.high(0.05)[0] == pytest.approx(expected.high, abs=0.02)


def test_bounds_of_two_samples_agree_with_scipy() -> None:
    """Sizes that differ, both skewed."""
    chance = np.random.default_rng(4)
    candidate, baseline = chance.exponential(1, 50), chance.exponential(1, 120)
    found = replicates(Sample((plain(candidate), plain(baseline)), (1, -1)))

    def gap(one: Floats, two: Floats, axis: int = -1) -> Floats:
        return np.asarray(one.mean(axis=axis) - two.mean(axis=axis))

    expected = stats.bootstrap(
        (candidate, baseline), gap, confidence_level=0.9, method="BCa", n_resamples=20_000, rng=np.random.default_rng(5)
    ).confidence_interval
    assert found.low(0.05)[0] == pytest.approx(expected.low, abs=0.015)
    assert found.high(0.05)[0] == pytest.approx(expected.high, abs=0.02)


def test_a_large_side_is_as_good_as_normal() -> None:
    """Fifty against five thousand, which are not resampled."""
    chance = np.random.default_rng(14)
    candidate, baseline = chance.exponential(1, 50), chance.exponential(1, 5000)
    found = replicates(Sample((plain(candidate), plain(baseline)), (1, -1)))
    expected = stats.bootstrap(
        (candidate,), np.mean, confidence_level=0.9, method="BCa", n_resamples=20_000, rng=np.random.default_rng(5)
    ).confidence_interval
    assert found.low(0.05)[0] == pytest.approx(expected.low - baseline.mean(), abs=0.015)
    assert found.high(0.05)[0] == pytest.approx(expected.high - baseline.mean(), abs=0.02)


def test_p_value_agrees_with_the_bound() -> None:
    """At the bound of confidence 1 - alpha the p-value is alpha."""
    found = replicates(Sample((plain(np.random.default_rng(6).beta(5, 1, 60) - 0.8),), (1,)), worst=-1.0)
    for alpha in (0.01, 0.05, 0.2):
        assert found.at_most(found.low(alpha))[0] == pytest.approx(alpha, abs=0.002)


@pytest.mark.parametrize("n", [1, 30, 59])
def test_what_never_differed_may_still_differ(n: int) -> None:
    """n pairs without a change bound an all-or-nothing loss as exact binomial limits do: 1 - 0.05^(1/n)."""
    found = replicates(Sample((plain(np.zeros(n)),), (1,)), worst=-1.0)
    assert -found.low(0.05)[0] == pytest.approx(1 - 0.05 ** (1 / n), abs=1e-3)
    assert found.high(0.05)[0] == 0.0


def test_clusters_are_resampled_whole() -> None:
    """Ten copies of each value have the interval of one."""
    values = np.random.default_rng(7).normal(0, 1, 40)
    once = replicates(Sample((plain(values),), (1,)))
    copied = replicates(Sample((plain(np.repeat(values, 10), clusters=np.repeat(np.arange(40), 10)),), (1,)))
    assert copied.low(0.05)[0] == pytest.approx(once.low(0.05)[0], abs=0.01)


def test_weights_make_hajek_means() -> None:
    """A request of weight 3 counts as three; the interval is wider than that of three requests."""
    values = np.random.default_rng(8).normal(0, 1, 60)
    weights = np.where(np.arange(60) < 20, 3.0, 1.0)
    weighted = Sample((plain(values, weights),), (1,))
    copies = Sample((plain(np.repeat(values, weights.astype(int))),), (1,))
    assert weighted.values[0] == pytest.approx(copies.values[0])
    assert replicates(weighted).low(0.05)[0] < replicates(copies).low(0.05)[0]


def test_student_is_cluster_robust_and_welch() -> None:
    """Standard errors and degrees of freedom are SciPy's where requests stand alone."""
    chance = np.random.default_rng(9)
    candidate, baseline = chance.normal(0, 1, 30), chance.normal(0, 2, 50)
    student = Sample((plain(candidate), plain(baseline)), (1, -1)).student
    expected = stats.ttest_ind(candidate, baseline, equal_var=False)
    assert student.values[0] / student.errors[0] == pytest.approx(expected.statistic)
    assert student.freedom[0] == pytest.approx(expected.df)
    copied = Sample((plain(np.repeat(candidate, 4), clusters=np.repeat(np.arange(30), 4)),), (1,)).student
    assert copied.errors[0] == pytest.approx(stats.sem(candidate))


@pytest.mark.parametrize("good", [0.9, 0.97])
def test_rare_failures_do_not_pass_by_luck(good: float) -> None:
    """30 pairs whose true loss is 0.1, mostly in pairs that lose everything: not shown is not absent."""
    chance = np.random.default_rng(10)
    passes = 0
    for _ in range(400):
        values = np.where(chance.random(30) < 0.1, -1.0, 0.0) + np.where(chance.random(30) < 1 - good, 0.02, 0.0)
        found = resample(Sample((plain(values),), (1,)), 400, [np.array([-1.0])], chance)
        passes += bool(found.at_most(np.array([-0.1]))[0] <= 0.05)
    assert passes / 400 <= 0.07
