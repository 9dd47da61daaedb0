"""Pairs: requests of two sides that asked the same question, each at most once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.errors import InputError
from ragtrace.gate.model import Comparison
from ragtrace.gate.pairing import compared
from tests.gate.populations import population


def _compared(baseline: Sequence[str], candidate: Sequence[str], pairing: str = "auto", **options: bool) -> Comparison:
    before, after = (
        population({"answer_coverage": [1.0] * len(questions)}, name=name, questions=questions)
        for name, questions in (("old", baseline), ("new", candidate))
    )
    return compared(before, after, pairing, **options)  # type: ignore[arg-type]  # one of its words


def _rows(comparison: Comparison) -> list[tuple[int, int]]:
    assert comparison.pairs is not None
    return [(int(one), int(other)) for one, other in comparison.pairs]


def test_the_same_questions_are_paired_in_any_order() -> None:
    """Both sides have them all."""
    found = _compared("abc", "cab")
    assert (_rows(found), found.unmatched) == ([(0, 1), (1, 2), (2, 0)], (0, 0))


def test_what_has_no_partner_is_counted() -> None:
    """On each side by itself; a request without a question has none."""
    found = _compared(["a", "b", ""], ["b", "a", "c", ""], "paired")
    assert (_rows(found), found.unmatched) == ([(0, 1), (1, 0)], (1, 2))


def test_a_question_that_was_asked_often_is_paired_in_order() -> None:
    """The first with the first, and nobody twice."""
    found = _compared("aba", "aaab")
    assert (_rows(found), found.unmatched) == ([(0, 0), (1, 3), (2, 1)], (0, 1))


def test_traffic_of_other_questions_is_not_paired() -> None:
    """Fewer than half of a side's requests have a partner: the few popular ones would speak for all."""
    assert not _compared("abcdef", "abxyzu").paired
    assert _compared("abcd", "abcx").paired
    assert _compared("abcdef", "abxyzu", expected=True).paired


def test_nobody_is_paired_against_the_policy() -> None:
    """`unpaired` holds whatever the questions are."""
    found = _compared("abc", "abc", "unpaired", expected=True)
    assert (found.paired, found.unmatched) == (False, (0, 0))


@pytest.mark.parametrize(("pairing", "expected"), [("paired", False), ("auto", True)])
def test_disjoint_questions_are_refused(pairing: str, expected: bool) -> None:
    """Where pairs are demanded, or both sides were given their questions."""
    with pytest.raises(
        InputError, match=r"no question of the baseline 'old' \(2 questions\) stands in the candidate 'new'"
    ):
        _compared("ab", "c", pairing, expected=expected)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcd")))
def test_pairs_are_as_many_as_there_can_be(baseline: list[str], candidate: list[str]) -> None:
    """Each row stands in at most one pair, and partners asked the same."""
    if not (set(baseline) & set(candidate)):
        return
    rows = _rows(_compared(baseline, candidate, "paired"))
    assert all(baseline[one] == candidate[other] for one, other in rows)
    assert len({one for one, _ in rows}) == len({other for _, other in rows}) == len(rows)
    assert len(rows) == sum(min(baseline.count(each), candidate.count(each)) for each in "abc")
