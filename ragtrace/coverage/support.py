"""Support of a claim by evidence, always-on layer: lexical, no model.

A claim is compared with every window of one or two sentences of every chunk. Its support is the share of its words,
weighted by their rarity in the candidate pool, that the window holds, and nothing unless the window (or the chunk's
first line, which names what the chunk is about) also holds its numbers, dates and quantities. A window that says the
same but for a value of the same kind, or but for a negation, contradicts the claim.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.text import content_words, negation_count, sentences
from ragtrace.coverage.values import Value, same_kind, same_value, values

__all__ = ["Evidence", "Support", "Vocabulary", "claim_support"]

SAME_STATEMENT: Final = 0.6  # containment from which a window is taken to speak of what the claim says
SAME_SENTENCE: Final = 0.75  # containment from which one negation more or less turns the meaning
TWO_SAY_MORE: Final = 0.1  # how much more of the claim two sentences must hold than the best single one
SUPPORTS: Final = 0.9  # support from which no other sentence of the chunk contradicts
ELSEWHERE: Final = 0.5  # support left when a value stands in the chunk, but not where the claim's words stand


@dataclass(frozen=True, slots=True)
class _Window:
    words: frozenset[str]
    values: tuple[Value, ...]
    negations: int
    single: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """One chunk, read: its windows, and what its first line and the whole of it hold."""

    chunk_id: str
    windows: tuple[_Window, ...]
    heading: frozenset[str]
    heading_values: tuple[Value, ...]
    words: frozenset[str]
    values: tuple[Value, ...]

    @classmethod
    def read(cls, chunk_id: str, text: str) -> Evidence:
        """Split `text` into windows; the outcome is cached by text, since chunks recur between requests."""
        return cls(chunk_id, *_read(text))


@dataclass(frozen=True, slots=True)
class Support:
    """How far one chunk supports or contradicts a claim, each in [0, 1], with the value or word that decided."""

    chunk_id: str
    support: float
    contradiction: float = 0.0
    reason: str | None = None


class Vocabulary:
    """Inverse document frequencies over a pool of chunks: log(1 + n / df); an unseen word counts as df = 1/2."""

    def __init__(self, pool: Iterable[Evidence]) -> None:
        chunks = list(pool)
        self._n = len(chunks)
        self._df = Counter(word for chunk in chunks for word in chunk.words)

    def weight(self, word: str) -> float:
        """The rarity of a word's stem, > 0."""
        return math.log1p((self._n + 1) / (self._df.get(word, 0) + 0.5))


def claim_support(claim: str, evidence: Sequence[Evidence], vocabulary: Vocabulary) -> list[Support]:
    """Support of `claim` by each chunk of `evidence`, in its order."""
    claimed = _window(without_citations(claim))
    weights = {word: vocabulary.weight(word) for word in claimed.words}
    return [_by_chunk(claimed, weights, chunk) for chunk in evidence]


def _by_chunk(claim: _Window, weights: dict[str, float], chunk: Evidence) -> Support:
    total = sum(weights.values())
    if total and _contained(weights, total, chunk.words) < SAME_STATEMENT / 2:
        return Support(chunk.chunk_id, 0.0)
    best = worst = Support(chunk.chunk_id, 0.0)
    reach = 0.0
    for window in chunk.windows:
        contained = _contained(weights, total, window.words | chunk.heading)
        if not window.single and contained <= reach + TWO_SAY_MORE:
            continue  # what one sentence says is judged by that sentence alone
        reach = max(reach, contained) if window.single else reach
        judged = _by_window(claim, weights, total, chunk, window)
        best = max(best, judged, key=lambda support: support.support)
        worst = max(worst, judged, key=lambda support: support.contradiction)
    if best.support >= SUPPORTS:
        return best
    return Support(chunk.chunk_id, best.support, worst.contradiction, worst.reason or best.reason)


def _by_window(claim: _Window, weights: dict[str, float], total: float, chunk: Evidence, window: _Window) -> Support:
    contained = _contained(weights, total, window.words | chunk.heading)
    said_here = _contained(weights, total, window.words)
    missing = [value for value in claim.values if not _holds(value, window.values, chunk.heading_values)]
    speaks = contained >= SAME_STATEMENT and said_here >= SAME_STATEMENT / 2
    if missing:
        other = _other_value(missing, claim.values, window)
        bare = other is not None and other.kind == "number"
        if speaks and other and (not bare or contained >= SUPPORTS):  # a number without a unit may count anything
            return Support(chunk.chunk_id, 0.0, contained, f"{missing[0].raw}, the evidence says {other.raw}")
        elsewhere = all(_holds(value, chunk.values, ()) for value in missing)
        return Support(chunk.chunk_id, ELSEWHERE * contained if elsewhere else 0.0, 0.0, f"{missing[0].raw} not found")
    if (claim.negations + window.negations) % 2 and said_here >= SAME_SENTENCE and _says_no_more(claim, window):
        return Support(chunk.chunk_id, 0.0, said_here, "negated against the evidence")
    return Support(chunk.chunk_id, contained)


def _says_no_more(claim: _Window, window: _Window) -> bool:
    """Whether the window is one sentence and mostly says what the claim says, so that its negation is the claim's."""
    return window.single and 2 * len(claim.words & window.words) >= len(window.words)


def _other_value(missing: Sequence[Value], claimed: Sequence[Value], window: _Window) -> Value | None:
    """A value of the window that stands where a missing one should: same kind, and not said by the claim. The three
    years of a claim do not say that there may be 3 losses."""
    for value in missing:
        for given in window.values:
            alike = [said for said in claimed if same_kind(said, given)]
            if same_kind(value, given) and not _holds(given, alike, ()):
                return given
    return None


def _holds(value: Value, given: Sequence[Value], heading: Sequence[Value]) -> bool:
    return any(same_value(value, other) for other in (*given, *heading))


def _contained(weights: dict[str, float], total: float, given: frozenset[str]) -> float:
    if not total:
        return 1.0
    return min(1.0, sum(weight for word, weight in weights.items() if word in given) / total)


@lru_cache(maxsize=8192)
def _read(
    text: str,
) -> tuple[tuple[_Window, ...], frozenset[str], tuple[Value, ...], frozenset[str], tuple[Value, ...]]:
    singles = [_window(sentence.text) for sentence in sentences(text)]
    pairs = [
        _Window(one.words | two.words, one.values + two.values, one.negations + two.negations, single=False)
        for one, two in pairwise(singles)
    ]
    heading = text.lstrip().partition("\n")[0][:200]
    title = _window(heading)
    every = frozenset(word for window in singles for word in window.words)
    every_value = tuple(value for window in singles for value in window.values)
    return tuple(singles + pairs), title.words, title.values, every, every_value


def _window(sentence: str) -> _Window:
    """A sentence's words and values; what belongs to a value is compared as a value, not as a word."""
    found = values(sentence)
    rest = sentence
    for value in found:
        rest = rest[: value.start] + " " * (value.end - value.start) + rest[value.end :]
    return _Window(frozenset(content_words(rest)), found, negation_count(sentence), single=True)
