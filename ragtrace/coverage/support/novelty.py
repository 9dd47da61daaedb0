"""How much of a claim is new: words, word pairs and quantities that the evidence does not have, as a probability.

A logistic regression over five measures, none of which can grow when evidence is added:

- the share of the claim's words that stand nowhere in the evidence (0.3 of one that begins like a word of it),
- the most of such words that stand close together,
- the share of its neighboring words that are no neighbors anywhere in the evidence,
- how dense those new pairs are around some word, the claims before and after counted with it: an answer that leaves
  its evidence seldom comes back after one sentence,
- whether it states a date, a quantity, a number in digits, or a name that the evidence does not state.

Weights: fitted by `bench/support.py --fit` on the development half of RAGTruth QA (MIT; Niu et al., "RAGTruth: A
Hallucination Corpus for Developing Trustworthy Retrieval-Augmented Language Models", ACL 2024). There 90 % of the
claims are supported; `support` is the probability where supported and unsupported claims are alike frequent.
"""

from __future__ import annotations

import math
from calendar import month_abbr, month_name
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ragtrace.coverage.support.contradiction import Origin
from ragtrace.coverage.support.figures import Figures
from ragtrace.coverage.support.readings import STEM, Name, Reading, Statement, Window
from ragtrace.coverage.text import stem
from ragtrace.coverage.values import DateRange, Value, covers, says

__all__ = ["Around", "Ground", "Measures", "around", "measure", "probability"]

WEIGHTS: Final = (2.53, 0.41, 0.58, 3.11, 1.68)
BIAS: Final = -4.69
SUPPORTED_RATE: Final = 0.898  # share of supported claims among those of the fit
SIMILAR: Final = 0.3  # newness of a word that begins like one of the evidence
SMOOTHING: Final = 1.5  # words added to a claim's length: one new word of two says little
DECAY: Final = math.exp(-1 / 10)  # of a new pair's weight with each word between
NEAR: Final = (0.4, 0.7, 1.0)  # weights of words at distance 3, 2 and 1
_MONTH: Final = 31  # days: what is longer is stated by a time that holds it
_NOTHING_ASKED: Final = Reading("")
NEEDED: Final = 0.5  # share of a claim's words that must stand in the evidence; below, support falls in proportion


class Ground:
    """What the evidence holds, over one reading, several, or some sentences. question: what is known already."""

    def __init__(self, parts: Sequence[Reading | Window], question: Reading = _NOTHING_ASKED) -> None:
        alone = len(parts) == 1
        self.vocabulary = parts[0].vocabulary if alone else frozenset().union(*(part.vocabulary for part in parts))
        self.pairs = parts[0].pairs if alone else frozenset().union(*(part.pairs for part in parts))
        self.stems = parts[0].stems if alone else frozenset().union(*(part.stems for part in parts))
        self.question = question.vocabulary
        self._asked = question
        self._parts = parts

    def holds(self, value: Value) -> bool:
        """Whether some part says the value, or says of a day or month which it is and elsewhere in which year."""
        if any(says(value, other) for part in self._parts for other in part.values):
            return True
        if value.dates is None and value.kind in ("quantity", "number") and self._figures.states(value):
            return True  # as a table states it: the scale stands in its heading
        if value.dates is None or not any(covers(other, value) for part in self._parts for other in part.values):
            return False
        return value.dates.days > _MONTH or self._has_day(value.dates)

    @cached_property
    def _figures(self) -> Figures:
        return Figures(self._parts, self._asked.text)

    def _has_day(self, dates: DateRange) -> bool:
        months = {stem(name[dates.first.month]) for name in (month_name, month_abbr)}
        if dates.days > 1:
            return not months.isdisjoint(self.vocabulary)
        day = str(dates.first.day)
        return any(f"{day} {month}" in self.pairs or f"{month} {day}" in self.pairs for month in months)

    def names(self, name: Name) -> bool:
        """Whether some part, or the question, has the name, be it within a longer word."""
        if name.is_code:
            return any(name.letters in part.joined for part in (*self._parts, self._asked))
        known = name.stem in self.vocabulary or name.stem in self.question
        return known or any(name.letters in part.folded for part in self._parts)

    def lacks(self, statement: Statement) -> str | None:
        """The first value, else the first name of a claim that no part states; None where all are stated.

        A value of the question is what a claim is about and not what it states, where it states something else.
        """
        for value in statement.stated:
            if _is_exact(value) and not self.holds(value) and not self._is_topic(value, statement):
                return value.raw
        return next((name.written for name in statement.names if not self.names(name)), None)

    def origin(self, value: Value, statement: Statement) -> Origin:
        """Where a value of a claim comes from: the question, the evidence, its figures by arithmetic, or nowhere."""
        if any(says(value, other) for other in self._asked.values):
            return "asked"
        if self.holds(value):
            return "stated"
        if value.dates or value.kind == "version":
            return "unknown"
        return self._figures.origin(value, statement.placed.text)

    def _is_topic(self, value: Value, statement: Statement) -> bool:
        asked = self._asked.values
        if not any(says(value, other) for other in asked):
            return False
        new = [other for other in statement.values if not any(says(other, known) for known in asked)]
        return any(map(self.holds, new)) or not self.vocabulary.isdisjoint(statement.words - self.question)


@dataclass(frozen=True, slots=True)
class Measures:
    """The five measures, each 0 for a claim that repeats the evidence, and the share of its words that are held."""

    unseen: float
    clustered: float
    pairs: float
    nearby: float
    unstated: float
    held: float

    @property
    def vector(self) -> tuple[float, float, float, float, float]:
        """In the order of `WEIGHTS`."""
        return self.unseen, self.clustered, self.pairs, self.nearby, self.unstated


@dataclass(frozen=True, slots=True)
class Around:
    """What the new pairs of the claims before and after weigh at a claim's first and last word."""

    before: float = 0.0
    after: float = 0.0


def measure(statement: Statement, ground: Ground, beside: Around) -> Measures:
    """The measures of one claim against some evidence."""
    held = [ground.holds(value) for value in statement.values]
    new = _new_words(statement, ground, held)
    pairs = _new_pairs(statement, ground, held)
    length = len(new) + SMOOTHING
    return Measures(
        unseen=sum(new) / length,
        clustered=_clustered(new),
        pairs=sum(pairs) / length,
        nearby=_densest(pairs, beside) / 20,
        unstated=float(ground.lacks(statement) is not None),
        held=sum(1 for value in new if value < 1.0) / len(new) if new else float(all(held)),
    )


def _is_exact(value: Value) -> bool:
    """Whether evidence that bears a value out must state it: "two kinds" may be counted, "27 kinds" hardly."""
    return value.kind != "number" or value.raw[:1].isdigit()


def around(statements: Sequence[Statement], ground: Ground) -> list[Around]:
    """What stands around each claim of an answer, all of its claims compared with the same evidence."""
    rows = [_new_pairs(each, ground, [ground.holds(value) for value in each.values]) for each in statements]
    before = _carried(rows)
    after = _carried([row[::-1] for row in rows[::-1]])[::-1]
    return [Around(*both) for both in zip(before, after, strict=True)]


def probability(measures: Measures) -> float:
    """The probability that the evidence supports the claim, in [0, 1], support and its absence being alike likely.

    1 / (1 + exp(b + w · x + log(r / (1 - r)))) times min(1, held / 0.5); r: the share of supported claims in the fit.
    """
    logit = BIAS + sum(weight * value for weight, value in zip(WEIGHTS, measures.vector, strict=True))
    shifted = logit + math.log(SUPPORTED_RATE / (1 - SUPPORTED_RATE))
    return min(1.0, measures.held / NEEDED) / (1 + math.exp(shifted))


def _new_words(statement: Statement, ground: Ground, held: Sequence[bool]) -> list[float]:
    found = []
    for term, place in zip(statement.terms, statement.places, strict=True):
        if (place >= 0 and held[place]) or term in ground.vocabulary or term in ground.question:
            found.append(0.0)
        else:
            found.append(SIMILAR if len(term) >= STEM and term[:STEM] in ground.stems else 1.0)
    return found


def _new_pairs(statement: Statement, ground: Ground, held: Sequence[bool]) -> list[float]:
    """For each word whether it and the one before it are no neighbors in the evidence; a value that is held is known
    in any shape."""
    terms, places = statement.terms, statement.places
    found = [0.0] * len(terms)
    for at in range(1, len(terms)):
        same = places[at] >= 0 and places[at] == places[at - 1] and held[places[at]]
        known = same or terms[at - 1] == terms[at] or f"{terms[at - 1]} {terms[at]}" in ground.pairs
        found[at] = 0.0 if known else 1.0
    return found


def _clustered(new: Sequence[float]) -> float:
    if not any(new):
        return 0.0
    padded = [0.0] * 3 + list(new) + [0.0] * 3
    far, mid, close = NEAR
    return max(
        far * (padded[at - 3] + padded[at + 3]) + mid * (padded[at - 2] + padded[at + 2])
        + close * (padded[at - 1] + padded[at + 1])
        for at in range(3, len(new) + 3)
    ) / 4  # fmt: skip


def _densest(pairs: Sequence[float], beside: Around) -> float:
    """The largest sum over the answer's new pairs, each weighed by its distance from one word of the claim."""
    left, right, weight = [], [], beside.before
    for value in pairs:
        weight = weight * DECAY + value
        left.append(weight)
    weight = beside.after
    for value in reversed(pairs):
        weight = weight * DECAY + value
        right.append(weight)
    return max((one + two - own for one, two, own in zip(left, reversed(right), pairs, strict=True)), default=0.0)


def _carried(rows: Iterable[Sequence[float]]) -> list[float]:
    """What the rows before each row weigh at its beginning."""
    found, weight = [], 0.0
    for row in rows:
        found.append(weight)
        for value in row:
            weight = weight * DECAY + value
    return found
