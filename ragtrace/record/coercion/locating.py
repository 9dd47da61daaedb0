"""Finds chunks in a prompt by what they say: each place of the prompt belongs to the chunk that fits it best.

The longest passage comes first; what it leaves of others is judged again. A part that several chunks have in common at
the same end of them, such as a header, is no chunk, unless it is most of it or they are editions of one text.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from operator import attrgetter
from typing import Final

from ragtrace.record.coercion.matching import SHORTEST, Passage, exact_passages, passages
from ragtrace.record.coercion.wording import GRAM, Wording, rows_of

__all__ = ["locate"]

_OWN: Final = 3  # words more than any other chunk has, that make a part a chunk's own
_PART: Final = 6  # words that must be left of a passage beside another
_MOST_OF: Final = 0.75
_EDGE: Final = 120  # characters in which a few words stand
_start: Final = attrgetter("start")


def locate(
    prompt: Wording, chunks: Sequence[Wording], questions: Iterable[str | None] = (), expected: int | None = None
) -> list[Passage]:
    """Where the chunks stand in the prompt, in its order; of equal claims that of the first chunk counts.

    Linear in the characters of prompt and chunks. A chunk may stand there several times, or in several parts.

    Args:
        questions: what the prompt asks; where it stands, no part of a chunk that says the same is meant.
        expected: so many of the chunks, the first ones, may stand there in any part; of the others at least half, in
            one piece. None: all.
    """
    asked = [Wording(question) for question in dict.fromkeys(questions) if question]
    expected = len(chunks) if expected is None else expected
    found = _located(prompt, [*chunks, *asked], len(chunks), expected)
    return [passage for passage in found if passage.order < len(chunks)]


def _located(prompt: Wording, chunks: Sequence[Wording], count: int, expected: int) -> list[Passage]:
    """The passages of all chunks; those from `count` on are found as they are only."""
    found: list[Passage] = []
    others: list[int] = []
    for order, chunk in enumerate(chunks):
        if len(chunk.text) >= SHORTEST:
            exact = exact_passages(prompt.text, chunk.text, order)
            found += exact
            if not exact and order < count:
                others.append(order)
    rest = _rest(prompt.text, found) if others else []
    anywhere = frozenset[tuple[str, ...]]().union(*(rows for _, rows in rest))
    for order in others:
        chunk = chunks[order]
        least = 0 if order < expected else len(chunk.text) // 2
        near = [rows for size, rows in rest if size >= least] if least else [anywhere]
        if any(map(chunk.shares, near)):
            found += passages(prompt, chunk, order)
    found.sort(key=_start)
    are_apart = all(passage.end <= after.start for passage, after in pairwise(found))
    if are_apart and all(passage.whole for passage in found):
        return found
    return sorted(_Assignment(prompt, chunks, found).placed(), key=_start)


def _rest(prompt: str, found: Iterable[Passage]) -> list[tuple[int, set[tuple[str, ...]]]]:
    """What of the prompt is left beside these passages: each piece's length and its rows of words, also such as
    begin or end within a passage."""
    pieces, at = [], 0
    for start, end in sorted((passage.start, passage.end) for passage in found):
        pieces.append((at, max(at, start)))
        at = max(at, end)
    left = []
    for start, end in (*pieces, (at, len(prompt))):
        before = Wording(prompt[max(0, start - _EDGE) : start]).words[1 - GRAM :]
        behind = Wording(prompt[end : end + _EDGE]).words[: GRAM - 1]
        left.append((end - start, set(rows_of([*before, *Wording(prompt[start:end]).words, *behind]))))
    return left


class _Assignment:
    """Gives each place of the prompt to one passage."""

    def __init__(self, prompt: Wording, chunks: Sequence[Wording], found: list[Passage]) -> None:
        self._prompt = prompt
        self._chunks = chunks
        self._found = found
        self._starts: list[int] = []  # of what is taken, in order
        self._taken: list[Passage] = []
        self._beside: defaultdict[tuple[int, bool], list[Passage]] = defaultdict(list)  # by first and last word
        for passage in found:
            if passage.spots:
                self._beside[passage.spots[0][0], True].append(passage)
                self._beside[passage.spots[-1][0], False].append(passage)
        self._placed: set[int] = set()
        self._whole: set[int] = set()

    def placed(self) -> list[Passage]:
        """The passages that are chunks."""
        waiting = [(-passage.weight, place) for place, passage in enumerate(self._found)]
        heapify(waiting)
        while waiting:
            weight = waiting[0][0]
            equal = []
            while waiting and waiting[0][0] == weight:
                equal.append(self._found[heappop(waiting)[1]])
            for passage in self._best_first(equal):
                for rest in self._place(passage):
                    heappush(waiting, (-rest.weight, len(self._found)))
                    self._found.append(rest)
        return self._taken

    def _best_first(self, equal: list[Passage]) -> Iterable[Passage]:
        """Of equally long ones whole chunks come first, then beginnings and ends; a chunk's repetition comes last."""
        equal.sort(key=lambda each: (not each.whole, not (each.begins or each.ends), each.start, each.order))
        repeated = []
        for passage in equal:
            if passage.order in self._placed or passage.order in self._whole:
                repeated.append(passage)
            else:
                yield passage
        yield from repeated

    def _place(self, passage: Passage) -> list[Passage]:
        """Take the passage if its place is free; what else is left of it."""
        if passage.order in self._whole and not passage.whole:
            return []
        at = bisect(self._starts, passage.start)
        near = self._taken[max(0, at - 1) : bisect(self._starts, passage.end - 1)]
        over = [other for other in near if other.end > passage.start]
        if over:
            return self._rests(passage, over)
        if passage.whole or not self._is_common(passage):
            self._starts.insert(at, passage.start)
            self._taken.insert(at, passage)
            (self._whole if passage.whole else self._placed).add(passage.order)
        return []

    def _rests(self, passage: Passage, over: Sequence[Passage]) -> list[Passage]:
        """The parts of a passage before, between and behind others."""
        if over[0].start <= passage.start and passage.end <= over[0].end:
            return []
        bounds = [passage.start, *(bound for other in over for bound in (other.start, other.end)), passage.end]
        parts = [
            self._part(passage, start, end) for start, end in zip(bounds[::2], bounds[1::2], strict=True) if start < end
        ]
        return [part for part in parts if part is not None and part.size >= _PART]

    def _part(self, passage: Passage, start: int, end: int) -> Passage | None:
        """What of a passage stands between these places; its chunk is as whole as it was."""
        spots = passage.spots or self._spots(passage)
        inside = [spot for spot in spots if start <= spot[0] and spot[1] <= end]
        if not inside:
            return None
        opens, closes = inside[0] == spots[0], inside[-1] == spots[-1]
        first = max(start, passage.start) if opens else inside[0][0]
        last = min(end, passage.end) if closes else self._end(inside[-1][1], end)
        return passage._replace(
            start=first,
            end=last,
            weight=inside[-1][1] - inside[0][0],
            first=passage.first if opens else inside[0][2],
            last=passage.last if closes else inside[-1][3] + last - inside[-1][1],
            begins=passage.begins and opens,
            ends=passage.ends and closes,
            size=len(inside),
            spots=tuple(inside),
        )

    def _end(self, at: int, end: int) -> int:
        """The end of a word's punctuation."""
        text = self._prompt.text
        while at < end and not text[at].isspace() and not text[at].isalnum():
            at += 1
        return at

    def _spots(self, passage: Passage) -> tuple[tuple[int, int, int, int], ...]:
        """The words of a passage that is as its chunk is."""
        shift = passage.first - passage.start
        words = self._prompt.within(passage.start, passage.end)
        spans = self._prompt.spans[words.start : words.stop]
        return tuple((start, end, start + shift, end + shift) for start, end in spans)

    def _is_common(self, passage: Passage) -> bool:
        """Whether it does not tell its chunk from others, which have it at the same end."""
        words = self._chunks[passage.order].words
        if passage.size >= _MOST_OF * len(words):
            return False
        ends = (passage.begins, passage.ends)
        beside = (self._beside[passage.spots[0][0], True], self._beside[passage.spots[-1][0], False])
        return any(
            other.order != passage.order
            and (other.begins, other.ends) == ends
            and other.size > passage.size - _OWN
            and self._chunks[other.order].words[-GRAM:] != words[-GRAM:]
            for other in chain(*beside)
        )
