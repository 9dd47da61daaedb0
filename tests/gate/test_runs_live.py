"""Live traffic: segments in the baseline's proportions, so that another mix of requests is no loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragtrace.errors import ConfigurationError, InputError
from ragtrace.gate._estimates import CellEstimate, estimate
from ragtrace.gate._means import rows_of
from ragtrace.gate.reports import Format, render
from ragtrace.gate.runs import compare, compare_live, live_selection, standardize
from ragtrace.gate.types import Comparison, Policy, Population, Rule
from tests.gate.populations import population
from tests.gate.reported import cell, report

RULE = Rule(metric="broken_generation", kind="boolean", direction="lower", margin=0.05, stage="generation")
RATES = {"easy": 0.05, "hard": 0.4}
POLICY = Policy(rules=(RULE,), resamples=200)


def _side(name: str, easy: float, count: int, chance: np.random.Generator, worse: float = 0.0) -> Population:
    """Requests with this share of easy ones; worse: by how much each kind breaks more often."""
    segments = np.where(chance.random(count) < easy, "easy", "hard").tolist()
    broken = chance.random(count) < np.array([RATES[each] + worse for each in segments])
    return population({RULE.metric: broken.astype(float)}, name=name, segments=segments)


def _estimate(before: Population, after: Population) -> CellEstimate:
    (found,) = estimate(rows_of(Comparison(before, after, None)), [RULE], POLICY, POLICY.alpha)
    return found


@pytest.mark.parametrize("worse", [0.0, 0.1])
def test_intervals_hold_the_difference_within_segments(worse: float) -> None:
    """A canary with many more hard requests: of 90 % intervals at least 88 % hold the true difference, and
    at most 7 % accuse an equal one; unstandardized nearly all miss."""
    runs, chance = 100, np.random.default_rng(7)
    held = bare = accused = 0
    for _ in range(runs):
        before = _side("before", 0.85, 600, chance)
        after = _side("after", 0.4, 300, chance, worse)
        found = _estimate(*standardize(before, after)[:2])
        held += found.low <= -worse <= found.high
        accused += found.p_harm <= 0.05
        plain = _estimate(before, after)
        bare += plain.low <= -worse <= plain.high
    assert held / runs >= 0.88
    assert bare / runs <= 0.2
    if worse:
        assert accused / runs >= 0.8
    else:
        assert accused / runs <= 0.07


def test_the_difference_is_the_mean_of_those_within_segments() -> None:
    """By the baseline's mix, whatever the weights and the candidate's mix are."""
    chance = np.random.default_rng(3)
    before, after = _side("before", 0.7, 500, chance), _side("after", 0.2, 400, chance, 0.05)
    one, two, mix = standardize(before, after)
    by_segment = {}
    for side, values in (("before", before), ("after", after)):
        for name in RATES:
            rows = np.array([each == name for each in values.segments])
            by_segment[side, name] = values.scores[RULE.metric][rows].mean()
    shares = {each.segment: each.baseline for each in mix}
    wanted = sum(shares[name] * (by_segment["after", name] - by_segment["before", name]) for name in RATES)
    found = np.average(two.scores[RULE.metric], weights=two.weights) - np.average(one.scores[RULE.metric])
    assert found == pytest.approx(wanted, abs=1e-12)
    assert sum(shares.values()) == pytest.approx(1)


def _named(names: list[str], name: str, **other: Any) -> Population:
    return population({RULE.metric: np.zeros(len(names))}, name=name, segments=names, **other)


def test_a_segment_of_one_side_is_left_out() -> None:
    """It is counted, and the others keep their proportions."""
    before = _named(["a"] * 60 + ["b"] * 30 + ["c"] * 10, "before")
    after = _named(["a"] * 10 + ["b"] * 40 + ["d"] * 5, "after")
    one, two, mix = standardize(before, after)
    assert (len(one), len(two)) == (90, 50)
    assert [each.segment for each in mix if each.factor is None] == ["c", "d"]
    assert list(one.excluded.values()) == [10]
    weights = {name: two.weights[np.array(two.segments) == name].sum() for name in "ab"}
    assert weights["a"] / weights["b"] == pytest.approx(2)
    with pytest.raises(InputError, match="no segment in common"):
        standardize(before, _named(["z"] * 50, "after"))


@pytest.mark.parametrize(("elsewhere", "decision"), [(2_000, "undecided"), (50, "pass")])
def test_most_of_the_traffic_must_be_compared(elsewhere: int, decision: str) -> None:
    """A candidate that hardly got requests of a segment tells nothing of it: where that holds more than a tenth of the
    baseline's requests, the rest is not enough to go out."""
    before = _named(["a"] * 500 + ["b <i>"] * elsewhere, "before")
    after = population(
        {RULE.metric: np.repeat([0.0, 1.0], [500, 9])}, name="after", segments=["a"] * 500 + ["b <i>"] * 9
    )
    report = compare_live(before, after, POLICY)
    assert (report.decision, report.paired) == (decision, False)
    assert any("left out: b <i>" in each for each in report.warnings)
    if decision == "undecided":
        assert report.headline.startswith("Undecided: what was compared did not get worse")
        assert "80 % of the baseline's requests are in segments" in report.headline
        assert any("b <i>" in each for each in report.next_steps)
        assert not any("may go out" in each for each in report.next_steps)
    worse = replace(after, scores={RULE.metric: np.ones(509)})
    assert compare_live(before, worse, POLICY).decision == "block"


def test_what_is_asked_for() -> None:
    """Versions in the forms that people write; nothing else of a selection."""
    second = 1_700_000_000_000_000_000
    for given in ("model=m-8", "version=model=m-8", "version:model=m-8"):
        assert live_selection("--candidate", given, "shop", second, 2 * second).startswith(
            "version:model=m-8&service:shop&window:2023-11-14T22:13:20"
        )
    for wrong in ("m-8", "model=m-8&replay:x"):
        with pytest.raises(ConfigurationError, match="--candidate"):
            live_selection("--candidate", wrong, "shop", second, 2 * second)


def test_a_report_says_the_mix() -> None:
    """In every form for people."""
    chance = np.random.default_rng(1)
    one, two, mix = standardize(_side("before", 0.8, 300, chance), _side("after", 0.3, 300, chance))
    found = compare(one, two, Policy(rules=(RULE,), pairing="unpaired"))
    shown = report("pass", [cell(), *found.cells], paired=False, pairs=None, mix=mix)
    forms: tuple[Format, ...] = ("text", "markdown", "html")
    for form in forms:
        assert "segments in the baseline's proportions: easy 8" in " ".join(
            render(shown, form).replace("&#x27;", "'").replace("\\", "").split()
        )
    easy = next(each for each in mix if each.segment == "easy")
    assert easy.factor is not None
    assert easy.factor > 2
    assert f"× {easy.factor:.3g}" in render(shown, "html")
