"""Bounds of shares, and the stretch in which a share is higher."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from ragtrace.sample_statistics import wilson
from ragtrace.triage._statistics import break_end, find_episode, share_of


@pytest.mark.parametrize(
    ("bad", "known", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 10, 0.0, 0.213), (5, 10, 0.269, 0.731), (10, 10, 0.787, 1.0), (60, 1000, 0.0488, 0.0735)],
)
def test_bounds_of_a_share(bad: int, known: int, low: float, high: float) -> None:
    """Wilson's interval at z = 1.645, as worked out by hand."""
    assert wilson(bad, known) == pytest.approx((low, high), abs=1e-3)


@given(st.integers(0, 500), st.integers(0, 500))
def test_bounds_enclose_the_share_and_tighten(bad: int, good: int) -> None:
    """Four times the requests of the same share are closer to it."""
    known = bad + good
    low, high = wilson(bad, known)
    assert 0.0 <= low <= (bad / known if known else 0.5) <= high <= 1.0
    closer = wilson(4 * bad, 4 * known)
    assert low <= closer[0] + 1e-12
    assert closer[1] <= high + 1e-12


def test_a_step_is_found_where_it_is() -> None:
    """Up at 300 of 500, and never down again."""
    chance = random.Random(1)
    found = find_episode([chance.random() < (0.4 if place >= 300 else 0.01) for place in range(500)])
    assert found is not None
    assert found.earliest <= 300 <= found.latest
    assert found.latest - found.earliest < 20
    assert found.end == found.ends_latest == 500


def test_an_end_is_found_too() -> None:
    """Up at 200, down at 260."""
    found = find_episode([200 <= place < 260 and place % 2 == 0 for place in range(1000)])
    assert found is not None
    assert (found.start, found.end) == (200, 259)
    assert found.ends_earliest <= 259 <= found.ends_latest


def test_even_sequences_have_no_episode() -> None:
    """At most a few of 300 sequences of one share are taken for a change."""
    chance = random.Random(2)
    found = 0
    for _ in range(300):
        share, count = chance.choice([0.01, 0.05, 0.3]), chance.choice([20, 100, 300])
        found += find_episode([chance.random() < share for _ in range(count)]) is not None
    assert found <= 8


@given(st.lists(st.booleans(), max_size=60))
def test_every_sequence_has_an_answer(bad: list[bool]) -> None:
    """An episode lies within the sequence, its bounds around its ends, and its share is the higher one."""
    found = find_episode(bad)
    if found is None:
        return
    assert 0 <= found.earliest <= found.start <= found.latest < len(bad)
    assert found.ends_earliest <= found.end <= found.ends_latest <= len(bad)
    inside = bad[found.start : found.end]
    assert sum(inside) / len(inside) > sum(bad) / len(bad)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.floats(1.0, 1e3))
def test_even_weights_change_nothing(bad: list[bool], weight: float) -> None:
    """All kept at one rate: the episode and the bounds of the plain counts."""
    assert find_episode(bad, [weight] * len(bad)) == find_episode(bad)
    found = share_of([(each, weight) for each in bad])
    assert (found.low, found.high) == wilson(sum(bad), len(bad))


def test_a_change_of_the_traffic_is_found_among_uneven_weights() -> None:
    """Nine of ten are of a segment that is kept whole and stays as bad as it was; the one that counts breaks."""
    chance = random.Random(3)
    bad = [place >= 600 if place % 10 == 0 else chance.random() < 0.3 for place in range(1000)]
    weights = [40.0 if place % 10 == 0 else 1.0 for place in range(1000)]
    found = find_episode(bad, weights)
    assert found is not None
    assert found.earliest <= 600 <= found.latest
    assert found.end == 1000


def test_few_bad_requests_of_great_weight_are_no_change() -> None:
    """One that stands for twenty is one request."""
    bad, weights = [place == 300 for place in range(500)], [20.0 if place == 300 else 1.0 for place in range(500)]
    assert find_episode(bad, weights) is None


def test_nothing_and_all_bad_are_no_change() -> None:
    """Neither has a before."""
    assert find_episode([]) is None
    assert find_episode([False] * 50) is None
    assert find_episode([True] * 50) is None


def test_a_break_has_ended_where_enough_sound_ones_come_behind_it() -> None:
    """With the share since then; ten are needed, all within the budget, and clearly fewer broken ones than before."""

    def weighed(*runs: tuple[int, int]) -> list[tuple[bool, float]]:
        return [(place % period == 0, 1.0) for period, count in runs for place in range(1, count + 1)]

    never, often = 10**6, 2
    ended = break_end(weighed((never, 60), (often, 60), (never, 40)), 0.05)
    assert ended is not None
    assert (ended[0], ended[1].count, ended[1].of) == (120, 0, 40)
    assert break_end(weighed((never, 60), (often, 60), (never, 9)), 0.05) is None
    assert break_end(weighed((never, 60), (often, 60), (10, 40)), 0.05) is None
    assert break_end(weighed((never, 60), (often, 60)), 0.05) is None
    assert break_end(weighed((never, 200)), 0.05) is None
