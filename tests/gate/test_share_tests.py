"""Shares: mid-p tests, the exact score test and Newcombe's interval against published values and counting out."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats  # type: ignore[import-untyped]

from ragtrace.gate._share_tests import (
    IndependentShares,
    PairTable,
    _score,
    fisher_distribution,
    fisher_mid_p,
    mcnemar_distribution,
    mcnemar_mid_p,
)

Z = 1.959964
COUNTS = st.integers(0, 40)


def test_paired_score_as_published() -> None:
    """Tango (1998), section 4: of 44 pairs, 1 lost and 0 gained, a margin of 0.1 gives a score of -1.709."""
    assert _score(np.array([1]), np.array([0]), 44, 0.1)[0] == pytest.approx(-1.709, abs=5e-4)


@given(st.integers(1, 400), st.floats(0.01, 0.3))
def test_pairs_without_a_difference_count_out(pairs: int, margin: float) -> None:
    """Only that no pair was lost can happen: the exact binomial."""
    table = PairTable(both=pairs, lost=0, gained=0, neither=0)
    assert table.inferiority(margin) == pytest.approx((1 - margin) ** pairs)
    assert table.interval(0.05, margin)[0] == pytest.approx(0.05 ** (1 / pairs) - 1)


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


@given(st.integers(0, 40), st.integers(0, 12), st.integers(1, 12), st.floats(0, 1))
def test_distributions_count_out(changed: int, good: int, candidate: int, level: float) -> None:
    """All outcomes whose mid-p is at most the level; the chance of a p-value is never below it."""
    found = sum(comb(changed, k) for k in range(changed + 1) if mcnemar_mid_p(k, changed - k) <= level) / 2**changed
    assert mcnemar_distribution(changed).chance(level) == pytest.approx(found)
    possible = range(max(0, good - 12), min(candidate, good) + 1)
    ways = {k: comb(candidate, k) * comb(12, good - k) for k in possible}
    seen = {k: fisher_mid_p(k, candidate, good - k, 12) for k in possible}
    expected = sum(ways[k] for k in possible if seen[k] <= level) / sum(ways.values())
    distribution = fisher_distribution(candidate, 12, good)
    assert distribution.chance(level) == pytest.approx(expected)
    assert all(distribution.chance(p) >= p * (1 - 1e-9) for p in seen.values())


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


@pytest.mark.parametrize(
    ("margin", "gained", "pairs"), [(0.03, 0.0, 99), (0.03, 0.01, 204), (0.05, 0.05, 204), (0.1, 0.02, 60)]
)
def test_non_inferiority_keeps_its_size(margin: float, gained: float, pairs: int) -> None:
    """Pairs that lose exactly the margin pass in at most 5 % of all outcomes, whatever changes beside it."""
    passed = 0.0
    lost = margin + gained
    for a, b in product(range(int(pairs * lost + 8)), range(int(pairs * gained + 8))):
        table = PairTable(both=pairs - a - b, lost=a, gained=b, neither=0)
        if a < pairs * margin and table.inferiority(margin) <= 0.05:
            passed += stats.multinomial.pmf([a, b, pairs - a - b], pairs, [lost, gained, 1 - lost - gained])
    assert 0.0 < passed <= 0.05


@pytest.mark.parametrize(
    ("lost", "gained", "margin"), [(1, 4, 0.3), (2, 8, 0.1), (1, 11, 0.1), (3, 5, 0.05), (4, 4, 0.3)]
)
def test_pairs_that_all_differ_count_out(lost: int, gained: int, margin: float) -> None:
    """The p-value is the largest chance, over all shares of pairs that differ, of a table that speaks as strongly."""
    pairs = lost + gained
    tables = np.array([(a, b) for a, b in product(range(pairs + 1), repeat=2) if a + b <= pairs])
    seen = _score(np.array([lost]), np.array([gained]), pairs, margin)[0]
    strong = tables[_score(tables[:, 0], tables[:, 1], pairs, margin) <= seen + 1e-9]
    counts = np.column_stack([strong, pairs - strong.sum(axis=1)])
    chances = [
        stats.multinomial.pmf(counts, pairs, [(share + margin) / 2, (share - margin) / 2, 1 - share]).sum()
        for share in np.linspace(margin, 1.0, 101)
    ]
    assert PairTable(0, lost, gained, 0).inferiority(margin) == pytest.approx(max(chances), abs=2e-6)


def test_few_changed_pairs_pass_and_many_do_not() -> None:
    """204 pairs, a margin of 0.03: four lost and four gained pass, two lost alone do not."""
    assert PairTable(196, 4, 4, 0).inferiority(0.03) < 0.05 < PairTable(202, 2, 0, 0).inferiority(0.03)


@settings(max_examples=25, deadline=None)
@given(COUNTS, st.integers(0, 8), st.integers(0, 8), st.floats(0.01, 0.5))
def test_p_value_agrees_with_the_interval(both: int, lost: int, gained: int, margin: float) -> None:
    """The p-value is below alpha where the interval at alpha excludes the margin; the interval holds the difference,
    and turns with the sides."""
    table = PairTable(both=both + 1, lost=lost, gained=gained, neither=0)
    low, high = table.interval(0.05, margin)
    if abs(low + margin) > 1e-3:
        assert (table.inferiority(margin) <= 0.05) == (low > -margin)
    assert -1 <= low <= table.difference <= high <= 1
    turned = PairTable(both=both + 1, lost=gained, gained=lost, neither=0).interval(0.05, margin)
    assert (-turned[1], -turned[0]) == pytest.approx((low, high))


def test_many_pairs_are_judged_by_the_score() -> None:
    """Counted out for 1,000 pairs, normal for 1,001: the same verdict."""
    some, more = (PairTable(both, 20, 20, 0).inferiority(0.02) for both in (960, 961))
    assert some == pytest.approx(more, abs=0.003)
