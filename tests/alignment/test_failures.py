"""Wasted retrieval and noise distraction."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st
from numpy import int64

from ragtrace.alignment import flag_probabilities, noise_distraction, wasted_retrieval
from ragtrace.errors import ConfigurationError


def test_the_best_document_is_hardly_used() -> None:
    """At 0-based generator rank 3 it is wasted, at rank 2 it is not."""
    retriever = ["a", "b", "c", "d"]
    assert wasted_retrieval(retriever, ["b", "c", "d", "a"]) is True
    assert wasted_retrieval(retriever, ["b", "c", "a", "d"]) is False
    assert noise_distraction(retriever, ["b", "c", "d", "a"]) is False


def test_the_generator_rests_on_a_low_document() -> None:
    """Its best document has the 0-based retriever rank 3."""
    retriever = ["a", "b", "c", "d"]
    assert noise_distraction(retriever, ["d", "a", "b", "c"]) is True
    assert noise_distraction(retriever, ["c", "a", "b", "d"]) is False
    assert wasted_retrieval(retriever, ["d", "a", "b", "c"]) is False


@pytest.mark.parametrize("k", [1, 2, 3])
def test_too_few_documents(k: int) -> None:
    """With k <= 3 no rank is above 2, and both are undefined."""
    order = list(range(k))
    assert wasted_retrieval(order, order[::-1]) is None
    assert noise_distraction(order, order[::-1]) is None
    assert wasted_retrieval(order, order[::-1], cutoff=0) == (None if k == 1 else True)


@given(st.permutations(range(6)), st.permutations(range(6)), st.integers(0, 6))
def test_each_is_the_other_with_the_roles_exchanged(a: list[int], b: list[int], cutoff: int) -> None:
    """And a higher cutoff never sets a flag."""
    assert wasted_retrieval(a, b, cutoff) == noise_distraction(b, a, cutoff)
    assert not (wasted_retrieval(a, b, cutoff + 1) and not wasted_retrieval(a, b, cutoff))


@pytest.mark.parametrize("cutoff", [2.5, math.nan, math.inf, True, "2", None])
def test_a_cutoff_is_a_rank(cutoff: int) -> None:
    """An integer: no rank is above NaN, so that nothing would ever be flagged."""
    with pytest.raises(ConfigurationError, match="give a 0-based rank, an integer"):
        wasted_retrieval([1, 2, 3, 4], [4, 3, 2, 1], cutoff)
    with pytest.raises(ConfigurationError, match="give a 0-based rank, an integer"):
        flag_probabilities([[1, 2, 3, 4]], cutoff)


def test_flags_are_truth_values() -> None:
    """Of Python, also for a cutoff of NumPy: `is True` and JSON know no others."""
    cutoff: Any = int64(2)
    assert wasted_retrieval([1, 2, 3, 4], [4, 3, 2, 1], cutoff) is True


def test_bad_input() -> None:
    """A negative cutoff, and documents of which one side knows nothing."""
    with pytest.raises(ConfigurationError, match="cutoff is -1"):
        wasted_retrieval(["a"], ["a"], cutoff=-1)
    with pytest.raises(ConfigurationError, match="restrict both to the documents of the prompt"):
        noise_distraction(["a", "b"], ["a"])
