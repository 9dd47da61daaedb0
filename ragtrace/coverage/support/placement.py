"""What stands where: the values and the negated words of a text, each with the words around it.

A claim that copies its evidence but for one figure or one "not" has the same words around it. So a value or a negated
word of a claim is looked up in each sentence by its neighbors.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from ragtrace.coverage.support.counting import counted
from ragtrace.coverage.text import is_content, located_terms
from ragtrace.coverage.values import Value, values

__all__ = ["Placed", "Spot", "Turn", "close_company", "company", "negated_words", "negates", "plain"]

NEAR: Final = 3  # words on each side that tell where something stands
REACH: Final = (2, 4)  # words before a word among which a negation surely, and perhaps, belongs to it
_NEGATES_NOTHING: Final = (
    re.compile(  # "not only the roof", "No, the roof", "with or without a roof", "no more than 30"
        r"""\bnot(?=\s+(?:only|just|merely|simply|solely)\b)|^\W*no(?=[,.:;])|\bor\s+(?:without|not)\b
    |\b(?:no|not)(?=\s+(?:more|less|fewer|later|earlier|longer|sooner)\s+than\b)""",
        re.IGNORECASE | re.VERBOSE,
    )
)
_COMPARED: Final = re.compile(
    r"\b(?:more|less|fewer|later|earlier|longer|sooner|greater|higher|lower)\s+than\b|\bexceed\w*", re.IGNORECASE
)
"""What makes a negation a bound: "do not take more than 8" is "take at most 8"."""
_NEGATING: Final = frozenset("not no never none neither nor cannot without".split())
_SOFT: Final = frozenset(
    """avoid deni doubt except exclud fail hard instead lack absenc less littl prevent rare rather refus reject seldom
    unabl unless unlik""".split()
)  # stems that may turn a meaning in their own way


class Spot(NamedTuple):
    """A term's place in the order of a text's terms, and the words around it."""

    place: int
    near: frozenset[str]


class Turn(NamedTuple):
    """A word's spot, the negations right before it and within reach, and whether another word may turn it.

    `compares`: something is compared beside it; `bound`: a negation before it makes that a bound ("not more than 8").

    `anchor`: the place of the negation right before it, else its own: "not currently supported" and "currently not
    supported" negate the same.
    """

    spot: Spot
    anchor: int
    negations: tuple[int, int]
    unclear: bool
    compares: bool
    bound: bool

    def agrees(self, other: Turn, *, copied: bool) -> bool:
        """Whether both may be meant alike; of a copy every negation must be.

        Where only one of them has another word that may turn it, that word may stand for the other's negation. A bound
        may be put without negation and comparison: "at most 8".
        """
        if (self.bound and not other.compares) or (other.bound and not self.compares):
            return True
        alike = [(own - others) % 2 == 0 for own, others in zip(self.negations, other.negations, strict=True)]
        if copied:
            return all(alike) or self.unclear != other.unclear
        return any(alike) or self.unclear or other.unclear


@dataclass(frozen=True)
class Placed:
    """The terms of a text in order; of each the index of the value that it is part of, or -1, and the line that it
    stands in, and its clause by semicolons; where something is compared; the values, and what each counts."""

    terms: tuple[str, ...]
    places: tuple[int, ...]
    lines: tuple[int, ...]
    clauses: tuple[int, ...]
    compared: tuple[int, ...]
    values: tuple[Value, ...]
    counts: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Placed:
        """All of a text's terms."""
        text = plain(text)
        found = values(text)
        located = located_terms(text)
        breaks = [at for at, character in enumerate(text) if character == "\n"] if "\n" in text else []
        stops = [at for at, character in enumerate(text) if character == ";"] if ";" in text else []
        starts = [start for _, start in located]
        return cls(
            terms=tuple(term for term, _ in located),
            places=tuple(_places(starts, found)),
            lines=tuple(bisect(breaks, start) for start in starts),
            clauses=tuple(bisect(stops, start) for start in starts),
            compared=tuple(bisect_left(starts, match.start()) for match in _COMPARED.finditer(text)),
            values=found,
            counts=tuple(counted(text, value) for value in found),
        )

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Its terms."""
        return frozenset(self.terms)

    @cached_property
    def counting(self) -> dict[str, Value]:
        """The first value that counts each of the things that are counted."""
        return dict(reversed(list(zip(self.counts, self.values, strict=True))))

    @cached_property
    def value_spots(self) -> tuple[Spot | None, ...]:
        """Where each value stands; None for one without a term."""
        ends: dict[int, tuple[int, int]] = {}
        for at, place in enumerate(self.places):
            ends[place] = (ends.get(place, (at, at))[0], at)
        return tuple(self._spot(*ends[place]) if place in ends else None for place in range(len(self.values)))

    @cached_property
    def negated(self) -> frozenset[str]:
        """The words that a negation stands before, at most one other word between."""
        return negated_words(self.terms)

    def turns(self, word: str) -> tuple[Turn, ...]:
        """How often a word is negated wherever it stands."""
        return tuple(self._turn(at) for at, term in enumerate(self.terms) if term == word)

    def _turn(self, at: int) -> Turn:
        begins = bisect_left(self.clauses, self.clauses[at])  # "no line; check the cable": nothing is turned behind it
        near, far = (self.terms[max(begins, at - reach) : at] for reach in REACH)
        anchor = next((place for place in (at - 1, at - 2) if place >= begins and negates(self.terms[place])), at)
        counts = sum(map(negates, near)), sum(map(negates, far))
        # A heading says what a text is about, "Theft: exceptions", and turns nothing below it.
        beside = (term for term, line in zip(far, self.lines[max(begins, at - REACH[1]) : at], strict=True)
                  if line == self.lines[at])  # fmt: skip
        compared = [place for place in self.compared if abs(place - at) <= REACH[1]]
        before = [place for place in range(max(begins, at - REACH[1]), at) if negates(self.terms[place])]
        bound = any(0 < place - negation <= REACH[1] for place in compared for negation in before)
        return Turn(self._spot(at, at), anchor, counts, not _SOFT.isdisjoint(beside), bool(compared), bound)

    def _spot(self, first: int, last: int) -> Spot:
        around = (*self.terms[max(0, first - NEAR) : first], *self.terms[last + 1 : last + 1 + NEAR])
        return Spot(first, frozenset(term for term in around if not negates(term)))


def company(claimed: Spot, given: Spot) -> float:
    """The share of the words around one spot that stand around the other, in [0, 1]."""
    return len(claimed.near & given.near) / len(claimed.near) if claimed.near else 0.0


def close_company(claimed: Spot, given: Spot) -> float:
    """The same, of whichever has more words around it; 0 where fewer than two are shared. All of it where one text is
    so short that the other has all that stands around ("Do not freeze.")."""
    is_short = given.near and len(given.near) < NEAR and given.near <= claimed.near
    is_within = 1 < len(claimed.near) < NEAR and claimed.near <= given.near
    if is_short or is_within or not (claimed.near or given.near):
        return 1.0
    shared = len(claimed.near & given.near)
    return shared / max(len(claimed.near), len(given.near)) if shared > 1 else 0.0


def plain(text: str) -> str:
    """`text` without the negations that negate nothing, every other character in its place."""
    return _NEGATES_NOTHING.sub(lambda match: " " * len(match.group()), text)


def negated_words(terms: Sequence[str]) -> frozenset[str]:
    """The words that a negation stands before, at most one other word between."""
    heads = (terms[at + 1 : at + 3] for at, term in enumerate(terms) if negates(term))
    return frozenset(word for head in heads for word in head if is_content(word))


def negates(term: str) -> bool:
    """Whether a term is a negation."""
    return term in _NEGATING or term.endswith(("n't", "n’t"))


def _places(starts: Sequence[int], found: Sequence[Value]) -> Iterator[int]:
    """For each start, in order, the index of the value that it lies in, or -1."""
    at = 0
    for start in starts:
        while at < len(found) and found[at].end <= start:
            at += 1
        yield at if at < len(found) and found[at].start <= start else -1
