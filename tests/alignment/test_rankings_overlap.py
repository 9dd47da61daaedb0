"""Rank-biased overlap, held against its definition."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from ragtrace.alignment import rbo, rbo_ext
from ragtrace.errors import ConfigurationError

rankings = st.lists(st.integers(0, 12), unique=True, min_size=1, max_size=9)
persistences = st.floats(0.05, 0.99)


def by_definition(a: Sequence[int], b: Sequence[int], p: float) -> float:
    """(1-p) Σ p^(d-1) |a_1:d ∩ b_1:d| / d, depth by depth."""
    depths = range(1, max(len(a), len(b)) + 1)
    return (1 - p) * sum(p ** (d - 1) * len(set(a[:d]) & set(b[:d])) / d for d in depths)


@given(rankings, rankings, persistences)
def test_the_overlap_is_its_definition(a: list[int], b: list[int], p: float) -> None:
    """Also for different lengths and documents."""
    assert rbo(a, b, p) == pytest.approx(by_definition(a, b, p), abs=1e-12)


@given(rankings, rankings, persistences)
def test_the_overlap_is_symmetric_and_bounded(a: list[int], b: list[int], p: float) -> None:
    """From 0 to that of equal rankings, and no less than nothing when extrapolated."""
    assert rbo(a, b, p) == rbo(b, a, p)
    assert rbo_ext(a, b, p) == pytest.approx(rbo_ext(b, a, p), abs=1e-12)
    assert 0 <= rbo(a, b, p) <= 1 - p ** max(len(a), len(b)) + 1e-12
    assert rbo(a, b, p) - 1e-12 <= rbo_ext(a, b, p) <= 1


@given(rankings, persistences)
def test_equal_rankings(a: list[int], p: float) -> None:
    """As far as they go 1 - p^k, extrapolated 1."""
    assert rbo(a, a, p) == pytest.approx(1 - p ** len(a))
    assert rbo_ext(a, a, p) == pytest.approx(1)


@given(rankings, persistences)
def test_disjoint_rankings(a: list[int], p: float) -> None:
    """Nothing shared is no overlap, however far one looks."""
    other = [document + 100 for document in a]
    assert rbo(a, other, p) == 0
    assert rbo_ext(a, other, p) == 0


@given(st.permutations(range(6)), st.integers(0, 4), persistences)
def test_a_better_neighbor_swap_raises_the_overlap(b: list[int], at: int, p: float) -> None:
    """Putting two neighbors into the other ranking's order never lowers the overlap."""
    a, better = list(range(6)), list(b)
    better[at : at + 2] = sorted(better[at : at + 2])
    assert rbo(a, better, p) >= rbo(a, b, p) - 1e-12
    assert rbo_ext(a, better, p) >= rbo_ext(a, b, p) - 1e-12


@given(rankings, rankings, persistences)
def test_the_extrapolation_is_what_a_long_agreement_would_give(a: list[int], b: list[int], p: float) -> None:
    """Rankings of one length, continued by documents that keep the last agreement, tend to the extrapolated value."""
    k = min(len(a), len(b))
    a, b = a[:k], b[:k]
    agreement = len(set(a) & set(b)) / k
    seen = sum(p ** (d - 1) * len(set(a[:d]) & set(b[:d])) / d for d in range(1, k + 1))
    tail = sum(p ** (d - 1) * agreement for d in range(k + 1, k + 4000))
    assert rbo_ext(a, b, p) == pytest.approx((1 - p) * (seen + tail), abs=1e-9)


def test_the_extrapolation_of_uneven_rankings() -> None:
    """Worked by hand from eq. 32 for p = 0.5: overlaps 1, 1, 2 at depths 1, 2, 3, of which the short list ends at 2."""
    by_hand = 0.5 * (1 / 1 + 0.5 * 1 / 2 + 0.25 * (2 + 1 * (3 - 2) / 2) / 3) + ((2 - 1) / 3 + 1 / 2) * 0.125
    assert rbo_ext(["a", "c"], ["a", "b", "c"], 0.5) == pytest.approx(by_hand)


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.5, math.nan, "0.9", None, 0.5j])
def test_a_persistence_out_of_range(p: float) -> None:
    """0 and 1 are refused: one looks at nothing, the other never stops; and so is what is no number."""
    for function in (rbo, rbo_ext):
        with pytest.raises(ConfigurationError, match="between 0 and 1"):
            function(["a"], ["a"], p)


@pytest.mark.parametrize(
    ("ranking", "message"),
    [
        ([], "b is empty"),
        (["x", "y", "x"], "b holds 'x' more than once"),
        ("xyz", "b is 'xyz'; give a sequence"),
        ({"x"}, "b is {'x'}; give a sequence"),
        (iter("xy"), "give a sequence"),
        (None, "b is None; give a sequence"),
        ([["x"], ["y"]], "b holds what is no document id: unhashable type: 'list'"),
    ],
)
def test_what_is_no_ranking(ranking: list[str], message: str) -> None:
    """An empty one, a document with two ranks, a bare string, a set (it has no order), ids that cannot be ids."""
    for function in (rbo, rbo_ext):
        with pytest.raises(ConfigurationError, match=message):
            function(["x"], ranking, 0.9)
