"""Similarities of texts and vectors, on published examples."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragtrace.attribution.perturbation import SIMILARITIES, cosine, jaro_winkler, levenshtein, ngram_jaccard

TEXTUAL = [levenshtein, jaro_winkler, ngram_jaccard]


def test_levenshtein() -> None:
    """kitten and sitting are three edits apart; rankings of ids compare too."""
    assert levenshtein("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert levenshtein([3, 1, 2], [3, 2]) == pytest.approx(1 - 1 / 3)
    assert levenshtein("", "abc") == 0


@pytest.mark.parametrize(
    ("a", "b", "expected"), [("MARTHA", "MARHTA", 0.961), ("DIXON", "DICKSONX", 0.813), ("DWAYNE", "DUANE", 0.84)]
)
def test_jaro_winkler(a: str, b: str, expected: float) -> None:
    """Winkler's own examples."""
    assert jaro_winkler(a, b) == pytest.approx(expected, abs=5e-4)


def test_ngram_jaccard() -> None:
    """abcd and bcde share one of three trigrams; what is shorter than n is compared as a whole."""
    assert ngram_jaccard("abcd", "bcde") == pytest.approx(1 / 3)
    assert ngram_jaccard("ab", "ab") == 1
    assert ngram_jaccard("ab", "ba") == 0


def test_cosine() -> None:
    """Of directions; nothing is similar to a zero vector."""
    assert cosine([1, 0], [3, 0]) == 1
    assert cosine([1, 0], [1, 1]) == pytest.approx(2**-0.5)
    assert cosine([0, 0], [1, 1]) == 0


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8))
def test_cosine_stays_in_its_range(vector: list[float]) -> None:
    """Rounding takes no vector beyond 1 to itself, or below -1 to its opposite."""
    assert cosine(vector, vector) <= 1
    assert cosine(vector, [-each for each in vector]) >= -1


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_textual_similarities(a: str, b: str) -> None:
    """Symmetric, within [0, 1], and 1 for equal texts, empty ones included."""
    for similarity in TEXTUAL:
        assert 0 <= similarity(a, b) <= 1
        assert similarity(a, a) == pytest.approx(1)
        assert similarity(a, b) == pytest.approx(similarity(b, a))
    assert set(TEXTUAL) | {cosine} == set(SIMILARITIES.values())
