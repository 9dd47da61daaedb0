"""The retriever's scores: how far they set candidates apart, on any scale, and when they tell nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from ragtrace.coverage._reference import standings
from ragtrace.types import Candidate

FLAT = [0.5, 0.49, 0.48, 0.47, 0.46, 0.45, 0.44, 0.43, 0.42, 0.41, 0.4, 0.39]


def ranked(scores: Sequence[float | None]) -> list[Candidate]:
    """Candidates in the order of their ranks."""
    return [Candidate(chunk_id=f"c{rank}", rank=rank, score=score) for rank, score in enumerate(scores, start=1)]


def test_the_best_score_is_one_and_the_background_zero() -> None:
    """What lies between them is in proportion."""
    found = standings(ranked([1.0, 0.6, 0.3, 0.3, 0.3, *[0.2] * 6]))
    assert found[0] == 1.0
    assert found[1] == pytest.approx(0.5)
    assert found[-1] == pytest.approx(0.0)


@given(st.floats(0.01, 1000), st.floats(-1000, 1000))
def test_the_scale_of_the_scores_does_not_matter(factor: float, shift: float) -> None:
    """Cosines, BM25 and logits give the same for the same shape."""
    scaled = ranked([factor * score + shift for score in FLAT])
    assert standings(scaled) == pytest.approx(standings(ranked(FLAT)), abs=1e-4)


def test_distances_are_turned_around() -> None:
    """The smallest distance has the best rank."""
    assert standings(ranked([1 - score for score in FLAT])) == pytest.approx(standings(ranked(FLAT)))


@pytest.mark.parametrize(
    "scores",
    [FLAT[:9], [0.5] * 12, [None, *FLAT], [*FLAT, *FLAT], [float("nan"), *FLAT], [float("inf"), *FLAT], []],
    ids=["few", "alike", "absent", "mixed", "nan", "infinite", "none"],
)
def test_scores_that_tell_nothing(scores: Sequence[float | None]) -> None:
    """Too few, all alike, one absent, two retrievers' mixed, or no number: zeros."""
    assert standings(ranked(scores)).tolist() == [0.0] * len(scores)


def test_the_order_of_the_candidates_does_not_matter() -> None:
    """Only their ranks and scores do."""
    assert standings(ranked(FLAT)[::-1]).tolist() == standings(ranked(FLAT)).tolist()[::-1]
