"""Thresholds fitted to outcomes, and outcomes by action and kind."""

from __future__ import annotations

import random

import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.grading import LEAST_GAP, Action, GradedRequest, confidently_wrong, fit_upper, outcomes
from ragtrace.sample_statistics import TWO_SIDED_95, share_and_size, wilson


def test_the_least_threshold_that_is_right_often_enough() -> None:
    """Everything from 0.5 on is right, everything below is wrong: the line lies where the interval still reaches."""
    scores = [place / 100 for place in range(100)]
    found = fit_upper(scores, [score >= 0.5 for score in scores], 0.8)
    assert found.threshold is not None
    assert found.low is not None
    assert 0.4 < found.threshold <= 0.5
    assert found.low >= 0.8
    assert found.requests == sum(score >= found.threshold for score in scores)
    assert found.share == pytest.approx(50 / found.requests if found.requests > 50 else 1)


def test_equal_scores_are_never_parted() -> None:
    """40 right and 40 wrong ones at one score: no line can tell them apart."""
    found = fit_upper([0.5] * 80, [True] * 40 + [False] * 40, 0.6)
    assert (found.threshold, found.requests) == (None, 0)
    assert "80 requests" in str(found.reason)


def test_a_fitted_threshold_holds_on_other_requests() -> None:
    """Of 200 services the share that is right on new requests is below what was wanted in few, and hardly."""
    draw, below = random.Random(4), 0
    for _ in range(200):
        scores = [draw.random() for _ in range(600)]
        found = fit_upper(scores, [draw.random() < score for score in scores], 0.75)
        assert found.threshold is not None
        below += (1 + found.threshold) / 2 < 0.75  # of even scores from t on, (1 + t) / 2 are right
    assert below <= 20


@pytest.mark.parametrize(("scores", "right", "wanted"), [([0.1], [], 0.5), ([0.1], [True], 1.0), ([0.1], [True], 0)])
def test_what_cannot_be_fitted_is_refused(scores: list[float], right: list[bool], wanted: float) -> None:
    """Other lengths, and shares that are none."""
    with pytest.raises(ConfigurationError):
        fit_upper(scores, right, wanted)


def graded(action: Action, kind: str, right: int, of: int) -> list[GradedRequest]:
    """`of` requests of a kind, of which `right` were answered well."""
    return [GradedRequest(action, place < right, kind) for place in range(of)]


def test_outcomes_by_action_by_hand() -> None:
    """Counts, shares and intervals that hold them, most requests first."""
    found = outcomes(graded("CORRECT", "a", 30, 40) + graded("INCORRECT", "b", 2, 10))
    assert [(cell.action, cell.requests, cell.right) for cell in found] == [
        ("CORRECT", 40, 0.75),
        ("INCORRECT", 10, 0.2),
    ]
    assert found[0].low == pytest.approx(0.598, abs=1e-3)
    assert found[0].high == pytest.approx(0.858, abs=1e-3)


def test_a_confidently_wrong_kind_is_found() -> None:
    """Called CORRECT as often as the others, and answered worse; a kind of few requests, or one that is not trusted,
    is not named."""
    requests = [
        *graded("CORRECT", "country", 80, 100),
        *graded("CORRECT", "religion", 12, 40),
        *graded("CORRECT", "rare", 0, 5),
        *graded("CORRECT", "doubted", 2, 20),
        *graded("INCORRECT", "doubted", 5, 80),
    ]
    found = confidently_wrong(requests)
    assert [cell.kind for cell in found] == ["religion"]
    assert found[0].right == pytest.approx(0.3)


def test_kinds_that_are_alike_are_not_named() -> None:
    """Of 50 services with three equal kinds hardly one has a kind that is called confidently wrong."""
    draw = random.Random(8)
    named = sum(
        bool(confidently_wrong([GradedRequest("CORRECT", draw.random() < 0.7, draw.choice("abc")) for _ in range(200)]))
        for _ in range(50)
    )
    assert named <= 3


def test_of_many_equal_kinds_none_is_named() -> None:
    """Of 200 windows with seventeen equal kinds at most one in twenty names one, but for chance."""
    draw, kinds = random.Random(17), "abcdefghijklmnopq"
    named = sum(
        bool(
            confidently_wrong(
                [GradedRequest("CORRECT", draw.random() < 0.7, kind) for kind in kinds for _ in range(40)]
            )
        )
        for _ in range(200)
    )
    assert named <= 16


def test_a_small_gap_is_not_named() -> None:
    """However sure it is."""
    below = round(1000 * (0.9 - LEAST_GAP))
    usual = graded("CORRECT", "usual", 9_000, 10_000)
    assert confidently_wrong([*usual, *graded("CORRECT", "a", below + 10, 1000)]) == []
    assert [each.kind for each in confidently_wrong([*usual, *graded("CORRECT", "a", below, 1000)])] == ["a"]


def test_a_threshold_is_fitted_to_the_traffic() -> None:
    """A request that was drawn with a hundredth of the probability stands for a hundred: 60 right ones that were all
    kept do not outweigh 30 wrong ones of the same score."""
    scores, right = [0.5] * 90, [True] * 60 + [False] * 30
    assert fit_upper(scores, right, 0.5).threshold == 0.5
    assert fit_upper(scores, right, 0.5, [1.0] * 60 + [100.0] * 30).threshold is None
    weighed = fit_upper(scores, right, 0.5, [3.0] * 60 + [2.0] * 30)
    found, size = share_and_size([(each, 3.0 if each else 2.0) for each in right])
    assert (weighed.share, weighed.low) == pytest.approx((found, wilson(found * size, size, TWO_SIDED_95)[0]))
    with pytest.raises(ConfigurationError):
        fit_upper(scores, right, 0.5, [1.0])
