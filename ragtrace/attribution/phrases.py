"""Words in groups: phrases of a long question, so few that something can be attributed to each of them.

A text is cut between words: best between sentences, then at punctuation marks, then before function words ("of the
bridge"), then in the middle.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from ragtrace.attribution.spans import Span
from ragtrace.errors import AttributionError

__all__ = ["Phrase", "phrases", "refined"]

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
