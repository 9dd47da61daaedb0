"""Evidence presence: how likely the candidates hold what the question needs, where no oracle can tell.

Facets alone seldom tell: most questions name none that an absent chunk would leave unmet. What shows a lost chunk is
that no candidate speaks of the question as it would, that no retriever score stands out from the rest, and that the
generator declined although it was given the best candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from ragtrace.coverage.standing import standout
from ragtrace.coverage.support import Evidence, Vocabulary
from ragtrace.coverage.text import content_words
from ragtrace.types import Candidate

__all__ = ["evidence_presence", "spoken_share"]

FEWEST: Final = 10  # candidates: among fewer, what is rare or stands out cannot be told


class _Odds(NamedTuple):
    """Weights of the logarithm of the odds."""

    base: float
    spoken: float
    standout: float
    declined: float


# Fitted by logistic regression on the development half of bench/diagnosis.py.
SCORED: Final = _Odds(base=-5.35, spoken=3.81, standout=2.06, declined=-2.64)
UNSCORED: Final = _Odds(base=-1.42, spoken=4.81, standout=0.0, declined=-2.58)


def evidence_presence(query: str, candidates: Sequence[Candidate], *, declined: bool = False) -> float | None:
    """The estimated probability that the candidates hold the evidence, in (0, 1); 0 where there are no candidates.

    1 / (1 + exp(-(b + w_1 · spoken + w_2 · log(1 + standout) + w_3 · declined))), see `spoken_share` and `standout`;
    with weights of their own where the scores tell nothing. None where the candidates are few or have no text, or the
    question has no words. declined: the answer abstains although the best candidates stood in its prompt.
    """
    if not candidates:
        return 0.0
    spoken = spoken_share(query, candidates) if len(candidates) >= FEWEST else None
    if spoken is None:
        return None
    far = standout(candidates)
    odds = UNSCORED if far is None else SCORED
    logit = odds.base + odds.spoken * spoken + odds.standout * math.log1p(far or 0.0) + odds.declined * declined
    return 1 / (1 + math.exp(-logit))


def spoken_share(query: str, candidates: Sequence[Candidate]) -> float | None:
    """The rarity-weighted share of the question's words that one window of a candidate holds, with its heading: the
    best one's, in [0, 1]. None without text of any candidate, or without words in the question."""
    pool = [Evidence.read(candidate.chunk_id, candidate.text or "") for candidate in candidates]
    vocabulary = Vocabulary(pool)
    weights = {word: vocabulary.weight(word) for word in content_words(query)}
    total = sum(weights.values())
    windows = [window.words | evidence.heading for evidence in pool for window in evidence.windows]
    if not windows or not total:
        return None
    return max(sum(weight for word, weight in weights.items() if word in window) for window in windows) / total
