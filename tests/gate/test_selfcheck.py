"""The baseline against itself: rates, power, and what is warned of."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from ragtrace.gate._selfcheck import selfcheck, worsen
from ragtrace.gate.types import Policy, Rule, SelfCheck
from tests.gate.populations import RULES, pair, population, traffic

SCORE = Rule(metric="m", kind="score", direction="higher", margin=0.1)


def test_a_policy_that_can_find_its_margin() -> None:
    """2,000 requests, a wide margin: no warning, enough power, and few false blocks."""
    values = np.random.default_rng(1).uniform(0.5, 1.0, 2000)
    found = selfcheck(population({"m": values}), Policy(rules=(SCORE,), resamples=200), runs=40)
    assert (found.runs, found.requests, found.alpha) == (40, 2000, 0.05)
    assert found.false_block_rate <= 0.15
    assert found.low <= found.false_block_rate <= found.high
    assert found.pass_rate >= 0.85
    assert found.power is not None
    assert found.power >= 0.8
    assert found.warnings == ()
    assert found.false_block_rate + found.pass_rate + found.inconclusive_rate == pytest.approx(1.0)


def test_a_policy_that_cannot_find_its_margin_is_warned_of() -> None:
    """Sixty requests, a margin of one point."""
    values = np.random.default_rng(2).random(60)
    rule = msgspec.structs.replace(SCORE, margin=0.01, minimum=20)
    found = selfcheck(population({"m": values}), Policy(rules=(rule,), resamples=100), runs=20)
    assert found.power is not None
    assert found.power < 0.8
    halves, weak = found.warnings
    assert "30 requests on each side" in halves
    assert "--candidate" in halves
    assert weak.startswith(
        "A loss of the margin is found in less than 80 % of cases with 30 requests on each side, of: m."
    )
    assert "it passes in at most 5 %" in weak


def test_the_seed_decides_and_progress_is_told() -> None:
    """The same seed, the same rates; every run is told."""
    told: list[int] = []
    source, policy = traffic(120, 3, segments=("x", "y"), shares=(0.5, 0.5)), Policy(rules=RULES, resamples=50)
    one = selfcheck(source, policy, runs=6, seed=5, progress=told.append)
    assert one == selfcheck(source, policy, runs=6, seed=5)
    assert one != selfcheck(source, policy, runs=6, seed=6)
    assert told == [1, 2, 3, 4, 5, 6]
    assert msgspec.json.decode(msgspec.json.encode(one), type=SelfCheck) == one


def test_clusters_stay_together() -> None:
    """Requests of a session are alike: were they split, half of each on either side, nothing would vary."""
    values = np.repeat(np.random.default_rng(4).random(40), 10)
    source = population({"m": values}, clusters=[f"s{at // 10}" for at in range(400)])
    found = selfcheck(source, Policy(rules=(SCORE,), resamples=100), runs=30)
    assert found.false_block_rate <= 0.2
    assert found.inconclusive_rate >= 0.5


def test_large_populations_are_thinned() -> None:
    """At most as many as were asked for."""
    source = population({"m": np.random.default_rng(5).random(500)})
    assert selfcheck(source, Policy(rules=(SCORE,), resamples=50), runs=1, most=200).requests == 200


def test_two_runs_of_one_version_are_judged_as_pairs() -> None:
    """Both runs give nearly the same scores: what halves leave open, pairs pass, and they find more."""
    values = np.random.default_rng(6).random(100)
    again = np.clip(values + np.random.default_rng(7).normal(0, 0.01, 100), 0, 1)
    policy = Policy(rules=(SCORE,), resamples=100)
    halves = selfcheck(population({"m": values}), policy, runs=24)
    pairs = selfcheck(pair(population({"m": values}), population({"m": again}, name="two")), policy, runs=24)
    assert (halves.pairs, halves.requests, pairs.pairs, pairs.requests) == (None, 100, 100, 200)
    assert pairs.false_block_rate == 0.0
    assert pairs.pass_rate == 1.0
    assert halves.pass_rate < 0.5
    assert pairs.power is not None
    assert halves.power is not None
    assert pairs.power > halves.power


def test_exchanges_within_pairs_keep_sessions_together() -> None:
    """One run is worse in half of its sessions, which chance may give to either side."""
    worse = np.repeat((np.arange(30) % 2).astype(float), 10)
    sessions = [f"s{at // 10}" for at in range(300)]
    one = population({"m": np.ones(300)}, clusters=sessions)
    two = population({"m": 1.0 - worse * 0.5}, name="two", clusters=sessions)
    found = selfcheck(pair(one, two), Policy(rules=(SCORE,), resamples=100), runs=40)
    assert found.low <= found.alpha


def test_nothing_to_judge_is_no_power() -> None:
    """A metric without values, and no run at all."""
    source = population({"m": [np.nan] * 100})
    found = selfcheck(source, Policy(rules=(SCORE,)), runs=2)
    assert (found.power, found.powers, found.pass_rate) == (None, {}, 0.0)
    assert selfcheck(source, Policy(rules=(SCORE,)), runs=0).false_block_rate == 0.0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.metric)
def test_worsening_moves_the_mean_by_the_margin(rule: Rule) -> None:
    """In the bad direction, and within the range of values."""
    source = traffic(20_000, 6)
    changed = worsen(source, [rule], np.random.default_rng(1)).scores
    before, after = source.scores[rule.metric], changed[rule.metric]
    sign = 1 if rule.direction == "higher" else -1
    margin = rule.margin * np.nanmean(before) if rule.relative else rule.margin
    assert sign * (np.nanmean(before) - np.nanmean(after)) == pytest.approx(margin, rel=0.15)
    assert np.nanmin(after) >= 0
    assert rule.kind == "quantity" or np.nanmax(after) <= 1
    assert all(changed[other.metric] is source.scores[other.metric] for other in RULES if other != rule)


def test_what_cannot_be_lost_stays() -> None:
    """A mean of 0.02 is not worsened by 0.1."""
    source = population({"m": np.full(100, 0.02)})
    assert worsen(source, [SCORE], np.random.default_rng(1)).scores["m"] is source.scores["m"]
    assert worsen(replace(source, scores={}), [SCORE], np.random.default_rng(1)).scores == {}
