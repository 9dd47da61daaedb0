"""Parts of a text by their offsets: words, sentences, tokens merged into words."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ragtrace.errors import AttributionError
from ragtrace.numeric import real_array

__all__ = ["Span", "Unit", "WeightedSpan", "merged_into_words", "split", "without"]

Unit: TypeAlias = Literal["word", "sentence"]
_WORD: Final = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_JOINERS: Final = "\u200c\u200d"  # stand within words of Persian and of Indic scripts


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end]`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class WeightedSpan:
    """A part of a text and what is attributed to it."""

    start: int
    end: int
    text: str
    weight: float


class _Offsets(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def split(text: str, unit: Unit) -> list[Span]:
    """The words (punctuation marks are words of their own) or sentences of `text`.

    A letter's marks (accents, vowel signs) belong to its word. Scripts that put no spaces between words, such as those
    of Chinese and Thai, are cut at spaces and punctuation alone. Raises: AttributionError for another unit.
    """
    if unit == "word":
        places = [found.span() for found in _WORD.finditer(_with_letters_for_marks(text))]
        return [Span(start, end, text[start:end]) for start, end in places]
    if unit == "sentence":
        from ragtrace.coverage.text import sentences

        return [Span(found.start, found.end, found.text) for found in sentences(text)]
    raise AttributionError(f"no unit {unit!r}; give one of {', '.join(get_args(Unit))}, or spans of your own")


def _with_letters_for_marks(text: str) -> str:
    """A text of the same length, in which a letter stands for each mark behind one: `\\w` takes no marks."""
    if text.isascii():
        return text
    shaped: list[str] = []
    for char in text:
        joins = char in _JOINERS or unicodedata.category(char).startswith("M")
        follows = bool(shaped) and (shaped[-1].isalnum() or shaped[-1] == "_")
        shaped.append("x" if joins and follows else char)
    return "".join(shaped)


def without(text: str, start: int, end: int) -> str:
    """`text` without `text[start:end]`: that occurrence only, and no doubled white space where it stood."""
    before, after = text[:start], text[end:]
    if not before or before[-1].isspace():
        return before + after.lstrip() if after.strip() else before.rstrip()
    return before + after


def merged_into_words(text: str, tokens: Sequence[_Offsets], values: ArrayLike) -> list[WeightedSpan]:
    """The words of `text` with the summed values of their tokens; nothing is lost.

    tokens: offsets into `text`, such as a tokenizer's pieces; a token belongs to the word in which it begins (white
    space in front of it aside), one of white space alone to the word behind it (or to the last), and one without text
    (start = end) to none. values: `(n_tokens,)`.

    Raises: AttributionError when there is not one value for each token, or a token lies outside of the text.
    """
    weights = real_array(values, "values", AttributionError)
    if weights.shape != (len(tokens),):
        raise AttributionError(f"values of shape {weights.shape} for {len(tokens)} tokens; give one value for each")
    outside = next((each for each in tokens if not 0 <= each.start <= each.end <= len(text)), None)
    if outside is not None:
        raise AttributionError(
            f"token {outside.start}:{outside.end} is not within the text of {len(text)} characters; give its own text"
        )
    words = split(text, "word")
    sums = np.zeros(len(words))
    ends = [word.end for word in words]
    for token, weight in zip(tokens, weights, strict=True):
        if words and token.start < token.end:
            sums[min(bisect_right(ends, token.start), len(words) - 1)] += weight
    return [WeightedSpan(word.start, word.end, word.text, float(sums[i])) for i, word in enumerate(words)]
