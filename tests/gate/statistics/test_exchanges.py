"""p-values by exchanging labels, against all exchanges and against SciPy's permutation test."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from ragtrace.gate.statistics.exchanges import LIMIT, exchange_p_values
from ragtrace.gate.statistics.samples import Floats, Sample, Side, side_of


def plain(*columns: Floats) -> Side:
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
    found = p_values(Sample((plain(skewed, even),), (1,)))
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
    found = p_values(Sample((plain(candidate), plain(baseline)), (1, -1)))[0]
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
    low, high = p_values(Sample((plain(lost, same),), (1,)), draws)
    assert low == pytest.approx(1 / (draws + 1))
    assert high == 1.0


def test_one_request_proves_nothing() -> None:
    """A single pair that got worse is as likely as not; so are single requests."""
    assert p_values(Sample((plain(np.array([-1.0])),), (1,)))[0] >= 0.4
    one, two = plain(np.array([0.0])), plain(np.array([1.0]))
    assert p_values(Sample((one, two), (1, -1)))[0] >= 0.4


def test_early_end_keeps_the_size() -> None:
    """Among 2,000 columns of equal pairs, p-values up to 0.05 and 0.2 are as frequent as they say."""
    chance = np.random.default_rng(9)
    columns = [np.where(chance.random(40) < 0.5, 0.0, chance.choice([-1.0, -0.5, 0.5, 1.0], 40)) for _ in range(2000)]
    found = p_values(Sample((plain(*columns),), (1,)), 3000)
    for level in (0.01, 0.05, 0.2):
        allowed = stats.binom.ppf(0.999, 2000, level) / 2000
        assert float((found <= level).mean()) <= allowed


def test_studentized_deals_keep_the_size_when_the_sides_differ() -> None:
    """Equal means, unequal spread and size: what an exchange of plain differences would get wrong."""
    chance = np.random.default_rng(11)
    hits = 0
    for _ in range(300):
        candidate, baseline = chance.normal(0, 3, (40, 4)), chance.normal(0, 1, (160, 4))
        sides = (plain(*candidate.T), plain(*baseline.T))
        hits += int((p_values(Sample(sides, (1, -1)), 400) <= 0.05).sum())
    assert hits / 1200 < 0.075


def test_a_far_larger_side_is_thinned() -> None:
    """The p-value of thirty against a hundred thousand is still that of thirty."""
    chance = np.random.default_rng(13)
    candidate, baseline = chance.normal(-0.45, 1, 30), chance.normal(0, 1, 20 * LIMIT)
    found = p_values(Sample((plain(candidate), plain(baseline)), (1, -1)), 2000)[0]
    expected = stats.ttest_ind(candidate, baseline, equal_var=False, alternative="less").pvalue
    assert found == pytest.approx(expected, rel=0.6)
