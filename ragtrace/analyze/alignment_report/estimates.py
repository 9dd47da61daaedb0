"""Means over requests with bootstrap intervals, each request weighted by the inverse of its chance to be kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["RESAMPLES", "Estimate", "estimated"]

RESAMPLES: Final = 1000
_CONFIDENCE: Final = 0.95
_CELLS: Final = 2_000_000  # requests times resamples that are drawn at once


@dataclass(frozen=True, slots=True)
class Estimate:
    """A weighted mean over `requests` requests with its 95 % bootstrap interval, which one request does not have."""

    mean: float
    low: float | None
    high: float | None
    requests: int


def estimated(values: Sequence[float], weights: Sequence[float], seed: int = 0) -> Estimate | None:
    """Σ w_i x_i / Σ w_i over requests, resampled by request; None without any. Deterministic by seed.

    weights: > 0, the inverse of the probability with which each request was kept.
    """
    n = len(values)
    if not n:
        return None
    x, w = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    mean = float(x @ w / w.sum())
    if n == 1:
        return Estimate(mean, None, None, 1)
    means = _resampled(x, w, np.random.default_rng(seed))
    low, high = np.quantile(means, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return Estimate(mean, float(low), float(high), n)


def _resampled(x: NDArray[np.float64], w: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The mean of each resample, a few resamples at a time."""
    n = len(x)
    rows = max(1, _CELLS // n)
    means = []
    for start in range(0, RESAMPLES, rows):
        chosen = rng.integers(n, size=(min(rows, RESAMPLES - start), n))
        means.append((x * w)[chosen].sum(axis=1) / w[chosen].sum(axis=1))
    return np.concatenate(means)
