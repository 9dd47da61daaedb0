"""The benchmark of corrective retrieval: what it takes away, what it counts as right, and its interval."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bench.corrective import Result, collections_of, difference, is_right, kinds_of, run, setting_of
from bench.datasets import Case, DataSet
from ragtrace.grading import GradeThresholds

NAMES = ("amber", "basil", "cedar", "dahlia", "elder", "fennel", "ginger", "hazel", "iris", "juniper")


def case(name: str) -> Case:
    """A question that one sentence of one passage answers."""
    said = f"The price of {name} was {len(name)} crowns."
    return Case(name, name, f"What was the price of {name}?", name, {name: (said,)}, ())


CASES = [case(name) for name in NAMES]
DATA = DataSet(
    "small", {name: f"{name}\nMuch is known of {name}. {case(name).evidence[name][0]}" for name in NAMES}, CASES
)


def test_evidence_is_removed_for_the_stated_share() -> None:
    """Three of ten, one of these from the server too, where a near miss of each stands."""
    kinds = kinds_of(CASES, random.Random(1))
    assert Counter(kinds.values()) == {"untouched": 7, "on the server": 2, "nowhere": 1}
    index, pages = collections_of(DATA, kinds)
    for each in CASES:
        kind, said = kinds[each.case_id], each.evidence[each.case_id][0]
        assert (each.case_id in index) is (kind == "untouched")
        assert any(said in text for text in pages.values()) is (kind != "nowhere")
        assert (pages.get(each.case_id) == f"{each.case_id}\nMuch is known of {each.case_id}. ") is (
            kind != "untouched"
        )


def test_an_answer_is_right_that_holds_the_evidence() -> None:
    """Word for word, wherever it stands; a part of it is not enough."""
    assert is_right(CASES[0], "Well. The price of amber was 5 crowns! So it is.")
    assert not is_right(CASES[0], "The price of amber was 50 crowns.")


def test_correction_gains_what_the_server_holds() -> None:
    """And nothing where the evidence is nowhere."""
    with setting_of(CASES, DATA, 1) as setting:
        results = run(CASES, setting, GradeThresholds(0.4, 0.4))
    gained = {each.kind: (each.is_right, each.is_corrected_right) for each in results}
    assert gained == {"untouched": (True, True), "on the server": (False, True), "nowhere": (False, False)}
    assert all((each.calls > 0) is (each.action != "CORRECT") for each in results)


def test_the_difference_is_paired() -> None:
    """Questions that do not change tell nothing against a gain; without any change the interval is a point."""

    def result(before: bool, after: bool) -> Result:
        return Result("untouched", before, after, "CORRECT", 0, 0.0, 0.0)

    assert difference([result(True, True)] * 20) == (0, 0, 0)
    mean, low, high = difference([*[result(True, True)] * 80, *[result(False, True)] * 20])
    assert mean == pytest.approx(20)
    assert 8 < low < 15 < 25 < high < 32
