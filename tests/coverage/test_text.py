"""Sentences with exact offsets, content words and negations."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.coverage.text import content_words, is_english, negation_count, sentences, stem

ANSWER = (
    "Dr. Smith paid 3.5 million EUR in Jan. 2024 [1]. It isn't covered. [2, 3]\n\n"
    "# Limits\nThe limit is €1,000.50.\n- First item (see sec. 4.2)\n2. Second item\nGo on."
)


def test_sentences_survive_abbreviations_numbers_lists_and_citations() -> None:
    """A list item and a heading are sentences, a citation mark stays with its sentence."""
    assert [sentence.text for sentence in sentences(ANSWER)] == [
        "Dr. Smith paid 3.5 million EUR in Jan. 2024 [1].",
        "It isn't covered. [2, 3]",
        "# Limits",
        "The limit is €1,000.50.",
        "First item (see sec. 4.2)",
        "Second item\nGo on.",
    ]


@given(st.text(max_size=400))
def test_offsets_always_slice_to_the_sentence(text: str) -> None:
    """text[start:end] is the sentence, in order and without overlap, for any text."""
    found = sentences(text)
    assert all(text[item.start : item.end] == item.text and item.text.strip() for item in found)
    assert all(one.end <= two.start for one, two in pairwise(found))


@pytest.mark.parametrize(
    ("text", "count"),
    [("It is covered.", 0), ("It isn’t covered, nor is that.", 2), ("No cover without notice", 2), ("", 0)],
)
def test_negations_are_counted(text: str, count: int) -> None:
    """Negating words and contractions count once each."""
    assert negation_count(text) == count


def test_content_words_are_stems_without_stop_words_and_numbers() -> None:
    """Inflected forms meet in one stem; numbers are values, not words."""
    assert content_words("The insurers' 30 policies were insured") == [stem("insurers"), stem("policy"), stem("insure")]


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("The notice period is 30 days.", True),
        ("€5,000", True),
        ("", True),
        ("Die Frist gilt nicht für Mieter.", False),
        ("La garantie est exclue pour les vols.", False),
        ("期限は30日です", False),
    ],
)
def test_other_languages_are_told_apart(text: str, english: bool) -> None:
    """The lexical rules are for English; what they do not fit is left undefined by the analyzer."""
    assert is_english(text) is english
