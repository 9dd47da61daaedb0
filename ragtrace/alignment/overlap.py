"""Rank-biased overlap of two rankings: as far as they go, and extrapolated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment.rankings import Ranking, positions
from ragtrace.errors import ConfigurationError
from ragtrace.numeric import is_real

__all__ = ["check_persistence", "discounted", "overlaps", "rbo", "rbo_ext"]


def check_persistence(p: float) -> None:
    """Raises: ConfigurationError unless 0 < p < 1."""
    if not (is_real(p) and 0 < p < 1):
        raise ConfigurationError(f"p is {p!r}; give a number between 0 and 1, both excluded, such as 0.9")


def overlaps(a: Ranking, b: Ranking) -> NDArray[np.float64]:
    """|a_1:d ∩ b_1:d| for each depth d, down to the length of the longer ranking. Raises: as `rbo`."""
    ranks_a, ranks_b = positions(a, "a"), positions(b, "b")
    deeper = [max(rank, ranks_b[document]) for document, rank in ranks_a.items() if document in ranks_b]
    return np.cumsum(np.bincount(deeper, minlength=max(len(a), len(b)))).astype(np.float64)


def discounted(by_depth: NDArray[np.float64], p: float) -> float:
    """Σ p^(d-1) x_d."""
    return float(np.sum(p ** np.arange(len(by_depth)) * by_depth))


def rbo(a: Ranking, b: Ranking, p: float) -> float:
    """Rank-biased overlap (1-p) Σ_{d=1..k} p^(d-1) |a_1:d ∩ b_1:d| / d, in [0, 1 - p^k].

    k is the length of the longer ranking; beyond its end the shorter one stays whole. Symmetric. Not normalized:
    equal rankings have 1 - p^k.

    Raises: ConfigurationError for a p outside of (0, 1), an empty ranking, or a document that stands in one twice.
    Source: Webber, Moffat and Zobel, "A similarity measure for indefinite rankings" (2010); RAG-E, eq. 11.
    """
    check_persistence(p)
    overlap = overlaps(a, b)
    return (1 - p) * discounted(overlap / np.arange(1, len(overlap) + 1), p)


def rbo_ext(a: Ranking, b: Ranking, p: float) -> float:
    """Rank-biased overlap extrapolated beyond the end of the rankings, in [0, 1]; equal rankings have 1.

    Assumes that the agreement seen at the end goes on, also for rankings of different lengths. Symmetric.

    Raises: as `rbo`. Source: Webber, Moffat and Zobel (2010), eq. 32.
    """
    check_persistence(p)
    overlap = overlaps(a, b)
    short, long = sorted((len(a), len(b)))
    depth = np.arange(1, long + 1)
    at_short, at_long = float(overlap[short - 1]), float(overlap[long - 1])
    beyond = at_short * np.clip(depth - short, 0, None) / short
    seen = (1 - p) * discounted((overlap + beyond) / depth, p)
    return min(1.0, seen + ((at_long - at_short) / long + at_short / short) * p**long)  # rounding aside it is below
