"""Parts of a text by their offsets: words, sentences, tokens merged into words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ragtrace.errors import AttributionError

__all__ = ["Span", "Unit", "WeightedSpan", "merged_into_words", "split", "without"]

Unit: TypeAlias = Literal["word", "sentence"]
_WORD: Final = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


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

    Raises: AttributionError for another unit.
    """
    if unit == "word":
        return [Span(found.start(), found.end(), found.group()) for found in _WORD.finditer(text)]
    if unit == "sentence":
        from ragtrace.coverage.text import sentences

        return [Span(found.start, found.end, found.text) for found in sentences(text)]
    raise AttributionError(f"no unit {unit!r}; give one of {', '.join(get_args(Unit))}, or spans of your own")


def without(text: str, start: int, end: int) -> str:
    """`text` without `text[start:end]`: that occurrence only, and no doubled white space where it stood."""
    before, after = text[:start], text[end:]
    if not before or before[-1].isspace():
        return before + after.lstrip() if after.strip() else before.rstrip()
    return before + after


def merged_into_words(text: str, tokens: Sequence[_Offsets], values: ArrayLike) -> list[WeightedSpan]:
    """The words of `text` with the summed values of their tokens; nothing is lost.

    tokens: offsets into `text`, such as a tokenizer's pieces; a token belongs to the word in which it begins (white
    space in front of it aside), and one without text (start = end) to none. values: `(n_tokens,)`.

    Raises: AttributionError when there is not one value for each token.
    """
    weights = np.asarray(values, dtype=np.float64)
    if weights.shape != (len(tokens),):
        raise AttributionError(f"values of shape {weights.shape} for {len(tokens)} tokens; give one value for each")
    words = split(text, "word")
    sums = np.zeros(len(words))
    at = 0
    for token, weight in sorted(zip(tokens, weights, strict=True), key=lambda pair: pair[0].start):
        begins = _first_visible(text, token.start, token.end)
        if begins is None:
            continue
        while at < len(words) - 1 and words[at].end <= begins:
            at += 1
        sums[at] += weight
    return [WeightedSpan(word.start, word.end, word.text, float(sums[i])) for i, word in enumerate(words)]


def _first_visible(text: str, start: int, end: int) -> int | None:
    return next((at for at in range(start, end) if not text[at].isspace()), None)
