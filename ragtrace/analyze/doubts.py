"""How much each stage of a request is in doubt: logistic scores of its signs, and the lines between the states.

What is usual differs: answers in words of their own, manuals whose entries are alike, questions of three words. Where a
service is known, the place of a score among those of its other requests counts beside the score itself.

Weights and lines are fitted by `python bench/verdict.py --fit` on requests written by hand and on faults of two
injectors, and are judged on domains and injectors that a fit did not see (docs/explanation/verdict.md has the figures).
A stage is sound below the first line, suspected from the second on, and broken from the third on, where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from ragtrace.analyze.signs import Signs

__all__ = [
    "ACQUITTAL",
    "GENERATION",
    "RANKING",
    "RETRIEVAL",
    "RETRIEVAL_UNSCORED",
    "USUAL",
    "Doubt",
    "Level",
    "Lines",
    "Usual",
    "features_of",
    "log_odds_of",
    "place_odds",
    "usable",
]

_DIGITS: Final = 3  # of log odds that are kept


USUAL: Final = 40  # requests of a service from which on the place of a score among theirs tells something
_INSIDE: Final = 0.99  # of the range of places: the least and the greatest of all are no certainty

Usual: TypeAlias = Mapping[str, Sequence[float]]
"""The log odds that other requests of a service had, by the name of the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The log odds below which a stage is sound, and from which on it is suspected or broken; None where a score never
    says so."""

    sound: float | None = None
    suspected: float | None = None
    broken: float | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """The log odds of a doubt, and the lines that it lies between. is_broken: whether the score alone reaches its line
    of proof, whatever is usual."""

    odds: float
    lines: Lines
    is_broken: bool

    @property
    def is_sound(self) -> bool:
        """Whether it lies below the line of soundness."""
        return self.lines.sound is not None and self.odds < self.lines.sound

    @property
    def is_suspected(self) -> bool:
        """Whether it reaches the line of suspicion."""
        return self.lines.suspected is not None and self.odds >= self.lines.suspected


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A logistic score: log odds = base + Σ weight · feature, and the lines between the states.

    lines: for the score alone. unusual: the weight of the log odds of its place among those of the service's other
    requests, added where enough of these are known; known: the lines for that sum, which proves nothing: a request may
    be the first of its kind.
    """

    name: str
    base: float
    weights: Mapping[str, float]
    lines: Lines
    unusual: float
    known: Lines

    def log_odds(self, signs: Signs) -> float:
        """The score's log odds by the signs alone."""
        given = features_of(signs)
        return self.base + math.fsum(weight * given[name] for name, weight in self.weights.items())

    def level(self, signs: Signs, usual: Usual) -> Level:
        """The score of a request's signs beside those of the service's other requests, with the lines that apply."""
        odds, others = self.log_odds(signs), usual.get(self.name, ())
        is_broken = self.lines.broken is not None and odds >= self.lines.broken
        if len(others) < USUAL:
            return Level(odds, self.lines, is_broken)
        return Level(odds + self.unusual * place_odds(odds, others), self.known, is_broken)


def place_odds(value: float, others: Sequence[float]) -> float:
    """The log odds of the share of `others` that lie below a value, ties by half; finite."""
    known = np.asarray(others, dtype=np.float64)
    place = float((known < value).mean() + 0.5 * (known == value).mean())
    inside = _INSIDE * place + (1 - _INSIDE) / 2
    return math.log(inside / (1 - inside))


# What is taken for a sign that could not be computed: about its mean over sound requests.
_NEUTRAL: Final = {
    "pool_match": 0.4,
    "packed_match": 0.4,
    "missing": 0.3,
    "pool_facets": 0.9,
    "top": 0.5,
    "supported": 0.5,
    "weakest": 0.5,
    "answered": 0.3,
    "on_topic": 0.2,
    "relevance": 0.6,
    "outside": 0.3,
    "foreign": 0.3,
    "contradicted": 0.0,
}
_DERIVED: Final[Mapping[str, Callable[[Signs], float]]] = {
    "declined": lambda signs: float(signs.declined),
    "hedged": lambda signs: float(signs.hedged),
    "unclaimed": lambda signs: float(signs.supported is None),
    "left_count": lambda signs: math.log1p(signs.left_count),
    "altered": lambda signs: signs.altered or 0.0,
    "left_standing": lambda signs: signs.left_standing or 0.0,
    "lead": lambda signs: (signs.left_match or 0.0) - (signs.packed_match or 0.0),
    "facets_lead": lambda signs: _or(signs.left_facets, 0.9) - _or(signs.packed_facets, 0.9),
    "odd": lambda signs: math.log1p(signs.odd or 0),
    "absent": lambda signs: math.log1p(signs.absent or 0),
}


def features_of(signs: Signs) -> dict[str, float]:
    """The features of the scores by name."""
    plain = {name: _or(getattr(signs, name), neutral) for name, neutral in _NEUTRAL.items()}
    return plain | {name: of(signs) for name, of in _DERIVED.items()}


def usable(signs: Signs) -> tuple[str, ...]:
    """The names of the scores that say something of a request with these signs."""
    found = []
    if signs.pool_match is not None:
        found += ["RETRIEVAL_UNSCORED", "ACQUITTAL", *(["RETRIEVAL"] if signs.top is not None else [])]
    if signs.left_match is not None and signs.packed_match is not None:
        found.append("RANKING")
    if signs.supported is not None and not signs.declined and signs.readable:
        found.append("GENERATION")
    return tuple(found)


def log_odds_of(signs: Signs) -> dict[str, float]:
    """What is kept of a request, so that others can be set beside it: the log odds of each score, by its name."""
    return {name: round(_BY_NAME[name].log_odds(signs), _DIGITS) for name in usable(signs)}


def _or(value: float | None, neutral: float) -> float:
    return neutral if value is None else float(value)


# RETRIEVAL: 7053 requests, 2715 broken; left out:
#   sound: 78.0% of sound requests (63.7% in hr), 25.2% of broken ones
#   suspected: 6.3% of sound requests (11.8% in hr), 40.5% of broken ones
#   known, sound: 76.3% of sound requests (72.5% in hr), 23.8% of broken ones
#   known, suspected: 6.8% of sound requests (9.4% in code), 42.6% of broken ones
RETRIEVAL: Final = Doubt(
    name="RETRIEVAL",
    base=2.53,
    weights={"pool_match": -2.20, "missing": -0.18, "pool_facets": -1.04, "top": -2.57, "declined": 1.34},
    lines=Lines(sound=-0.02, suspected=0.89),
    unusual=2.0,
    known=Lines(sound=1.79, suspected=5.20),
)
# RETRIEVAL_UNSCORED: 11820 requests, 4581 broken; left out:
#   sound: 62.4% of sound requests (49.7% in hr), 22.6% of broken ones
#   suspected: 6.1% of sound requests (11.6% in hr), 38.7% of broken ones
#   known, sound: 64.8% of sound requests (60.3% in manuals), 23.4% of broken ones
#   known, suspected: 6.2% of sound requests (9.2% in hr), 41.5% of broken ones
RETRIEVAL_UNSCORED: Final = Doubt(
    name="RETRIEVAL_UNSCORED",
    base=2.42,
    weights={"pool_match": -3.41, "missing": -0.84, "pool_facets": -1.17, "declined": 1.39},
    lines=Lines(sound=-0.23, suspected=0.62),
    unusual=2.0,
    known=Lines(sound=0.69, suspected=4.77),
)
# ACQUITTAL: 6994 requests, 4581 broken; left out:
#   sound: 72.2% of sound requests (66.2% in odd), 23.6% of broken ones
#   known, sound: 72.4% of sound requests (68.4% in odd), 24.3% of broken ones
ACQUITTAL: Final = Doubt(
    name="ACQUITTAL",
    base=3.68,
    weights={
        "pool_match": -1.52,
        "missing": -0.77,
        "pool_facets": -1.14,
        "top": -2.05,
        "declined": 2.54,
        "supported": -0.66,
        "answered": -2.61,
        "unclaimed": -0.43,
    },
    lines=Lines(sound=-0.15),
    unusual=2.0,
    known=Lines(sound=1.16),
)
# RANKING: 9893 requests, 4550 broken; left out:
#   sound: 95.1% of sound requests (81.8% in chats), 15.7% of broken ones
#   suspected: 4.9% of sound requests (18.2% in chats), 84.3% of broken ones
#   broken: 0.6% of sound requests (1.2% in odd), 61.6% of broken ones
#   known, sound: 95.1% of sound requests (86.4% in chats), 14.8% of broken ones
#   known, suspected: 4.9% of sound requests (13.6% in chats), 85.2% of broken ones
RANKING: Final = Doubt(
    name="RANKING",
    base=0.68,
    weights={
        "lead": 12.50,
        "facets_lead": 2.52,
        "packed_match": 2.93,
        "left_count": -0.70,
        "left_standing": 3.31,
        "declined": 1.22,
        "answered": -0.69,
    },
    lines=Lines(sound=0.44, suspected=0.44, broken=2.38),
    unusual=1.0,
    known=Lines(sound=2.47, suspected=2.47),
)
# GENERATION: 5722 requests, 3686 broken; left out:
#   sound: 79.0% of sound requests (71.1% in finance), 25.5% of broken ones
#   suspected: 8.1% of sound requests (15.2% in odd), 54.7% of broken ones
#   broken: 0.6% of sound requests (3.6% in finance), 16.8% of broken ones
#   known, sound: 78.8% of sound requests (73.0% in odd), 26.2% of broken ones
#   known, suspected: 7.7% of sound requests (13.1% in odd), 55.8% of broken ones
GENERATION: Final = Doubt(
    name="GENERATION",
    base=0.65,
    weights={
        "supported": -1.75,
        "weakest": -0.66,
        "foreign": 0.54,
        "odd": 1.52,
        "absent": 0.38,
        "contradicted": 1.19,
        "altered": 2.49,
        "on_topic": -1.42,
    },
    lines=Lines(sound=-0.17, suspected=1.17, broken=2.59),
    unusual=2.0,
    known=Lines(sound=1.90, suspected=4.81),
)

_BY_NAME: Final = {doubt.name: doubt for doubt in (RETRIEVAL, RETRIEVAL_UNSCORED, ACQUITTAL, RANKING, GENERATION)}
