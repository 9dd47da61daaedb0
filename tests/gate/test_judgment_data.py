"""Judging whatever the data are: order, clusters, weights, sizes, and any values at all."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats  # type: ignore[import-untyped]

from ragtrace.errors import MissingExtraError
from ragtrace.gate import _share_tests as shares
from ragtrace.gate._judgment import judge
from ragtrace.gate.types import Comparison, Policy, Population, Rule
from tests.gate.populations import RULES, pair, population, traffic, traffic_pair, unpaired
from tests.gate.verdicts import KINDS, SCORE, of, scores, sure, verdict


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("options", [{}, {"cluster_size": 4}, {"weighted": True}])
def test_the_order_of_rows_changes_nothing(paired: bool, options: dict[str, Any]) -> None:
    """Rows, pairs and segments in any order."""
    comparison = traffic_pair(400, 5, **options)
    chance = np.random.default_rng(1)
    one, two = chance.permutation(400), chance.permutation(400)
    sides = _shuffled(comparison.baseline, one), _shuffled(comparison.candidate, two)
    pairs = np.column_stack([np.argsort(one), np.argsort(two)])[chance.permutation(400)]
    policy = Policy(rules=RULES, resamples=200)
    if not paired:
        comparison, shuffled = unpaired(comparison.baseline, comparison.candidate), Comparison(*sides, None)
    else:
        shuffled = Comparison(*sides, pairs)
    assert msgspec.json.encode(judge(comparison, policy)) == msgspec.json.encode(judge(shuffled, policy))


def test_the_seed_decides() -> None:
    """The same seed gives the same figures, another one others."""
    comparison = traffic_pair(300, 6)
    one, again, other = (judge(comparison, Policy(rules=RULES, seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_clusters_widen_the_interval() -> None:
    """Sessions of five alike requests tell less than requests of their own."""
    alike = traffic_pair(500, 7, cluster_size=5)
    before = np.repeat(np.random.default_rng(1).random(100), 5)
    after = np.clip(before + np.repeat(np.random.default_rng(2).normal(0, 0.2, 100), 5), 0, 1)
    sides = [replace(alike.baseline, scores={"m": values}) for values in (before, after)]
    clustered = judge(pair(sides[0], sides[1]), Policy(rules=(SCORE,)))[0]
    alone = verdict(before, after)
    assert sure(clustered.high) - sure(clustered.low) > 1.5 * (sure(alone.high) - sure(alone.low))


@pytest.mark.parametrize("kind", ["boolean", "score"])
def test_weights_count(kind: Any) -> None:
    """Requests of weight ten are the bulk of what happened, and the sampled ones are few."""
    chance = np.random.default_rng(8)
    values = (chance.random(400) < 0.5).astype(float)
    weights = np.where(values > 0, 10.0, 1.0)
    sides = [population({"m": values}, name=name, weights=weights) for name in ("b", "c")]
    rule = msgspec.structs.replace(SCORE, kind=kind)
    cell = judge(unpaired(*sides), Policy(rules=(rule,)))[0]
    assert cell.candidate == pytest.approx(np.average(values, weights=weights))
    even = verdict(values, values, rule, paired=False)
    assert cell.outcome in ("pass", "inconclusive")
    assert even.candidate == pytest.approx(values.mean())


@settings(max_examples=40)
@given(st.data(), st.booleans(), st.sampled_from(KINDS), st.sampled_from(["higher", "lower"]))
def test_every_cell_is_consistent(data: st.DataObject, paired: bool, kind: Any, direction: Any) -> None:
    """Whatever the values: bounds hold the difference, shares are shares, outcomes follow from their p-values."""
    values = st.sampled_from([0.0, 1.0, float("nan")] + ([] if kind == "boolean" else [0.25, 0.5]))
    count = data.draw(st.integers(5, 60))
    before, after = (np.array(data.draw(st.lists(values, min_size=count, max_size=count))) for _ in range(2))
    rule = Rule(metric="m", kind=kind, direction=direction, margin=0.1, minimum=2)
    cell = verdict(before, after, rule, paired=paired, resamples=200)
    if cell.outcome == "not_enough_data":
        assert min(cell.n) < (10 if cell.low is None else 29)
        return
    figures = (cell.low, cell.difference, cell.high, cell.p_harm, cell.p_adjusted, cell.p_inferior)
    low, difference, high, p_harm, p_adjusted, p_inferior = (np.nan if x is None else x for x in figures)
    assert not np.isnan([low, difference, high, p_harm, p_adjusted, p_inferior]).any()
    assert low - 0.06 <= difference <= high + 0.06  # BCa bounds may shift past the middle of very skewed few
    assert 0 < p_harm <= p_adjusted <= 1
    assert 0 <= p_inferior <= 1
    assert (cell.outcome == "pass") == (p_inferior <= 0.05)
    assert (cell.outcome == "fail") == (p_adjusted <= 0.05 < p_inferior)


def _shuffled(side: Population, order: Any) -> Population:
    return replace(
        side,
        request_ids=[side.request_ids[at] for at in order],
        questions=[side.questions[at] for at in order],
        segments=[side.segments[at] for at in order],
        clusters=[side.clusters[at] for at in order],
        weights=side.weights[order],
        scores={metric: values[order] for metric, values in side.scores.items()},
    )


def test_traffic_of_all_kinds_is_judged() -> None:
    """Twelve metrics, eight segments, both designs, weights and sessions: every cell has a reason and a method."""
    for options in ({}, {"cluster_size": 3}, {"weighted": True}):
        one, two = (traffic(500, seed, name=name, **options) for seed, name in ((1, "b"), (2, "c")))
        for comparison in (pair(one, two), unpaired(one, two)):
            cells = judge(comparison, Policy(rules=RULES, resamples=200))
            assert all(cell.reason.endswith(".") for cell in cells)
            assert all(cell.method for cell in cells if cell.outcome != "not_enough_data")


def test_large_samples_are_judged_by_students_t() -> None:
    """Welch's test and interval as SciPy has them."""
    before, after = scores(21, 3000), scores(22, 3000, 0.79)
    cell = verdict(before, after, paired=False)
    welch = stats.ttest_ind(after, before, equal_var=False, alternative="less")
    both = stats.ttest_ind(after, before, equal_var=False).confidence_interval(0.9)
    assert cell.p_harm == pytest.approx(welch.pvalue)
    assert (sure(cell.low), sure(cell.high)) == pytest.approx((both.low, both.high))
    assert cell.method == "Student's t interval; Student's t"
    paired = verdict(before, after)
    assert paired.p_harm == pytest.approx(stats.ttest_rel(after, before, alternative="less").pvalue)


def test_pairs_of_booleans_with_clusters_are_scores() -> None:
    """Sessions of four that break together: McNemar's test would be far too sure."""
    broken = np.repeat(np.random.default_rng(1).random(40) < 0.15, 4)
    before = np.ones(160)
    rule = msgspec.structs.replace(SCORE, kind="boolean")
    sessions = [f"s{at // 4}" for at in range(160)]
    sides = [population({"m": values}, name="b", clusters=sessions) for values in (before, before - broken)]
    clustered = judge(pair(sides[0], sides[1]), Policy(rules=(rule,)))[0]
    alone = verdict(before, before - broken, rule)
    assert sure(clustered.p_harm) > 20 * sure(alone.p_harm)
    assert "McNemar" in alone.method
    assert "signs" in clustered.method


def test_shares_with_clusters_have_effective_sizes() -> None:
    """Ten copies of each of forty requests: the interval of about forty, not of four hundred."""
    chance = np.random.default_rng(2)
    before, after = (chance.random(40) < 0.7).astype(float), (chance.random(40) < 0.7).astype(float)
    rule = msgspec.structs.replace(SCORE, kind="boolean")
    sessions = [f"s{at // 10}" for at in range(400)]
    sides = [
        population({"m": np.repeat(v, 10)}, name=name, clusters=sessions) for v, name in ((before, "b"), (after, "c"))
    ]
    copied, once = judge(unpaired(*sides), Policy(rules=(rule,)))[0], verdict(before, after, rule, paired=False)
    assert sure(copied.low) == pytest.approx(sure(once.low), abs=0.01)
    assert sure(copied.high) == pytest.approx(sure(once.high), abs=0.01)


@pytest.mark.parametrize("kind", ["score", "quantity"])
def test_a_kept_floor_seldom_fails(kind: Any) -> None:
    """Forty skewed values whose true mean is the floor itself."""
    rule = Rule(metric="m", kind=kind, direction="higher", margin=0.5, floor=0.9)
    fails = 0
    for seed in range(150):
        values = np.where(np.random.default_rng(seed).random(40) < 0.9, 1.0, 0.0)
        sides = population({"m": values}, name="b"), population({"m": values}, name="c")
        cells = judge(pair(*sides), Policy(rules=(rule,), resamples=300, seed=seed))
        fails += of(cells, "m", None, "floors").blocks
    assert fails / 150 <= 0.08


def test_large_floors_and_quantities() -> None:
    """Three thousand latencies against a ceiling of one second."""
    values = np.random.default_rng(3).gamma(4, 0.3, 3000)
    rule = Rule(metric="m", kind="quantity", direction="lower", margin=0.5, floor=1.0)
    sides = population({"m": values}, name="b"), population({"m": values}, name="c")
    cell = of(judge(pair(*sides), Policy(rules=(rule,))), "m", None, "floors")
    assert (cell.outcome, cell.method) == ("fail", "Student's t")
    expected = stats.ttest_1samp(values, 1.0).confidence_interval(0.9)
    assert (sure(cell.low), sure(cell.high)) == pytest.approx((expected.low, expected.high))


def test_without_scipy_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra's name."""
    shares.special.cache_clear()
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtraError, match=r"ragtrace\[gate\]"):
        judge(traffic_pair(60, 1), Policy(rules=RULES[:1]))


@pytest.mark.parametrize("paired", [True, False])
def test_a_metric_that_few_of_many_requests_have_is_judged_as_few(paired: bool) -> None:
    """Thirty values that do not differ show no more among three thousand requests than among a hundred."""
    few = [population({"m": [0.9] * 30 + [np.nan] * 70}, name=name) for name in "bc"]
    many = [population({"m": [0.9] * 30 + [np.nan] * 2_970}, name=name) for name in "bc"]
    policy = Policy(rules=(msgspec.structs.replace(SCORE, margin=0.03, floor=0.85),))
    found = [judge((pair if paired else unpaired)(*sides), policy) for sides in (few, many)]
    assert [cell.outcome for cell in found[1]] == ["not_enough_data", "pass"]
    assert [cells[0].low for cells in found] == [pytest.approx(-0.09, abs=0.01)] * 2


def test_a_rare_metric_leaves_the_others_as_they_are() -> None:
    """Each keeps its own rule, whatever is judged beside it."""
    chance = np.random.default_rng(3)
    often, rare = chance.random(2_500), np.where(np.arange(2_500) < 40, 1.0, np.nan)
    sides = [population({"often": often, "rare": rare}, name=name) for name in "bc"]
    rules = tuple(msgspec.structs.replace(SCORE, metric=name) for name in ("rare", "often"))
    cells = judge(pair(sides[0], sides[1]), Policy(rules=rules))
    assert [(cell.metric, cell.n[0]) for cell in cells] == [("rare", 40), ("often", 2_500)]
    assert ["Student's t interval" in cell.method for cell in cells] == [False, True]


def test_equal_quantities_have_an_interval_of_nothing() -> None:
    """No trace of rounding is shown as a change."""
    rule = Rule(metric="m", kind="quantity", direction="lower", margin=0.2, relative=True)
    cell = verdict([1.0] * 40, [1.0] * 40, rule)
    assert (cell.outcome, cell.low, cell.high) == ("pass", 0.0, 0.0)


@pytest.mark.parametrize("kind", ["boolean", "score"])
@pytest.mark.parametrize("paired", [True, False])
def test_a_few_requests_of_great_weight_are_few(paired: bool, kind: Any) -> None:
    """A loss of exactly the margin passes in no more than alpha of cases, though most samples of the few show none."""
    rule = Rule(metric="m", kind=kind, direction="higher", margin=0.05)
    passed = 0
    for seed in range(60):
        chance = np.random.default_rng(seed)
        weights = np.where(chance.random(200) < 0.05, 100.0, 1.0)
        after = (chance.random(200) >= 0.05).astype(float)
        one = population({"m": np.ones(200)}, name="b", weights=None if paired else weights)
        two = population({"m": after}, name="c", weights=weights)
        cells = judge((pair if paired else unpaired)(one, two), Policy(rules=(rule,), resamples=200))
        passed += cells[0].outcome == "pass"
    assert passed <= 6
