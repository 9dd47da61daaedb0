"""How much each stage of a request is in doubt: logistic scores of its signs, and the lines between the states.

Weights and lines are fitted by `python bench/verdict.py --fit` on requests written by hand and on faults of two
injectors, and are judged on domains and injectors that a fit did not see (docs/verdict.md has the figures). A stage is
sound below the first line, suspected from the second on, and broken from the third on, where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ragtrace.analyze.signs import Signs

__all__ = ["ACQUITTAL", "GENERATION", "RANKING", "RETRIEVAL", "RETRIEVAL_UNSCORED", "Doubt", "features_of", "usable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """1 / (1 + exp(-(base + Σ weight · feature))), in (0, 1), and the lines between the states.

    sound, suspected, broken: the score below which a stage is sound, and from which on it is suspected or broken; None
    where the score alone never says so.
    """

    base: float
    weights: Mapping[str, float]
    sound: float | None = None
    suspected: float | None = None
    broken: float | None = None

    def of(self, signs: Signs) -> float:
        """The score of a request's signs."""
        given = features_of(signs)
        logit = self.base + math.fsum(weight * given[name] for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


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
    "left_ahead": lambda signs: float(signs.left_ahead or False),
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


def _or(value: float | None, neutral: float) -> float:
    return neutral if value is None else float(value)


# RETRIEVAL: 4249 requests, 1636 broken; left out:
#   sound: 72.8% of sound requests (53.1% in hr), 24.9% of broken ones
#   suspected: 7.7% of sound requests (12.5% in law), 40.0% of broken ones
RETRIEVAL: Final = Doubt(
    base=2.76,
    weights={"pool_match": -2.23, "missing": 0.08, "pool_facets": -1.34, "top": -2.53, "declined": 1.41},
    sound=0.472,
    suspected=0.706,
)
# RETRIEVAL_UNSCORED: 7083 requests, 2748 broken; left out:
#   sound: 60.8% of sound requests (46.6% in hr), 24.3% of broken ones
#   suspected: 6.5% of sound requests (15.5% in chats), 33.0% of broken ones
RETRIEVAL_UNSCORED: Final = Doubt(
    base=2.01,
    weights={"pool_match": -2.41, "missing": -0.11, "pool_facets": -1.40, "declined": 1.43},
    sound=0.440,
    suspected=0.658,
)
# ACQUITTAL: 4193 requests, 2748 broken; left out:
#   sound: 63.9% of sound requests (53.2% in odd), 23.9% of broken ones
ACQUITTAL: Final = Doubt(
    base=3.81,
    weights={
        "pool_match": -1.33,
        "missing": -0.78,
        "pool_facets": -1.44,
        "top": -2.07,
        "declined": 1.86,
        "supported": -0.30,
        "answered": -3.16,
        "unclaimed": 0.30,
    },
    sound=0.451,
)
# RANKING: 5933 requests, 2720 broken; left out:
#   sound: 93.8% of sound requests (87.8% in travel), 20.1% of broken ones
#   suspected: 5.2% of sound requests (10.8% in travel), 76.6% of broken ones
#   broken: 0.4% of sound requests (1.4% in travel), 25.4% of broken ones
RANKING: Final = Doubt(
    base=0.75,
    weights={
        "lead": 10.79,
        "facets_lead": 2.89,
        "packed_match": 2.60,
        "left_count": -0.55,
        "declined": 1.46,
        "answered": -0.57,
    },
    sound=0.611,
    suspected=0.651,
    broken=0.986,
)
# GENERATION: 3581 requests, 2344 broken; left out:
#   sound: 75.2% of sound requests (67.7% in finance), 26.7% of broken ones
#   suspected: 8.3% of sound requests (16.4% in odd), 49.5% of broken ones
#   broken: 0.4% of sound requests (2.0% in finance), 13.1% of broken ones
GENERATION: Final = Doubt(
    base=0.18,
    weights={
        "supported": -1.38,
        "weakest": -0.53,
        "foreign": 1.05,
        "odd": 1.63,
        "absent": 0.32,
        "contradicted": 0.48,
        "altered": -0.31,
        "on_topic": -0.88,
        "hedged": 2.07,
    },
    sound=0.432,
    suspected=0.739,
    broken=0.933,
)
