"""How far the retriever's own scores set candidates apart, on whatever scale they are.

The retriever's scores judge what comes after it (reranking, packing) and whether anything stood out at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.types import Candidate

__all__ = ["USUAL", "place_among", "standings", "standout", "top_score"]

NEIGHBORS: Final = 5  # scores behind the best that may belong to evidence as well; the rest is the background
BACKGROUND: Final = 5  # fewer scores than this are no background
USUAL: Final = 40  # scores of other requests from which on the place of one among them tells something
FLOOR: Final = 0.02  # of the range of all scores: the least spread that a background is taken to have


def standings(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Each candidate's place between the background (0) and the best score (1): `(n,)`, in [0, 1].

    The background is the mean of all scores but the first few. Zeros where the scores tell nothing: some are absent,
    too few, all alike, or not in the order of the ranks (as where several retrievers' scores are mixed).
    """
    scores = _ordered(candidates)
    if scores is None:
        return np.zeros(len(candidates))
    background = np.sort(scores)[:-NEIGHBORS].mean()
    return np.asarray(np.clip((scores - background) / (scores.max() - background), 0.0, 1.0), dtype=np.float64)


def standout(candidates: Sequence[Candidate]) -> float | None:
    """How many standard deviations of the background the best score lies above its mean, > 0; None as above."""
    scores = _ordered(candidates)
    if scores is None:
        return None
    background = np.sort(scores)[:-NEIGHBORS]
    spread = max(float(background.std()), FLOOR * float(np.ptp(scores)))
    return float(scores.max() - background.mean()) / spread


def top_score(candidates: Sequence[Candidate]) -> float | None:
    """The best candidate's score, greater for better (distances are turned around); None where the scores tell nothing:
    fewer than two, some absent, all alike, or not in the order of the ranks."""
    ranked = sorted(candidates, key=lambda candidate: candidate.rank)
    known = [candidate.score for candidate in ranked if candidate.score is not None]
    if len(known) < max(2, len(ranked)) or not np.isfinite(known).all():
        return None
    steps = np.diff(known)
    if not steps.any() or ((steps > 0).any() and (steps < 0).any()):
        return None
    return -known[0] if (steps > 0).any() else known[0]


def place_among(score: float, usual: Sequence[float]) -> float | None:
    """The share of a service's usual best scores that lie below one, in [0, 1], ties by half.

    None where few are known, or the score lies so far outside of them that something else made it.
    """
    if len(usual) < USUAL:
        return None
    known = np.asarray(usual, dtype=np.float64)
    low, high = float(known.min()), float(known.max())
    if not low - (high - low) <= score <= high + (high - low):
        return None
    return float((known < score).mean() + 0.5 * (known == score).mean())


def _ordered(candidates: Sequence[Candidate]) -> NDArray[np.float64] | None:
    """The scores, greater for a better rank (distances are turned around); None where they tell nothing."""
    ranked = sorted(candidates, key=lambda candidate: candidate.rank)
    known = [candidate.score for candidate in ranked if candidate.score is not None]
    if len(known) < len(ranked) or len(known) < NEIGHBORS + BACKGROUND or not np.isfinite(known).all():
        return None
    steps = np.diff(known)
    if not steps.any() or ((steps > 0).any() and (steps < 0).any()):
        return None
    sign = -1.0 if (steps > 0).any() else 1.0
    return sign * np.array([candidate.score for candidate in candidates], dtype=float)
