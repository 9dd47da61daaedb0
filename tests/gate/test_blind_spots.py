"""What a comparison cannot see, and what its reader must know, said in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from ragtrace.gate._population import compared
from ragtrace.gate._remarks import blind_spots
from ragtrace.gate.policy import default_rule
from ragtrace.gate.types import Comparison, Policy
from tests.gate.populations import pair, population, unpaired

COUNT = 100
SEGMENTS = ["a" if row < 80 else "b" for row in range(COUNT)]
RULE = default_rule("answer_coverage")


def _comparison(missing: Sequence[int], *, paired: bool = True, before: Sequence[int] = ()) -> Comparison:
    values = []
    for rows in (before, missing):
        scores = np.ones(COUNT)
        scores[list(rows)] = np.nan
        values.append(scores)
    sides = [population({"answer_coverage": each, "broken_generation": each * 0}, segments=SEGMENTS) for each in values]
    return (pair if paired else unpaired)(sides[0], sides[1])


def _told(comparison: Comparison, **changes: Any) -> tuple[str, ...]:
    return blind_spots(comparison, Policy(rules=(msgspec.structs.replace(RULE, **changes),)))


@pytest.mark.parametrize("paired", [True, False])
def test_values_that_only_the_candidate_lacks_are_counted(paired: bool) -> None:
    """More than the margin could hide; the other way round nothing is hidden."""
    [told] = _told(_comparison(range(40), paired=paired))
    assert told.endswith("a loss stays unseen: answer coverage (40 of 100 requests).")
    assert _told(_comparison((), before=range(40), paired=paired)) == ()
    assert _told(_comparison(range(40), before=range(40, 80), paired=paired)) == ()


def test_a_few_values_less_are_chance() -> None:
    """Within the margin, or fewer than five."""
    assert _told(_comparison(range(4))) == ()
    assert _told(_comparison(range(0, 90, 10)), margin=0.1) == ()
    assert len(_told(_comparison(range(11)), margin=0.1)) == 1


def test_a_segment_without_values_is_named() -> None:
    """Where the loss is too small to show over all requests."""
    [told] = _told(_comparison(range(90, 100)), margin=0.2)
    assert told.endswith("answer coverage in segment b (10 of 20 requests).")


def test_segments_that_the_candidate_lacks_are_named() -> None:
    """Nothing of them is judged; one whose questions have partners is, whatever the candidate calls it."""
    scores = {"answer_coverage": np.ones(COUNT)}
    baseline = population(scores, segments=SEGMENTS)
    candidate = population({"answer_coverage": np.ones(80)}, segments=["a"] * 80, questions=baseline.questions[:80])
    for comparison in (unpaired(baseline, candidate), compared(baseline, candidate, "paired")):
        *_, told = _told(comparison)
        assert told.startswith(
            "The candidate has no request of segments that the baseline has, and they are not judged: "
        )
        assert "b (20 of the baseline's requests); `required_segments`" in told
    assert _told(pair(baseline, population(scores, segments=["a"] * COUNT))) == ()
    assert _told(unpaired(candidate, baseline)) == ()


def test_what_is_not_judged_any_more_is_told_apart() -> None:
    """A stage that only the candidate leaves suspected or not known is no missing value; hints are never told."""
    comparison = _comparison(range(40))
    rules = tuple(default_rule(metric) for metric in ("broken_generation", "suspected_generation", "answer_coverage"))
    values, judged = blind_spots(comparison, Policy(rules=rules))
    assert values.endswith("and a loss stays unseen: answer coverage (40 of 100 requests).")
    assert judged == (
        "Where only the candidate's stage is suspected or not known, it is not compared, and a break stays unseen: "
        "generation (40 of 100 requests)."
    )


def test_requests_without_states_are_told_with_the_remedy() -> None:
    """Their analysis is older than the states of stages."""
    [told] = _said(_two_requests(stateless=2))
    assert told.startswith("2 requests of the candidate were judged by an earlier version of the analyzer")
    assert told.endswith("run ragtrace analyze --redo.")


def test_margins_of_unknown_segments_are_said() -> None:
    """A slip in a name would leave the wider margin in force."""
    [told] = _told(_comparison(()), segment_margins={"a": 0.01, "bb": 0.01})
    assert told == "The policy has margins for segments that no request is of: bb; the segments are a, b."


def _two_requests(*, unmatched: int = 0, **fields: Any) -> Comparison:
    one = population({"answer_coverage": [1.0, 1.0]})
    return Comparison(one, replace(one, **fields), np.array([[0, 0]]), (unmatched, unmatched))


def _said(comparison: Comparison, left_out: Sequence[str] = ()) -> tuple[str, ...]:
    return blind_spots(comparison, Policy(rules=(RULE,)), left_out)


def test_what_was_left_out_is_said() -> None:
    """Rows without a partner, requests that cannot be judged, rules without data, and sides that mix versions."""
    mixed = {"model": {"m1": 5, "m2": 9, "m3": 1, "m4": 2}, "index": {"i": 17}}
    told = _said(_two_requests(unmatched=1, excluded={"not analyzed": 4}, versions=mixed), left_out=["output_tokens"])
    assert told == (
        "Left out of the candidate: 4 not analyzed.",
        "The candidate mixes versions: model m2 (9), m1 (5), m4 (2), ....",
        "Without a partner, and left out: 1 of the baseline's requests and 1 of the candidate's.",
        "Neither side has them, so they are not judged: output_tokens.",
    )
