"""Parts of a text by their offsets: words, sentences, tokens merged into words, and phrases of a long question.

Phrases are so few that something can be attributed to each of them. A text is cut between words: best between
sentences, then at punctuation marks, then before function words ("of the bridge"), then in the middle.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ragtrace.errors import AttributionError
from ragtrace.numeric import real_array

__all__ = ["Phrase", "Span", "Unit", "WeightedSpan", "merged_into_words", "phrases", "refined", "split", "without"]

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


Phrase: TypeAlias = tuple[int, int]
"""The words from the first number on, up to the second, exclusive."""
_ENDS: Final = frozenset(".?!\n…。？！｡؟۔।॥")  # noqa: RUF001  # of sentences, in Latin, Chinese, Arabic and Indic scripts


def phrases(text: str, words: Sequence[Span], most: int) -> list[Phrase]:
    """The words of `text` in at most `most` groups of neighbors, in their order; the longest are cut first.

    Raises: AttributionError for `most` below 1.
    """
    whole = [(0, len(words))] if words else []
    return refined(text, words, whole, [float(len(words))] * len(whole), most)


def refined(
    text: str, words: Sequence[Span], groups: Sequence[Phrase], masses: Sequence[float], most: int
) -> list[Phrase]:
    """The groups, the heaviest of them cut until there are `most`, each one is a word, or the rest weighs nothing.

    masses: how much lies in each group, at least 0; of one that is cut, its parts are taken to have their words' part.

    Raises: AttributionError for `most` below 1, or where masses and groups differ in number.
    """
    if most < 1 or len(groups) != len(masses):
        raise AttributionError(
            f"{len(groups)} groups, {len(masses)} masses, at most {most}; give a mass for each, most >= 1"
        )
    strengths = [0, *(_strength(text, left, right) for left, right in pairwise(words))]
    found = [(-mass, *group) for mass, group in zip(masses, groups, strict=True)]
    open_groups = [each for each in found if each[0] < 0 and each[2] - each[1] > 1]
    done = [each for each in found if each not in open_groups]
    heapq.heapify(open_groups)
    while open_groups and len(open_groups) + len(done) < most:
        mass, start, end = heapq.heappop(open_groups)
        cut = _cut(strengths, start, end)
        for first, last in ((start, cut), (cut, end)):
            part = (mass * (last - first) / (end - start), first, last)
            if last - first > 1:
                heapq.heappush(open_groups, part)
            else:
                done.append(part)
    return sorted((start, end) for _, start, end in [*open_groups, *done])


def _cut(strengths: Sequence[int], start: int, end: int) -> int:
    """The number of the word before which a group is cut: of the strongest borders the one in the middle."""
    return max(range(start + 1, end), key=lambda place: (strengths[place], -abs(2 * place - start - end)))


def _strength(text: str, left: Span, right: Span) -> int:
    """3 between sentences, 2 at a punctuation mark, 1 where a phrase begins with function words, else 0."""
    from ragtrace.coverage.text import is_function_word

    between = text[left.end : right.start]
    if not _ENDS.isdisjoint(between):
        return 3
    if between.strip():
        return 2
    return int(is_function_word(right.text) and not is_function_word(left.text))
