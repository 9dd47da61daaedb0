"""The words of long questions in groups."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from ragtrace.attribution.spans import Span, phrases, refined, split
from ragtrace.errors import AttributionError


def words_of(text: str) -> list[Span]:
    """Without punctuation marks."""
    return [word for word in split(text, "word") if any(map(str.isalnum, word.text))]


def cut(text: str, most: int) -> list[str]:
    """The texts of the groups."""
    words = words_of(text)
    return [text[words[first].start : words[last - 1].end] for first, last in phrases(text, words, most)]


def test_groups_are_phrases() -> None:
    """Sentences first, then what punctuation parts, then function words."""
    text = "We moved to Rome. Is theft covered there, and for how long?"
    assert cut(text, 1) == ["We moved to Rome. Is theft covered there, and for how long"]
    assert cut(text, 2) == ["We moved to Rome", "Is theft covered there, and for how long"]
    assert cut(text, 3) == ["We moved to Rome", "Is theft covered there", "and for how long"]
    assert cut("red bridge of the old town", 2) == ["red bridge", "of the old town"]
    assert cut("rote Burg auf dem hohen Berg", 2) == ["rote Burg", "auf dem hohen Berg"]


def test_a_language_without_spaces_is_cut_at_its_marks() -> None:
    """A clause without spaces is one word; sentences part first."""
    assert cut("我住在巴黎。盗窃在国外,是否承保?", 2) == ["我住在巴黎", "盗窃在国外,是否承保"]
    assert cut("", 30) == []
    assert cut("?!", 30) == []


def test_the_heaviest_group_is_cut_and_one_without_mass_stays() -> None:
    """Down to single words, where there is room."""
    text = "a1 a2 a3 a4 b1 b2 b3 b4"
    words, groups = words_of(text), [(0, 4), (4, 8)]
    assert refined(text, words, groups, [0.0, 1.0], 3) == [(0, 4), (4, 6), (6, 8)]
    assert refined(text, words, groups, [0.0, 1.0], 8) == [(0, 4), (4, 5), (5, 6), (6, 7), (7, 8)]
    assert refined(text, words, groups, [0.0, 0.0], 8) == groups
    with pytest.raises(AttributionError, match="give a mass for each"):
        refined(text, words, groups, [1.0], 8)


@given(st.text(max_size=200), st.integers(1, 12))
def test_groups_hold_each_word_once_in_order(text: str, most: int) -> None:
    """As many as asked for, or one for each word."""
    words = words_of(text)
    groups = phrases(text, words, most)
    assert len(groups) == min(most, len(words))
    assert all(before[1] == after[0] for before, after in pairwise(groups))
    assert not groups or (groups[0][0], groups[-1][1]) == (0, len(words))
