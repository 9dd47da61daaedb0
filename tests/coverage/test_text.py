"""Sentences with exact offsets, content words and negations."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import snowballstemmer
from hypothesis import given, strategies as st

from ragtrace.coverage.text import (
    Readings,
    content_stems,
    content_words,
    is_english,
    located_terms,
    sentences,
    stem,
    without_accents,
)

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


def test_negations_are_no_content_and_a_hard_shell_is() -> None:
    """Negating words in any form; "hard" is not "hardly", though their stems are one."""
    assert content_words("It isn't covered, nor never is that, without a hard shell") == ["cover", "hard", "shell"]
    assert content_stems("Hail isn't covered, hail 30 times") == {"hail", "cover", "time"}


def test_content_words_are_stems_without_stop_words_and_numbers() -> None:
    """Inflected forms meet in one stem; numbers are values, not words."""
    assert content_words("The insurers' 30 policies were insured") == [stem("insurers"), stem("policy"), stem("insure")]


def test_accents_are_read_alike_in_one_character_or_two() -> None:
    """NFC and NFD, and no accent at all; offsets are those of the text."""
    assert without_accents("Makedonía, Makedoni\u0301a") == "Makedonia, Makedonia"
    assert content_words("The re\u0301sume\u0301s") == content_words("the résumés") == content_words("resumes")
    assert located_terms("a cafe\u0301 bill") == [("cafe", 2), ("bill", 8)]


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("The notice period is 30 days.", True),
        ("€5,000", True),
        ("", True),
        ("Die Frist gilt nicht für Mieter.", False),
        ("La garantie est exclue pour les vols.", False),
        ("期限は30日です", False),
        ("Giới hạn là ba mươi ngày và không hơn.", False),
        ("Limita este de treizeci de zile și nu mai mult.", False),
        ("Limit wynosi trzydzieści dni i nie więcej.", False),
        ("Batasnya adalah tiga puluh hari dan tidak lebih dari itu.", False),
        ("Kikomo ni siku thelathini na si zaidi ya hapo kwa mujibu wa sheria.", False),
        ("Raja on kolmekymmentä päivää eikä sitä enempää makseta.", False),
        ("A határ harminc nap, és nem több.", False),
        ("Lech Wałęsa met Jarosław Kaczyński in Gdańsk.", True),
        ("The café's naïve résumé policy is about to die in war.", True),
        ("Ford EcoBoost 400 Hamlin, Denny Larson, Kyle Truex Jr., Martin", True),
    ],
)
def test_other_languages_are_told_apart(text: str, english: bool) -> None:
    """The lexical rules are for English; what they do not fit is left undefined by the analyzer."""
    assert is_english(text) is english


def test_quotation_marks_without_end_are_cut() -> None:
    """The segmenter's time grows with their square: no sentence is much longer than it is given at once."""
    text = '"' * 50_000
    found = sentences(text)
    assert "".join(text[each.start : each.end] for each in found) == text
    assert max(len(each.text) for each in found) <= 10_001


def test_a_text_is_read_once_and_the_oldest_is_forgotten() -> None:
    """Bounded by the characters read, whatever the texts' number; the newest is kept, however long it is."""
    asked: list[str] = []

    def read(text: str) -> object:
        asked.append(text[:1])
        return object()

    kept = Readings(read, most=100)
    first = kept("a" * 40)
    for other in ("b", "c"):
        kept(other * 40)
        assert kept("a" * 40) is first
    assert asked == ["a", "b", "c"]
    kept("b" * 40)
    assert asked == ["a", "b", "c", "b"]
    long = kept("d" * 1000)
    assert kept("d" * 1000) is long
    assert kept("a" * 40) is not first


def test_threads_stem_alike() -> None:
    """The stemmer holds the word that it works on: workers that are threads of one process share it."""
    words = [f"{start}{middle}{end}" for start in ("hop", "nat", "relat", "gener", "conform") for middle in range(300)
             for end in ("ing", "ational", "iveness", "edly")]  # fmt: skip
    alone = snowballstemmer.stemmer("english")
    expected = [alone.stemWord(word) for word in words]
    stem.cache_clear()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(stem, words, chunksize=1))
    finally:
        sys.setswitchinterval(before)
    assert found == expected
