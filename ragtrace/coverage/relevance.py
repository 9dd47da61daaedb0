"""How far chunks speak of a question: the share of its words that a chunk holds in one place.

Words weigh by their rarity, among the candidates and, where it is known, in what the service returned for other
questions (`Background`): among three candidates nothing is rare.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage.questions import sub_questions
from ragtrace.coverage.support import Evidence
from ragtrace.coverage.text import content_words

__all__ = ["Background", "Rarity", "question_match", "spoken_of"]

PART: Final = 3  # content words of a part of a question, from which it is looked for by itself


@dataclass(frozen=True, slots=True)
class Background:
    """In how many of the `chunks` that a service returned for other questions each word's stem stands.

    `counts` has a checksum of each stem for its key: what is kept of a service holds no words.
    """

    chunks: int = 0
    counts: Mapping[int, int] = field(default_factory=dict)

    def frequency(self, word: str) -> int:
        """In how many chunks a word's stem stands."""
        return self.counts.get(zlib.crc32(word.encode()), 0)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Background:
        """The background of some chunks' texts, each counted once."""
        counts: dict[int, int] = {}
        distinct = dict.fromkeys(texts)
        for text in distinct:
            for word in Evidence.read("", text).words:
                key = zlib.crc32(word.encode())
                counts[key] = counts.get(key, 0) + 1
        return cls(len(distinct), counts)


class Rarity:
    """Inverse document frequencies over some chunks and a background: log(1 + (n + 1) / (df + 1/2)), > 0."""

    def __init__(self, pool: Sequence[Evidence], background: Background | None = None) -> None:
        self._chunks = [evidence.words for evidence in pool]
        self._background = background or Background()
        self._weights: dict[str, float] = {}

    def weight(self, word: str) -> float:
        """The rarity of a word's stem."""
        known = self._weights.get(word)
        if known is None:
            frequency = sum(word in words for words in self._chunks) + self._background.frequency(word)
            chunks = len(self._chunks) + self._background.chunks
            known = self._weights[word] = math.log1p((chunks + 1) / (frequency + 0.5))
        return known

    def share(self, words: Iterable[str], among: Set[str]) -> float:
        """The weight of the words that are `among` others over that of all, in [0, 1]; 0 without words."""
        return self.best_share(frozenset(words), (among,))

    def best_share(self, words: Set[str], held: Iterable[Set[str]]) -> float:
        """The largest `share` of some words among any of the sets that hold parts of them."""
        weights = {word: self.weight(word) for word in words}
        total = math.fsum(weights.values())
        parts = {words & each for each in held}
        return max((math.fsum(weights[word] for word in part) for part in parts), default=0.0) / total if total else 0.0


def question_match(query: str, pool: Sequence[Evidence], rarity: Rarity) -> NDArray[np.float64]:
    """The share of the words of each part of a question that each chunk holds in one window and its heading.

    A part of fewer words than `PART` tells nothing by itself ("and can I extend it?"): the question is then one part,
    with what is stated beside it.

    Returns: shape (n_parts, n_chunks), in [0, 1]; a part without content words gives a row of zeros.
    """
    parts = [frozenset(content_words(part)) for part in sub_questions(query)]
    if min(map(len, parts)) < PART:
        parts = [frozenset(content_words(query))]
    return np.array([[spoken_of(part, chunk, rarity) for chunk in pool] for part in parts]).reshape(
        len(parts), len(pool)
    )


def spoken_of(words: Set[str], chunk: Evidence, rarity: Rarity) -> float:
    """The share of some words that one window of a chunk holds with its heading: the best one's, in [0, 1]."""
    if not words or not chunk.windows:
        return 0.0
    named = words & chunk.heading
    if not (words & chunk.words) - named:  # no window adds anything
        return rarity.share(words, named) if named else 0.0
    return rarity.best_share(words, (named | (words & window.words) for window in chunk.windows))
