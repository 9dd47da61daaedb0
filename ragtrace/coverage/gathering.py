"""The sentences of some texts that together hold most of what a claim says: what a model reads instead of all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from ragtrace.coverage.text import content_words, sentences, words

__all__ = ["containment", "gather", "terms"]

WORDS: Final = 100  # with a claim of thirty words they fit into 192 word pieces
_AGAIN: Final = 0.1  # what a word counts that another chosen sentence has said already


class _Sentence(NamedTuple):
    text: str
    terms: frozenset[str]
    length: int


def terms(text: str) -> frozenset[str]:
    """What `text` speaks of: the stems of its content words, and its numbers as written."""
    return frozenset((*content_words(text), *(word for word in words(text) if word[0].isdigit())))


def containment(claim: str, text: str) -> float:
    """The share of the claim's terms that `text` holds, in [0, 1]; 0 for a claim without terms."""
    claimed = terms(claim)
    held = frozenset().union(*(sentence.terms for sentence in _read(text)))
    return len(claimed & held) / len(claimed) if claimed else 0.0


def gather(claim: str, texts: Sequence[str], *, limit: int = WORDS) -> str:
    """Sentences of `texts`, in their order, chosen one by one for the rarest words of the claim that they add.

    At least one and at most about `limit` words; the first sentences where none has a word in common with the claim.
    """
    pool = [sentence for text in texts for sentence in _read(text)]
    if sum(sentence.length for sentence in pool) <= limit:
        return " ".join(sentence.text for sentence in pool)
    frequency = Counter(term for sentence in pool for term in sentence.terms)
    weights = {term: math.log1p(len(pool) / (frequency[term] + 0.5)) for term in terms(claim)}
    chosen = _chosen(pool, weights, limit) or list(range(min(1, len(pool))))
    used = sum(pool[place].length for place in chosen)
    for place in range(len(pool)):  # what stands first tells most of what the rest is about
        if place not in chosen and used + pool[place].length <= limit:
            chosen.append(place)
            used += pool[place].length
    return " ".join(pool[place].text for place in sorted(chosen))


def _chosen(pool: Sequence[_Sentence], weights: dict[str, float], limit: int) -> list[int]:
    found: list[int] = []
    covered: set[str] = set()
    left = {place for place, sentence in enumerate(pool) if sentence.terms & weights.keys()}
    used = 0
    while left:
        gains = {place: _gain(pool[place].terms, weights, covered) for place in left}
        best = max(left, key=lambda place: (gains[place], -place))
        left.discard(best)
        if found and used + pool[best].length > limit:
            continue
        found.append(best)
        used += pool[best].length
        covered |= pool[best].terms
    return found


def _gain(said: frozenset[str], weights: dict[str, float], covered: set[str]) -> float:
    return sum(weights[term] * (_AGAIN if term in covered else 1.0) for term in said & weights.keys())


@lru_cache(maxsize=2048)
def _read(text: str) -> tuple[_Sentence, ...]:
    return tuple(_Sentence(each.text, terms(each.text), len(each.text.split())) for each in sentences(text))
