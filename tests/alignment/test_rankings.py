"""Rankings from scores, and their correlation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrace.alignment import rank_by_score, spearman
from ragtrace.errors import ConfigurationError


def test_descending_score() -> None:
    """The best first; with a column per token its mean counts."""
    assert rank_by_score(["a", "b", "c"], [0.1, 0.7, 0.2]).documents == ("b", "c", "a")
    assert rank_by_score(["a", "b"], [[3, 0, 0], [0, 2, 2]]).documents == ("b", "a")


def test_ties_are_broken_by_the_retriever_and_counted() -> None:
    """Equal scores keep the order of the documents, also when they differ by a rounding error."""
    ranked = rank_by_score(["a", "b", "c", "d"], [0.5, 0.9, 0.5 + 1e-15, 0.5])
    assert ranked.documents == ("b", "a", "c", "d")
    assert ranked.ties == 2
    assert rank_by_score(["a", "b"], [1, 2]).ties == 0
    assert rank_by_score(["a"], [1]).ties == 0


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0], "one row for each of 2"),
        ([1.0, np.nan], "'b' is not finite"),
        (np.zeros((2, 0)), "one row for each"),
        (["1", "2"], "scores must be an array of real numbers"),
    ],
)
def test_scores_that_rank_nothing(scores: list[float], message: str) -> None:
    """Too few, undefined, of no token, or no numbers."""
    with pytest.raises(ConfigurationError, match=message):
        rank_by_score(["a", "b"], scores)


@pytest.mark.parametrize("tolerance", [-1e-9, np.nan, "0", None])
def test_a_tolerance_is_a_number_of_at_least_zero(tolerance: float) -> None:
    """Below 0, and with NaN, not even equal scores would tie."""
    with pytest.raises(ConfigurationError, match="give a number of 0 or more"):
        rank_by_score(["a", "b"], [1, 1], tolerance=tolerance)
    assert rank_by_score(["a", "b"], [1, 1], tolerance=0).ties == 1


@given(st.permutations(range(8)))
def test_spearman_is_the_correlation_of_ranks(order: list[int]) -> None:
    """Held against Pearson's correlation of the two rank vectors."""
    ranks = np.argsort(order)
    assert spearman(range(8), order) == pytest.approx(np.corrcoef(np.arange(8), ranks)[0, 1])


def test_spearman_of_extremes() -> None:
    """1 for equal, -1 for reversed, undefined for one document, an error for different documents."""
    assert spearman("a b c".split(), "a b c".split()) == 1
    assert spearman("a b c".split(), "c b a".split()) == -1
    assert spearman(["a"], ["a"]) is None
    with pytest.raises(ConfigurationError, match="one of the two rankings only"):
        spearman(["a"], ["b"])
