"""Chunks, read: their words, pairs of words, windows and values, each found when it is first needed."""

from __future__ import annotations

import math
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Final

from ragtrace.coverage.text import is_content, negation_count, sentences, stem, terms
from ragtrace.coverage.values import Value, values
from ragtrace.types import content_hash

__all__ = ["Evidence", "Reading", "Vocabulary", "Window", "counted"]

REMEMBERED: Final = 16_000_000  # characters of chunks whose reading is kept
HEADING: Final = 200  # characters of a chunk's first line that may name what it is about
_NEXT_WORD: Final = re.compile(r"[\s\-]*([^\W\d_]+)")
STEM: Final = 4  # letters that two words share when they are forms of one word ("technical", "technician")


class _Read:
    """The words and pairs of a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Words and numbers in order."""
        return tuple(terms(self._text))

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


class Window(_Read):
    """One sentence of a chunk, or two that follow each other."""

    def __init__(self, text: str, parts: Sequence[Window] = ()) -> None:
        super().__init__(text)
        self._parts = parts
        self.single = not parts

    @cached_property
    def words(self) -> frozenset[str]:
        """Words that carry meaning, no numbers."""
        return frozenset().union(*(part.words for part in self._parts)) if self._parts else _content(self.terms)

    @cached_property
    def negations(self) -> int:
        """How many of its words negate."""
        return sum(part.negations for part in self._parts) if self._parts else negation_count(self._text)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """What it says in figures."""
        return tuple(value for part in self._parts for value in part.values) if self._parts else values(self._text)

    @cached_property
    def counts(self) -> tuple[str, ...]:
        """For each value, what it counts ("claims" in "3 claims")."""
        if self._parts:
            return tuple(count for part in self._parts for count in part.counts)
        return tuple(counted(self._text, value) for value in self.values)


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
        return _content(self.terms if "sentences" in self.__dict__ else terms(self._text))

    @cached_property
    def sentences(self) -> tuple[Window, ...]:
        """Each sentence as a window of its own."""
        return tuple(Window(sentence.text) for sentence in sentences(self._text))

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
    def heading_values(self) -> tuple[Value, ...]:
        """The values of the first line."""
        return values(self._first_line)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The values of all sentences."""
        return tuple(value for window in self.sentences for value in window.values)

    @property
    def _first_line(self) -> str:
        return self._text.lstrip().partition("\n")[0][:HEADING]


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
        chunks = [chunk.words for chunk in pool]
        self._n = len(chunks)
        self._df = Counter(chain.from_iterable(chunks))

    def weight(self, word: str) -> float:
        """The rarity of a word's stem, > 0."""
        return math.log1p((self._n + 1) / (self._df.get(word, 0) + 0.5))


def counted(text: str, value: Value) -> str:
    """The stem of the word behind a value: what it counts."""
    match = _NEXT_WORD.match(text, value.end)
    return stem(match.group(1)) if match else ""


def _content(sequence: Iterable[str]) -> frozenset[str]:
    """Without numbers and negations, which are compared as such."""
    return frozenset(filter(is_content, sequence))
