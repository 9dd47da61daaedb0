"""Shares: mid-p tests and Newcombe's intervals against published values and against counting everything out."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats  # type: ignore[import-untyped]

from ragtrace.gate.statistics._shares import IndependentShares, PairTable, fisher_mid_p, inferiority, mcnemar_mid_p

Z = 1.959964
COUNTS = st.integers(0, 40)


def test_paired_interval_as_published() -> None:
    """Newcombe (1998), table II (a), method 10."""
    assert PairTable(both=36, lost=2, gained=12, neither=0).interval(Z) == pytest.approx((0.0569, 0.3404), abs=1e-4)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_paired_interval_from_wilson_bounds(both: int, lost: int, gained: int, neither: int) -> None:
    """The same method once more, on SciPy's Wilson bounds."""
    table = PairTable(both=both + 1, lost=lost, gained=gained, neither=neither)
    assert table.interval(Z) == pytest.approx(_newcombe(table), abs=1e-6)


def _newcombe(table: PairTable) -> tuple[float, float]:
    """Method 10 once more, from SciPy's Wilson bounds."""
    n = table.pairs
    after, before = table.both + table.gained, table.both + table.lost
    one = stats.binomtest(after, n).proportion_ci(0.95, "wilson")
    two = stats.binomtest(before, n).proportion_ci(0.95, "wilson")
    margins = after * (n - after) * before * (n - before)
    cross = table.both * table.neither - table.lost * table.gained
    phi = 0.0 if margins == 0 else (max(cross - n / 2, 0) if cross > 0 else cross) / margins**0.5
    p, q = after / n, before / n
    down, rise, up, deep = p - one.low, two.high - q, one.high - p, q - two.low
    low = p - q - (down**2 - 2 * phi * down * rise + rise**2) ** 0.5
    return low, p - q + (up**2 - 2 * phi * up * deep + deep**2) ** 0.5


def test_independent_interval_as_published() -> None:
    """Newcombe (1998), table II (a), method 10: 56 of 70 and 48 of 80."""
    assert IndependentShares(56 / 70, 70, 48 / 80, 80).interval(Z) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_mcnemar_as_published() -> None:
    """Fagerland, Lydersen and Laake (2013): 1 against 7 of 21 children has a two-sided mid-p of 0.039."""
    assert 2 * mcnemar_mid_p(7, 1) == pytest.approx(0.039, abs=5e-4)


@given(st.integers(0, 30), st.integers(0, 30))
def test_mcnemar_counts_out(lost: int, gained: int) -> None:
    """More extreme tables count whole, as extreme ones half."""
    n = lost + gained
    expected = sum(comb(n, k) * (0.5 if k == lost else 1.0) for k in range(lost, n + 1)) / 2**n if n else 1.0
    assert mcnemar_mid_p(lost, gained) == pytest.approx(expected)


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_fisher_counts_out(candidate: int, baseline: int, data: st.DataObject) -> None:
    """All tables with the same margins."""
    one, two = data.draw(st.integers(0, candidate)), data.draw(st.integers(0, baseline))
    good = one + two
    possible = range(max(0, good - baseline), min(candidate, good) + 1)
    ways = {k: comb(candidate, k) * comb(baseline, good - k) for k in possible}
    expected = sum(count * (0.5 if k == one else 1.0) for k, count in ways.items() if k <= one) / sum(ways.values())
    expected = 1.0 if good in (0, candidate + baseline) else expected
    assert fisher_mid_p(one, candidate, two, baseline) == pytest.approx(expected)


@pytest.mark.parametrize("changed", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("alpha", [0.05, 0.0015, 0.00035])
def test_mcnemar_keeps_its_size_far_out(changed: float, alpha: float) -> None:
    """Of 100 equal pairs, summed over all outcomes: also at the levels that Holm asks for."""
    size = sum(
        stats.binom.pmf(k, 100, changed) * stats.binom.pmf(lost, k, 0.5)
        for k in range(1, 101)
        for lost in range(k + 1)
        if mcnemar_mid_p(lost, k - lost) <= alpha
    )
    assert size <= alpha * 1.001


@pytest.mark.parametrize(("margin", "gained"), [(0.05, 0.0), (0.05, 0.05), (0.1, 0.02)])
def test_non_inferiority_keeps_its_size(margin: float, gained: float) -> None:
    """60 pairs that lose exactly the margin pass in about 5 % of all outcomes."""
    lost, both, n = margin + gained, 0.9 - margin, 60
    neither = 1 - lost - gained - both
    size = 0.0
    for a, b in product(range(16), range(16)):
        share = stats.multinomial.pmf([a, b, n - a - b], n, [lost, gained, both + neither])
        for c, weight in enumerate(stats.binom.pmf(np.arange(n - a - b + 1), n - a - b, both / (both + neither))):
            if share * weight > 1e-7:
                table = PairTable(both=c, lost=a, gained=b, neither=n - a - b - c)
                size += share * weight * (table.interval(1.6449)[0] > -margin)
    assert size < 0.06


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.floats(0.01, 0.5))
def test_p_value_agrees_with_the_interval(both: int, lost: int, gained: int, neither: int, margin: float) -> None:
    """The p-value is below alpha where the interval at alpha excludes the margin."""
    table = PairTable(both=both + 1, lost=lost, gained=gained, neither=neither)
    p = inferiority(table.interval, table.difference, margin)
    low = table.interval(1.6448536)[0]
    if abs(low + margin) > 1e-6:
        assert (p < 0.05) == (low > -margin)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_interval_turns_with_the_sides(both: int, lost: int, gained: int, neither: int) -> None:
    """Baseline and candidate exchanged: the same interval with the other sign, which holds the difference."""
    table = PairTable(both=both + 1, lost=lost, gained=gained, neither=neither)
    low, high = table.interval(Z)
    turned = PairTable(both=both + 1, lost=gained, gained=lost, neither=neither).interval(Z)
    assert (-turned[1], -turned[0]) == pytest.approx((low, high))
    assert -1 <= low <= table.difference <= high <= 1
