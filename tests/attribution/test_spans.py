"""Parts of texts by offset."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from ragtrace.attribution import merged_into_words
from ragtrace.attribution.spans import split, without
from ragtrace.errors import AttributionError


@dataclass
class Piece:
    """A token's place."""

    start: int
    end: int


def test_words_and_sentences() -> None:
    """Offsets slice the text; punctuation is a word of its own, a contraction one word."""
    text = "It doesn't leak. Call 112!"
    assert [span.text for span in split(text, "word")] == ["It", "doesn't", "leak", ".", "Call", "112", "!"]
    assert [span.text for span in split(text, "sentence")] == ["It doesn't leak.", "Call 112!"]
    assert all(text[span.start : span.end] == span.text for span in [*split(text, "word"), *split(text, "sentence")])
    with pytest.raises(AttributionError, match="no unit 'letter'; give one of word, sentence"):
        split(text, "letter")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("हिन्दी में पूछो।", ["हिन्दी", "में", "पूछो", "।"]),
        ("cafe\u0301, noir", ["cafe\u0301", ",", "noir"]),
        ("العَرَبِيَّة", ["العَرَبِيَّة"]),
        ("نمی\u200cشد", ["نمی\u200cشد"]),
        ("I ❤\ufe0flove \u0301", ["I", "❤", "\ufe0f", "love", "\u0301"]),
    ],
)
def test_marks_belong_to_their_letters(text: str, expected: list[str]) -> None:
    """Vowel signs and accents, of which a word must not be cut; a mark behind no letter stands alone."""
    found = split(text, "word")
    assert [span.text for span in found] == expected
    assert all(text[span.start : span.end] == span.text for span in found)


def test_only_the_given_occurrence_is_left_out() -> None:
    """The same word elsewhere stays, and no double space is left."""
    text = "the cat saw the dog"
    assert without(text, 12, 15) == "the cat saw dog"
    assert without(text, 0, 3) == "cat saw the dog"
    assert without(text, 16, 19) == "the cat saw the"
    assert without("why? because", 3, 4) == "why because"


@given(st.text("ab .\n", max_size=20), st.data())
def test_everything_else_stays(text: str, data: st.DataObject) -> None:
    """White space aside."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert "".join(without(text, start, end).split()) == "".join((text[:start] + text[end:]).split())


def test_tokens_are_merged_into_words() -> None:
    """Pieces of a word are summed, a leading space belongs to the piece, tokens without a place to nothing."""
    text = "Unbelievable rain, 3.5 l"
    places = [(0, 0), (0, 2), (2, 9), (9, 12), (12, 17), (17, 18), (18, 20), (20, 21), (21, 22), (22, 24), (0, 0)]
    found = merged_into_words(text, [Piece(*place) for place in places], [9, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9])
    assert [(word.text, word.weight) for word in found] == [
        ("Unbelievable", 6.0),
        ("rain", 4.0),
        (",", 5.0),
        ("3", 6.0),
        (".", 7.0),
        ("5", 8.0),
        ("l", 10.0),
    ]


def test_white_space_belongs_to_the_word_behind_it() -> None:
    """As it does where it begins a token; behind the last word there is none, so that one gets it."""
    text = " a  b\n"
    found = merged_into_words(text, [Piece(at, at + 1) for at in range(len(text))], [1, 2, 4, 8, 16, 32])
    assert [(word.text, word.weight) for word in found] == [("a", 3.0), ("b", 60.0)]
    assert merged_into_words(" \n", [Piece(0, 2)], [1]) == []


@given(st.text("ab .\n", max_size=20), st.data())
def test_no_value_is_lost(text: str, data: st.DataObject) -> None:
    """However the tokens cut the text, and in whatever order they come."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    tokens = data.draw(st.permutations([Piece(*pair) for pair in pairwise(cuts)]))
    words = merged_into_words(text, tokens, [1.0] * len(tokens))
    assert sum(word.weight for word in words) == (len(tokens) if text.strip() else 0)


def test_one_value_for_each_token() -> None:
    """Else it is not clear whose they are."""
    with pytest.raises(AttributionError, match="one value for each"):
        merged_into_words("a b", [Piece(0, 1), Piece(2, 3)], [1.0])
    with pytest.raises(AttributionError, match="values must be an array of real numbers"):
        merged_into_words("a b", [Piece(0, 1), Piece(2, 3)], ["1", "2"])


@pytest.mark.parametrize("place", [(2, 5), (4, 6), (-1, 1), (2, 1)])
def test_a_token_of_another_text_is_refused(place: tuple[int, int]) -> None:
    """Its value would go to a word that it is not of."""
    with pytest.raises(AttributionError, match=f"token {place[0]}:{place[1]} is not within the text of 3 characters"):
        merged_into_words("a b", [Piece(0, 1), Piece(*place)], [1.0, 2.0])
