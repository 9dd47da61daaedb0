"""Exposure and its measures, against brute force over all rankings and constructed extremes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linprog  # type: ignore[import-untyped]

from ragtrace.errors import ConfigurationError
from ragtrace.exposure import (
    attributed_exposure,
    attribution_rate,
    disparity,
    expected_utility,
    exposure,
    group_sums,
    log_probability,
    relevance,
    target_exposure,
)

SCORES = [0.9, 0.1, 0.6, 0.3, 0.35, 0.2]


def stochastic(n: int, alpha: float) -> tuple[list[tuple[int, ...]], list[float]]:
    """All rankings of n items with their probabilities."""
    rankings = list(permutations(range(n)))
    return rankings, [float(np.exp(log_probability(each, SCORES[:n], alpha))) for each in rankings]


@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 2), (5, 2), (6, 4)])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
def test_against_all_rankings(n: int, k: int, alpha: float) -> None:
    """Exposure, attributed exposure, disparity, relevance and the attribution rate, ranking by ranking."""
    rankings, chances = stochastic(n, alpha)
    used = [[(item + sum(ranking[:k])) % 3 == 0 for item in ranking] for ranking in rankings]
    useful = [item % 2 == 0 for item in range(n)]
    shown, taken, rate = [0.0] * n, [0.0] * n, 0.0
    for ranking, chance, uses in zip(rankings, chances, used, strict=True):
        for place in range(k):
            shown[ranking[place]] += chance
            taken[ranking[place]] += chance * uses[place]
        rate += chance * sum(uses[:k]) / k
    found = exposure(rankings, n, k, chances)
    attributed = attributed_exposure(rankings, used, n, k, chances)
    assert found == pytest.approx(shown, abs=1e-9)
    assert attributed == pytest.approx(taken, abs=1e-9)
    assert sum(chance * attribution_rate(uses, k) for chance, uses in zip(chances, used, strict=True)) == pytest.approx(
        rate, abs=1e-9
    )
    target = target_exposure(useful, k)
    assert disparity(found).value == pytest.approx(sum(each * each for each in shown), abs=1e-9)
    assert relevance(found, target).value == pytest.approx(sum(map(lambda a, b: a * b, shown, target)), abs=1e-9)


@pytest.mark.parametrize(("n", "k"), [(n, k) for n in range(1, 7) for k in (1, max(1, n // 2), n)])
def test_groups_and_utility_against_all_rankings(n: int, k: int) -> None:
    """Of three providers: exposure, what is used and deserved, their disparity and relevance; and expected utility,
    which counts each ranking by its chance."""
    rankings, chances = stochastic(n, 1.5)
    groups = ["abc"[item % 3] for item in range(n)]
    used = [[(item * 7 + ranking[0]) % 2 == 0 for item in ranking] for ranking in rankings]
    shown, taken, worth = dict.fromkeys(groups, 0.0), dict.fromkeys(groups, 0.0), 0.0
    for ranking, chance, uses in zip(rankings, chances, used, strict=True):
        for place, item in enumerate(ranking[:k]):
            shown[groups[item]] += chance
            taken[groups[item]] += chance * uses[place]
        worth += chance * (1 + ranking[0]) / n
    sizes = [groups.count(group) for group in shown]
    by_group = group_sums(exposure(rankings, n, k, chances), groups)
    by_use = group_sums(attributed_exposure(rankings, used, n, k, chances), groups)
    assert by_group == pytest.approx(shown, abs=1e-9)
    assert by_use == pytest.approx(taken, abs=1e-9)
    targets = group_sums(target_exposure([item % 2 == 0 for item in range(n)], k), groups)
    for sums in (by_group, by_use):
        value = disparity(list(sums.values()), sizes).value
        assert value == pytest.approx(sum(each * each for each in sums.values()), abs=1e-9)
    found = relevance(list(by_group.values()), list(targets.values()), sizes)
    assert found.value == pytest.approx(sum(shown[each] * targets[each] for each in shown), abs=1e-9)
    fills = [[sum(groups[item] == group for item in chosen) for group in shown] for chosen in combinations(range(n), k)]
    values = [sum(a * b for a, b in zip(each, targets.values(), strict=True)) for each in fills]
    assert (found.least, found.most) == pytest.approx((min(values), max(values)), abs=1e-9)
    assert disparity(list(by_group.values()), sizes).most == pytest.approx(
        max(sum(count * count for count in each) for each in fills), abs=1e-9
    )
    draws = np.random.default_rng(n).choice(len(rankings), p=np.array(chances) / sum(chances), size=500)
    utilities = [(1 + rankings[draw][0]) / n for draw in draws]
    eu = expected_utility(utilities, best=1.0)
    assert eu.normalized == pytest.approx(sum(utilities) / 500, abs=1e-9)
    assert abs(eu.value - worth) <= 4 * np.std(utilities) / 500**0.5 + 1e-9


@pytest.mark.parametrize(
    ("n", "m", "k"), [(n, m, k) for n in range(1, 7) for m in range(n + 1) for k in range(1, n + 1)]
)
def test_the_target_is_the_mean_of_the_best_rankings(n: int, m: int, k: int) -> None:
    """Useful items first, in any order, then the others, in any order: what each item's share is of these."""
    useful = [item < m for item in range(n)]
    best = [each for each in permutations(range(n)) if all(useful[item] for item in each[:m])]
    assert target_exposure(useful, k) == pytest.approx(exposure(best, n, k), abs=1e-9)


@pytest.mark.parametrize(("n", "m", "k"), [(n, m, k) for n in range(2, 7) for m in range(1, n) for k in range(1, n)])
def test_bounds_are_attained_by_rankings(n: int, m: int, k: int) -> None:
    """k/n each is the evenest, one ranking the least even; the useful first is the best, last the worst."""
    every, one = list(permutations(range(n))), [tuple(range(n))]
    even, uneven = disparity(exposure(every, n, k)), disparity(exposure(one, n, k))
    assert (even.least, even.most) == pytest.approx((k * k / n, k), abs=1e-9)
    assert (even.normalized, uneven.normalized) == pytest.approx((0, 1), abs=1e-9)
    target = target_exposure([item < m for item in range(n)], k)
    best, worst = relevance(exposure(one, n, k), target), relevance(exposure([one[0][::-1]], n, k), target)
    assert (best.normalized, worst.normalized) == pytest.approx((1, 0), abs=1e-9)
    values = [relevance(exposure([each], n, k), target).value for each in every]
    assert (best.least, best.most) == pytest.approx((min(values), max(values)), abs=1e-9)


def test_relevance_counts_what_is_not_useful_too() -> None:
    """At 10 items, 3 useful, k = 5 the best ranking has the value 1, not 0.84."""
    target = target_exposure([True] * 3 + [False] * 7, 5)
    assert relevance(target, target).normalized == pytest.approx(1, abs=1e-12)
    assert relevance(target, target).most == pytest.approx(3 + 2 * 2 / 7, abs=1e-12)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.data(),
)
@settings(max_examples=40)
def test_bounds_of_groups_are_those_of_linear_programs(sizes: list[int], data: st.DataObject) -> None:
    """Relevance by a solver; disparity by trying every integer filling, and by its optimality where it is least."""
    total = data.draw(st.integers(0, sum(sizes)))
    fills = [each for each in product(*(range(size + 1) for size in sizes)) if sum(each) == total]
    targets = [data.draw(st.floats(0, size)) for size in sizes]
    chosen = data.draw(st.sampled_from(fills))
    found = relevance(chosen, targets, sizes)
    solved = [
        linprog(sign * np.array(targets), A_eq=[[1.0] * len(sizes)], b_eq=[total], bounds=[(0, size) for size in sizes])
        for sign in (1, -1)
    ]
    assert found.least == pytest.approx(solved[0].fun, abs=1e-7)
    assert found.most == pytest.approx(-solved[1].fun, abs=1e-7)
    spread = disparity(chosen, sizes)
    squares = [sum(count * count for count in each) for each in fills]
    assert spread.most == pytest.approx(max(squares), abs=1e-9)
    assert spread.least <= min(squares) + 1e-9
    assert spread.normalized is None or 0 <= spread.normalized <= 1


def test_the_evenest_groups_are_level() -> None:
    """A small group is full, the others share the rest alike."""
    assert disparity([1, 2, 3], [1, 5, 5]).least == pytest.approx(1 + 2.5**2 * 2, abs=1e-12)


@pytest.mark.parametrize(
    "measure",
    [
        disparity([1.0, 1.0]),
        disparity([0.7]),
        relevance([0.5, 0.5], target_exposure([False, False], 1)),
        relevance([1.0, 1.0], target_exposure([True, False], 2)),
        expected_utility([0.0, 0.0]),
    ],
)
def test_no_normalized_value_where_bounds_coincide(measure: object) -> None:
    """None, and a reason."""
    assert measure.normalized is None  # type: ignore[attr-defined]
    assert measure.reason  # type: ignore[attr-defined]


def test_more_places_than_items() -> None:
    """k is cut to n: everything is shown, and deserves to be."""
    assert exposure([[1, 0]], 2, 9).tolist() == [1, 1]
    assert target_exposure([True, False], 9).tolist() == [1, 1]


def test_weights_count_requests_by_their_chance() -> None:
    """A request that was looked at with a tenth of the chance stands for ten."""
    assert exposure([[0], [1]], 2, 1, [10, 1]) == pytest.approx([10 / 11, 1 / 11])


def test_groups_are_the_sums_of_their_items() -> None:
    """In the order in which they come."""
    assert group_sums([0.5, 0.25, 0.25], ["b", "a", "b"]) == {"b": 0.75, "a": 0.25}


def test_utility_is_normalized_by_the_best() -> None:
    """That was seen under any ranking of the request."""
    assert expected_utility([1.0, 3.0], best=4).normalized == pytest.approx(0.5)
    assert expected_utility([1.0, 3.0]).normalized == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (exposure, ([], 2, 1)),
        (exposure, ([[0, 0]], 2, 2)),
        (exposure, ([[2]], 2, 1)),
        (exposure, ([[0]], 2, 0)),
        (exposure, ([[0]], 2, 1, [0])),
        (exposure, ([[0]], 2, 1, [1, 1])),
        (attributed_exposure, ([[0, 1]], [[True]], 2, 1)),
        (attribution_rate, ([], 1)),
        (target_exposure, ([], 1)),
        (disparity, ([1.5],)),
        (disparity, ([0.5], [0])),
        (disparity, ([[0.5]],)),
        (relevance, ([0.5, 0.5], [1.0])),
        (expected_utility, ([-1.0],)),
        (expected_utility, ([2.0], 1.0)),
        (group_sums, ([1.0], ["a", "b"])),
    ],
)
def test_what_is_out_of_range_is_refused(call: object, arguments: Sequence[object]) -> None:
    """With what is allowed."""
    with pytest.raises(ConfigurationError):
        call(*arguments)  # type: ignore[operator]
