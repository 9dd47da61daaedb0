"""Bounds of a share that was counted on a sample, for alerts, dashboards and triage alike."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final

__all__ = ["ONE_SIDED_95", "TWO_SIDED_95", "effective_size", "share_and_size", "wilson"]

ONE_SIDED_95: Final = 1.645
TWO_SIDED_95: Final = 1.959963984540054


def wilson(part: float, whole: float, z: float = ONE_SIDED_95) -> tuple[float, float]:
    """Lower and upper bound of the share that `part` of `whole` stands for, in [0, 1]; (0, 1) of none.

    z: standard deviations; 1.645 leaves 5 % on each side, 1.96 leaves 2.5 %.
    Source: Wilson (1927), "Probable inference"; Google SRE workbook, chapter 5, for why a sampled ratio needs it.
    """
    if whole <= 0:
        return 0.0, 1.0
    share, square = part / whole, z * z / whole
    middle = (share + square / 2) / (1 + square)
    reach = z * sqrt(share * (1 - share) / whole + square / (4 * whole)) / (1 + square)
    low = max(0.0, middle - reach) if part > 0 else 0.0
    return low, (min(1.0, middle + reach) if part < whole else 1.0)


def effective_size(share: float, variance: float, kish: float) -> float:
    """Of a weighted share: how many requests drawn evenly and independently would tell as much; no more than by the
    weights alone (`kish`), as the few of great weight may all have been lucky.

    Source: Korn and Graubard (1998), "Confidence intervals for proportions with small expected number of positive
    counts".
    """
    known = 0.0 < share < 1.0 and variance > 0
    return min(share * (1 - share) / variance, kish) if known else kish


def share_and_size(weighed: Sequence[tuple[bool, float]]) -> tuple[float, float]:
    """The share of those that count, each with its weight (Hájek's estimate), and how many requests that were drawn
    evenly would tell as much of it.

    weighed: at least one, with weights above 0: one over the probability with which it was drawn.
    """
    if len({weight for _, weight in weighed}) == 1:
        return sum(counts for counts, _ in weighed) / len(weighed), float(len(weighed))
    whole = sum(weight for _, weight in weighed)
    share = sum(weight for counts, weight in weighed if counts) / whole
    variance = sum((weight * (counts - share)) ** 2 for counts, weight in weighed) / whole**2
    return share, effective_size(share, variance, whole**2 / sum(weight**2 for _, weight in weighed))
