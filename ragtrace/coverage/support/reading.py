"""Chunks, read: their words, pairs of words, windows and values, each found when it is first needed."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import Final

from ragtrace.coverage.support.placement import Placed
from ragtrace.coverage.text import content_stems, is_content, sentences, stem, terms, without_accents
from ragtrace.coverage.values import NUMBER_WORDS, Figure, Value, figures_in, values
from ragtrace.types import content_hash

__all__ = ["Evidence", "Reading", "Vocabulary", "Window"]

REMEMBERED: Final = 16_000_000  # characters of chunks whose reading is kept
HEADING: Final = 200  # characters of a chunk's first line that may name what it is about
_NUMBER_WORDS: Final = frozenset(map(stem, NUMBER_WORDS))
STEM: Final = 4  # letters that two words share when they are forms of one word ("technical", "technician")


class _Read:
    """The words and pairs of a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Words and numbers in order."""
        return tuple(terms(self.text))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Words and numbers."""
        return frozenset(self.terms)

    @cached_property
    def pairs(self) -> frozenset[str]:
        """Words that follow each other, at most one between them, joined by a space."""
        one, two, three = self.terms, self.terms[1:], self.terms[2:]
        near, far = zip(one, two, strict=False), zip(one, three, strict=False)
        return frozenset(map(" ".join, chain(near, far)))

    @cached_property
    def stems(self) -> frozenset[str]:
        """The beginnings of its words."""
        return frozenset(word[:STEM] for word in self.vocabulary if len(word) >= STEM)

    @cached_property
    def folded(self) -> str:
        """The text in small letters, without accents."""
        return without_accents(self.text.casefold())

    @cached_property
    def joined(self) -> str:
        """The letters and digits of the text alone, small and without accents: ERR_LOCKED is errlocked."""
        return "".join(filter(str.isalnum, self.folded))


class Window(_Read):
    """One sentence of a chunk, or two that follow each other; whole: the chunk, and where the sentence begins in it."""

    def __init__(self, text: str, parts: Sequence[Window] = (), whole: tuple[Reading, int] | None = None) -> None:
        super().__init__(text)
        self.parts = parts
        self._whole = whole

    @cached_property
    def words(self) -> frozenset[str]:
        """Words that carry meaning, no numbers."""
        return frozenset().union(*(part.words for part in self.parts)) if self.parts else _content(self.terms)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """What it says in figures."""
        if self.parts:
            return tuple(value for part in self.parts for value in part.values)
        return values(self.text) if any(map(_may_be_value, self.vocabulary)) else ()

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Its figures with their places in the chunk's tables."""
        if self._whole is None:
            return tuple(figure for part in self.parts for figure in part.figures)
        reading, start = self._whole
        places = [each.value.start for each in reading.figures]
        return reading.figures[bisect_left(places, start) : bisect_left(places, start + len(self.text))]

    @cached_property
    def placed(self) -> Placed:
        """Where its words stand."""
        return Placed.read(self.text)


class Reading(_Read):
    """One text, read lazily; the same text is read once, whichever request it comes with."""

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Words and numbers in order, those of a list's numbering left out."""
        return tuple(chain.from_iterable(sentence.terms for sentence in self.sentences))

    @cached_property
    def words(self) -> frozenset[str]:
        """Words that carry meaning, no numbers."""
        # Sentences are split only where they are needed: of most candidates nothing but the words is.
        return _content(self.terms) if "sentences" in self.__dict__ else content_stems(self.text)

    @cached_property
    def sentences(self) -> tuple[Window, ...]:
        """Each sentence as a window of its own."""
        return tuple(Window(sentence.text, whole=(self, sentence.start)) for sentence in sentences(self.text))

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The sentences, then every two that follow each other."""
        singles = self.sentences
        return (*singles, *(Window("", two) for two in pairwise(singles)))

    @cached_property
    def heading(self) -> frozenset[str]:
        """The words of the first line, which names what the text is about."""
        return _content(terms(self._first_line))

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The values of all sentences."""
        return tuple(value for window in self.sentences for value in window.values)

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """Its figures, with row, column and the scale of their heading; the sentences are the rows of prose."""
        return figures_in(self.text, [(sentence.start, sentence.end) for sentence in sentences(self.text)])

    @property
    def _first_line(self) -> str:
        return self.text.lstrip().partition("\n")[0][:HEADING]


class _Readings:
    """Readings by content hash, the least recently used forgotten first, bounded by the characters that were read."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[Reading, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(self, text: str) -> Reading:
        key = content_hash(text)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            reading = Reading(text)
            self._kept[key] = (reading, len(text))
            self._size += len(text)
            while self._size > self._most:
                self._size -= self._kept.popitem(last=False)[1][1]
            return reading


_READINGS: Final = _Readings(REMEMBERED)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One chunk and what it says."""

    chunk_id: str
    reading: Reading

    @classmethod
    def read(cls, chunk_id: str, text: str) -> Evidence:
        """Chunks recur between requests: what was found in a text is kept by its content hash."""
        return cls(chunk_id, _READINGS.read(text))

    @property
    def windows(self) -> tuple[Window, ...]:
        """Windows of one and of two sentences."""
        return self.reading.windows

    @property
    def heading(self) -> frozenset[str]:
        """The words of the first line."""
        return self.reading.heading

    @property
    def words(self) -> frozenset[str]:
        """All words that carry meaning."""
        return self.reading.words


class Vocabulary:
    """Inverse document frequencies over a pool of chunks: log(1 + n / df); an unseen word counts as df = 1/2."""

    def __init__(self, pool: Iterable[Evidence]) -> None:
        self._chunks = [chunk.words for chunk in pool]
        self._weights: dict[str, float] = {}

    def weight(self, word: str) -> float:
        """The rarity of a word's stem, > 0."""
        found = self._weights.get(word)
        if found is None:
            frequency = sum(word in words for words in self._chunks)
            found = self._weights[word] = math.log1p((len(self._chunks) + 1) / (frequency + 0.5))
        return found


@lru_cache(maxsize=65536)
def _may_be_value(term: str) -> bool:
    """Whether a value may begin with a term: a number, in digits or in words."""
    return term[0].isdigit() or term in _NUMBER_WORDS


def _content(sequence: Iterable[str]) -> frozenset[str]:
    """Without numbers and negations, which are compared as such."""
    return frozenset(filter(is_content, sequence))
