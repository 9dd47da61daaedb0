"""How far the retriever's own scores set candidates apart, on whatever scale they are.

They judge what comes after the retriever (reranking, packing), and never the retriever itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.types import Candidate

__all__ = ["standings"]

NEIGHBORS: Final = 5  # scores behind the best that may belong to evidence as well; the rest is the background
BACKGROUND: Final = 5  # fewer scores than this are no background


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
