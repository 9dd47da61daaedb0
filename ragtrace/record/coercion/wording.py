"""A text as its words, so that white space, punctuation, quoting and escaping do not hide what it says."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from html import escape
from typing import Final

__all__ = ["GRAM", "UNSPACED", "Wording", "backward", "forward", "normalized", "rows_of"]

GRAM: Final = 4  # words in a row that are looked up
_NEXT: Final = 3  # rows of words that a part of a chunk has at least
_FREQUENT: Final = 8  # a row of words that stands more often in a text says nothing of a place

UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORDS: Final = rf"[{UNSPACED}]|[^\W_{UNSPACED}]+"  # scripts without spaces: each character
_ENTITY: Final = r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,4}|#x[0-9a-fA-F]{1,4});"
_WORD: Final = re.compile(_WORDS)
_WORD_OR_ENTITY: Final = re.compile(f"{_ENTITY}|{_WORDS}")
_BLANKED: Final = {code: " " for code in range(128) if not chr(code).isalnum()}  # quicker than the expression
_ALIKE: Final = ('"“”„«»', "'\u2018’\u201a", "-–—−\u2010\u2011", "*•·")


class Wording:
    """A text and its words; what is not asked for is not computed."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def words(self) -> list[str]:
        """Its words, as they are written."""
        if "&" not in self.text:
            return self.text.translate(_BLANKED).split() if self.text.isascii() else _WORD.findall(self.text)
        return [word for word in _WORD_OR_ENTITY.findall(self.text) if word[0] != "&"]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Where each word stands."""
        if "&" not in self.text:
            return [found.span() for found in _WORD.finditer(self.text)]
        return [found.span() for found in _WORD_OR_ENTITY.finditer(self.text) if found[0][0] != "&"]

    @cached_property
    def grams(self) -> dict[tuple[str, ...], list[int]]:
        """Where each row of `GRAM` words begins, of those that do not stand everywhere."""
        found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for at, row in enumerate(rows_of(self.words)):
            found[row].append(at)
        return {row: places for row, places in found.items() if len(places) <= _FREQUENT}

    def shares(self, rows: Set[tuple[str, ...]]) -> bool:
        """Whether one of each `_NEXT` rows of its words, of which a part of a text has so many, or the last is among
        these."""
        return not rows.isdisjoint(rows_of(self.words, _NEXT)) or tuple(self.words[-GRAM:]) in rows

    def gap(self, word: int) -> str:
        """What stands before a word, from the end of the word before it; behind the last word, the rest."""
        start = self.spans[word - 1][1] if word else 0
        return self.text[start : self.spans[word][0] if word < len(self.spans) else len(self.text)]

    def within(self, start: int, end: int) -> range:
        """The words that begin in `text[start:end]`."""
        return range(bisect_left(self.spans, (start, -1)), bisect_left(self.spans, (end, -1)))


def rows_of(words: Sequence[str], step: int = 1) -> Iterator[tuple[str, ...]]:
    """Each row of `GRAM` words that begins at a multiple of `step`."""
    return zip(*(words[shift::step] for shift in range(GRAM)), strict=False)


def normalized(text: str) -> str:
    """The words of a text between single spaces, also at both ends: equal where only white space or marks differ."""
    return f" {' '.join(Wording(text).words)} "


def forward(text: str, at: int, marks: str) -> int:
    """How far `marks`, the punctuation behind a word, also stands in `text` from `at` on, possibly escaped."""
    for mark in marks:
        form = next((form for form in _forms(mark) if text.startswith(form, at)), None) if not mark.isspace() else None
        if form is None:
            break
        at += len(form)
    return at


def backward(text: str, at: int, marks: str) -> int:
    """How far back `marks`, the punctuation before a word, also stands in `text` before `at`, possibly escaped."""
    lead = marks.lstrip()
    if text.endswith(lead, 0, at):
        return at - len(lead)
    for mark in reversed(lead):
        form = next((form for form in _forms(mark) if text.endswith(form, 0, at)), None) if not mark.isspace() else None
        if form is None:
            break
        at -= len(form)
    return at


def _forms(mark: str) -> list[str]:
    """How a mark may be written: escaped for Markdown or HTML, as a typographic one, or as it is; longest first."""
    alike = next((marks for marks in _ALIKE if mark in marks), mark)
    return [*(escape(each) for each in alike if escape(each) != each), *(f"\\{each}" for each in alike), *alike]
