"""The questions that got worse: of which cells, in which order."""

from __future__ import annotations

import numpy as np

from ragtrace.gate._breaks import find_changes
from ragtrace.gate.types import Comparison
from tests.gate.populations import pair, population, unpaired
from tests.gate.reported import cell, empty, failed, unclear

ROWS = 6


def _comparison() -> Comparison:
    """Coverage falls by a tenth more from question to question; the last one is not defined any more."""
    after = np.array([1.0, 0.9, 0.8, 0.7, 0.6, np.nan])
    segments = ["x", "y"] * 3
    before = population({"answer_coverage": np.ones(ROWS)}, name="before", segments=segments)
    return pair(before, population({"answer_coverage": after}, name="after", segments=segments))


def test_the_worst_first() -> None:
    """With the values of both sides; what did not lose is not among them."""
    (found,) = find_changes(_comparison(), [failed("answer_coverage")])
    assert [each.candidate for each in found.pairs] == ["after-4", "after-3", "after-2", "after-1"]
    assert (found.pairs[0].baseline, found.pairs[0].before, found.pairs[0].after) == ("before-4", 1.0, 0.6)


def test_of_a_segment_its_own() -> None:
    """And none of another."""
    (found,) = find_changes(_comparison(), [failed("answer_coverage", "y")])
    assert [each.candidate for each in found.pairs] == ["after-3", "after-1"]


def test_what_is_in_order_has_none() -> None:
    """A cell that passes, one that is open and looks better, a floor."""
    better = unclear("answer_coverage", difference=0.01)
    assert find_changes(_comparison(), [cell(), better, failed("answer_coverage", family="floors")]) == ()
    assert find_changes(_comparison(), [unclear("answer_coverage")])


def test_what_is_worse_for_certain_within_its_margin_has_some() -> None:
    """It passed, and somebody who reads why wants to see where; behind what failed, and nothing of what only warns."""
    within = cell("answer_coverage", difference=-0.01, p_adjusted=0.001)
    (found,) = find_changes(_comparison(), [within])
    assert found.pairs[0].candidate == "after-4"
    assert find_changes(_comparison(), [within], alpha=0.0005) == ()
    assert (
        find_changes(_comparison(), [cell("answer_coverage", difference=-0.01, p_adjusted=0.001, action="warn")]) == ()
    )
    found, behind = find_changes(_comparison(), [within, failed("answer_coverage", "y")])
    assert (found.segment, behind.segment) == ("y", None)


def test_of_too_few_requests_what_broke_is_shown() -> None:
    """Stages that broke in single questions, though nothing is decided; no score whose difference is not known, nothing
    of a segment."""
    sound, flipped = np.zeros(ROWS), np.array([0.0, 1.0, 0.0, 0.0, np.nan, 0.0])
    before = population({"broken_generation": sound, "answer_coverage": np.ones(ROWS)}, name="before")
    after = population({"broken_generation": flipped, "answer_coverage": 0.5 * np.ones(ROWS)}, name="after")
    both = pair(before, after)
    (found,) = find_changes(both, [empty("broken_generation", None), empty("answer_coverage", None)])
    assert (found.metric, [each.candidate for each in found.pairs]) == ("broken_generation", ["after-1"])
    assert find_changes(both, [empty("broken_generation", "x"), empty("broken_generation", None, action="warn")]) == ()
    assert find_changes(both, [empty("answer_coverage", None, difference=-0.5)])


def test_without_pairs() -> None:
    """Against the baseline's mean; there is no partner to name."""
    both = _comparison()
    (found,) = find_changes(unpaired(both.baseline, both.candidate), [failed("answer_coverage", baseline=0.85)])
    assert [(each.baseline, each.before, each.candidate) for each in found.pairs] == [
        ("", None, "after-4"),
        ("", None, "after-3"),
        ("", None, "after-2"),
    ]


def test_equal_losses_are_ordered_by_the_other_metrics() -> None:
    """Of flips, which are all alike, those that lost most elsewhere."""
    ones, lost = np.ones(3), np.array([0.9, 0.2, 0.5])
    before = population({"broken_generation": 0 * ones, "answer_coverage": ones}, name="before")
    after = population({"broken_generation": ones, "answer_coverage": lost}, name="after")
    found, _ = find_changes(pair(before, after), [failed("broken_generation", None, 0.5), failed("answer_coverage")])
    assert [each.candidate for each in found.pairs] == ["after-1", "after-2", "after-0"]
