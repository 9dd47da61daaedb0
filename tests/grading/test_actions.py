"""Actions and strips on hand-made cases."""

from __future__ import annotations

import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.grading import POPQA, Action, GradeThresholds, action_of, document_action, grade_of, refine, strips


@pytest.mark.parametrize(
    ("scores", "action"),
    [
        ([0.59], "CORRECT"),
        ([0.58, -1.0], "AMBIGUOUS"),
        ([-0.99, -1.0], "AMBIGUOUS"),
        ([-0.995, -1.0], "INCORRECT"),
        ([-1.0, 0.9, 0.1], "CORRECT"),
        ([], "INCORRECT"),
    ],
)
def test_the_best_document_decides(scores: list[float], action: Action) -> None:
    """At PopQA's thresholds, which belong to the upper side."""
    assert action_of(scores, POPQA) == action
    assert action_of(scores[::-1], POPQA) == action


def test_equal_thresholds_know_no_ambiguity() -> None:
    """One line: above it CORRECT, below it INCORRECT."""
    line = GradeThresholds(upper=0.0, lower=0.0)
    assert [document_action(score, line) for score in (-0.1, 0.0, 0.1)] == ["INCORRECT", "CORRECT", "CORRECT"]


@pytest.mark.parametrize(("upper", "lower"), [(0.1, 0.2), (1.1, 0.0), (0.0, -1.1), (float("nan"), 0.0)])
def test_thresholds_out_of_range_are_refused(upper: float, lower: float) -> None:
    """Beyond [−1, 1], or in the wrong order."""
    with pytest.raises(ConfigurationError, match="threshold"):
        GradeThresholds(upper, lower)


def test_a_probability_becomes_a_score() -> None:
    """Even odds are 0."""
    assert [grade_of(each) for each in (0, 0.5, 1)] == [-1, 0, 1]
    with pytest.raises(ConfigurationError):
        grade_of(1.2)


def test_a_score_that_is_none_is_refused() -> None:
    """NaN compares with nothing, and would be INCORRECT."""
    with pytest.raises(ConfigurationError):
        action_of([float("nan")], POPQA)


def test_strips_are_of_three_sentences() -> None:
    """The last one holds what is left."""
    sentences = [(0, 9), (10, 19), (20, 29), (30, 39)]
    assert strips(sentences) == [(0, 29), (30, 39)]
    assert strips(sentences, 2) == [(0, 19), (20, 39)]
    assert strips([]) == []
    with pytest.raises(ConfigurationError):
        strips(sentences, 0)


def test_the_best_five_strips_stay_in_the_order_of_the_document() -> None:
    """What is below −0.5 goes; of equal ones the earlier stays."""
    assert refine([0.1, 0.9, -0.6, 0.3, -0.5, 0.2, 0.1]) == [0, 1, 3, 5, 6]
    assert refine([0.5, 0.5, 0.5], most=2) == [0, 1]
    assert refine([-0.51]) == []
    with pytest.raises(ConfigurationError):
        refine([0.5], most=0)
