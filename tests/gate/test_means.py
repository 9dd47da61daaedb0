"""Bounds of means by the bootstrap, and exact p-values by exchanging."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from ragtrace.gate._means import (
    EXCHANGE_LIMIT,
    Floats,
    Replicates,
    Sample,
    Side,
    exchange_p_values,
    resample,
    side_of,
)


def one_metric(values: Floats, weights: Floats | None = None, clusters: Floats | None = None) -> Side:
    """A side of one metric."""
    numbers = None if clusters is None else clusters.astype(np.int64)
    return side_of([values], np.ones(len(values)) if weights is None else weights, numbers)


def replicates(sample: Sample, worst: float = -np.inf, count: int = 20_000) -> Replicates:
    """With a seed."""
    return resample(sample, count, [np.array([worst])] * len(sample.sides), np.random.default_rng(1))


def test_bounds_of_pairs_agree_with_scipy() -> None:
    """A skewed column, both ends."""
    values = np.random.default_rng(2).exponential(1, 80) - 1
    found = replicates(Sample((one_metric(values),), (1,)))
    expected = stats.bootstrap(
        (values,), np.mean, confidence_level=0.9, method="BCa", n_resamples=20_000, rng=np.random.default_rng(3)
    ).confidence_interval
    assert found.low(0.05)[0] == pytest.approx(expected.low, abs=0.01)
    assert found.high(0.05)[0] == pytest.approx(expected.high, abs=0.02)


def test_bounds_of_two_samples_agree_with_scipy() -> None:
    """Sizes that differ, both skewed."""
    chance = np.random.default_rng(4)
    candidate, baseline = chance.exponential(1, 50), chance.exponential(1, 120)
    found = replicates(Sample((one_metric(candidate), one_metric(baseline)), (1, -1)))

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
    found = replicates(Sample((one_metric(candidate), one_metric(baseline)), (1, -1)))
    expected = stats.bootstrap(
        (candidate,), np.mean, confidence_level=0.9, method="BCa", n_resamples=20_000, rng=np.random.default_rng(5)
    ).confidence_interval
    assert found.low(0.05)[0] == pytest.approx(expected.low - baseline.mean(), abs=0.015)
    assert found.high(0.05)[0] == pytest.approx(expected.high - baseline.mean(), abs=0.02)


def test_p_value_agrees_with_the_bound() -> None:
    """At the bound of confidence 1 - alpha the p-value is alpha."""
    found = replicates(Sample((one_metric(np.random.default_rng(6).beta(5, 1, 60) - 0.8),), (1,)), worst=-1.0)
    for alpha in (0.01, 0.05, 0.2):
        assert found.at_most(found.low(alpha))[0] == pytest.approx(alpha, abs=0.002)


@pytest.mark.parametrize("n", [1, 30, 59])
def test_what_never_differed_may_still_differ(n: int) -> None:
    """n pairs without a change bound an all-or-nothing loss as exact binomial limits do: 1 - 0.05^(1/n)."""
    found = replicates(Sample((one_metric(np.zeros(n)),), (1,)), worst=-1.0)
    assert -found.low(0.05)[0] == pytest.approx(1 - 0.05 ** (1 / n), abs=1e-3)
    assert found.high(0.05)[0] == 0.0


def test_clusters_are_resampled_whole() -> None:
    """Ten copies of each value have the interval of one."""
    values = np.random.default_rng(7).normal(0, 1, 40)
    once = replicates(Sample((one_metric(values),), (1,)))
    copied = replicates(Sample((one_metric(np.repeat(values, 10), clusters=np.repeat(np.arange(40), 10)),), (1,)))
    assert copied.low(0.05)[0] == pytest.approx(once.low(0.05)[0], abs=0.01)


def test_weights_make_hajek_means() -> None:
    """A request of weight 3 counts as three; the interval is wider than that of three requests."""
    values = np.random.default_rng(8).normal(0, 1, 60)
    weights = np.where(np.arange(60) < 20, 3.0, 1.0)
    weighted = Sample((one_metric(values, weights),), (1,))
    copies = Sample((one_metric(np.repeat(values, weights.astype(int))),), (1,))
    assert weighted.values[0] == pytest.approx(copies.values[0])
    assert replicates(weighted).low(0.05)[0] < replicates(copies).low(0.05)[0]


def test_student_is_cluster_robust_and_welch() -> None:
    """Standard errors and degrees of freedom are SciPy's where requests stand alone."""
    chance = np.random.default_rng(9)
    candidate, baseline = chance.normal(0, 1, 30), chance.normal(0, 2, 50)
    student = Sample((one_metric(candidate), one_metric(baseline)), (1, -1)).student
    expected = stats.ttest_ind(candidate, baseline, equal_var=False)
    assert student.values[0] / student.errors[0] == pytest.approx(expected.statistic)
    assert student.freedom[0] == pytest.approx(expected.df)
    copied = Sample((one_metric(np.repeat(candidate, 4), clusters=np.repeat(np.arange(30), 4)),), (1,)).student
    assert copied.errors[0] == pytest.approx(stats.sem(candidate))


@pytest.mark.parametrize("good", [0.9, 0.97])
def test_rare_failures_do_not_pass_by_luck(good: float) -> None:
    """30 pairs whose true loss is 0.1, mostly in pairs that lose everything: not shown is not absent."""
    chance = np.random.default_rng(10)
    passes = 0
    for _ in range(400):
        values = np.where(chance.random(30) < 0.1, -1.0, 0.0) + np.where(chance.random(30) < 1 - good, 0.02, 0.0)
        found = resample(Sample((one_metric(values),), (1,)), 400, [np.array([-1.0])], chance)
        passes += bool(found.at_most(np.array([-0.1]))[0] <= 0.05)
    assert passes / 400 <= 0.07


def columns_side(*columns: Floats) -> Side:
    """A side of rows that weigh the same."""
    return side_of(list(columns), np.ones(len(columns[0])), None)


def p_values(sample: Sample, draws: int = 20_000, seed: int = 1) -> Floats:
    """With a seed."""
    return exchange_p_values(sample, draws, np.random.default_rng(seed))


def test_flips_agree_with_all_flips() -> None:
    """All 2^12 signs counted out, for a skewed column with ties and one without."""
    chance = np.random.default_rng(3)
    skewed = np.array([0.0, 0, 0, -1, -1, 0.5, -0.25, -0.25, -1, 0, -0.5, -1])
    even = chance.normal(-0.3, 1, 12)
    found = p_values(Sample((columns_side(skewed, even),), (1,)))
    signs = np.array(list(product([-1, 1], repeat=12)))
    for column, p in zip((skewed, even), found, strict=True):
        expected = float((signs @ column <= column.sum() + 1e-12).mean())
        assert p == pytest.approx(expected, rel=0.25, abs=1e-3)


def test_deals_agree_with_scipy() -> None:
    """Welch's t as the statistic of SciPy's permutation test."""
    chance = np.random.default_rng(5)
    candidate, baseline = chance.beta(2, 1, 25), chance.beta(3, 0.5, 60)

    def welch(one: Floats, two: Floats, axis: int = -1) -> Floats:
        return np.asarray(stats.ttest_ind(one, two, axis=axis, equal_var=False).statistic)

    sides, chance = (candidate, baseline), np.random.default_rng(6)
    expected = stats.permutation_test(sides, welch, n_resamples=20_000, alternative="less", rng=chance).pvalue
    found = p_values(Sample((columns_side(candidate), columns_side(baseline)), (1, -1)))[0]
    assert found == pytest.approx(expected, rel=0.25)


def test_clusters_are_exchanged_whole() -> None:
    """Ten copies of each difference say no more than one."""
    once = np.array([-0.2, -0.4, 0.1, -0.5, -0.3, 0.05])
    ten = side_of([np.repeat(once, 10)], np.ones(60), np.repeat(np.arange(6), 10))
    signs = np.array(list(product([-1, 1], repeat=6)))
    expected = float((signs @ once <= once.sum() + 1e-12).mean())
    assert p_values(Sample((ten,), (1,)))[0] == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("draws", [100, 1000, 5000])
def test_p_values_reach_far_and_are_never_zero(draws: int) -> None:
    """Everything lost: one over the draws and one; nothing changed: one."""
    lost, same = np.full(60, -1.0), np.zeros(60)
    low, high = p_values(Sample((columns_side(lost, same),), (1,)), draws)
    assert low == pytest.approx(1 / (draws + 1))
    assert high == 1.0


def test_one_request_proves_nothing() -> None:
    """A single pair that got worse is as likely as not; so are single requests."""
    assert p_values(Sample((columns_side(np.array([-1.0])),), (1,)))[0] >= 0.4
    one, two = columns_side(np.array([0.0])), columns_side(np.array([1.0]))
    assert p_values(Sample((one, two), (1, -1)))[0] >= 0.4


def test_early_end_keeps_the_size() -> None:
    """Among 2,000 columns of equal pairs, p-values up to 0.05 and 0.2 are as frequent as they say."""
    chance = np.random.default_rng(9)
    columns = [np.where(chance.random(40) < 0.5, 0.0, chance.choice([-1.0, -0.5, 0.5, 1.0], 40)) for _ in range(2000)]
    found = p_values(Sample((columns_side(*columns),), (1,)), 3000)
    for level in (0.01, 0.05, 0.2):
        allowed = stats.binom.ppf(0.999, 2000, level) / 2000
        assert float((found <= level).mean()) <= allowed


def test_studentized_deals_keep_the_size_when_the_sides_differ() -> None:
    """Equal means, unequal spread and size: what an exchange of plain differences would get wrong."""
    chance = np.random.default_rng(11)
    hits = 0
    for _ in range(300):
        candidate, baseline = chance.normal(0, 3, (40, 4)), chance.normal(0, 1, (160, 4))
        sides = (columns_side(*candidate.T), columns_side(*baseline.T))
        hits += int((p_values(Sample(sides, (1, -1)), 400) <= 0.05).sum())
    assert hits / 1200 < 0.075


def test_a_far_larger_side_is_thinned() -> None:
    """The p-value of thirty against a hundred thousand is still that of thirty."""
    chance = np.random.default_rng(13)
    candidate, baseline = chance.normal(-0.45, 1, 30), chance.normal(0, 1, 20 * EXCHANGE_LIMIT)
    found = p_values(Sample((columns_side(candidate), columns_side(baseline)), (1, -1)), 2000)[0]
    expected = stats.ttest_ind(candidate, baseline, equal_var=False, alternative="less").pvalue
    assert found == pytest.approx(expected, rel=0.6)
