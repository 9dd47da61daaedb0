"""Bounds of means by the bootstrap: BCa, held against the worst case that the sample may not have shown yet.

Clusters are resampled, each side by itself, and the same resamples serve every metric.
Sources: Efron (1987), "Better bootstrap confidence intervals"; Davison and Hinkley (1997), chapter 5, for several
samples; Gaffke (2005), "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate.statistics.library import special
from ragtrace.gate.statistics.samples import Floats, Sample, Side

__all__ = ["LIMIT", "Replicates", "resample"]

LIMIT: Final = 2_000
"""Clusters of a side up to which it is resampled; a mean of more is as good as normal."""

_NOTHING: Final = 1e-12  # what rounding makes of equal values
_CELLS: Final = 1 << 14  # entries of a round's matrix of weights: it stays in the cache, and in one thread


class Replicates:
    """The value of each metric in every resample, and what BCa needs beside it.

    draws: (resamples, metrics). unlucky: the same with an unseen share of requests at the worst value that a request
    can have; +inf where values have no bound.
    """

    def __init__(self, sample: Sample, draws: Floats, unlucky: Floats) -> None:
        self._values = sample.values
        below = (draws < self._values).sum(axis=0) + 0.5 * (draws == self._values).sum(axis=0)
        offset = special().ndtri(np.clip(below, 0.5, len(draws) - 0.5) / len(draws))
        self._draws, self._unlucky = np.sort(draws, axis=0), np.sort(unlucky, axis=0)
        self._still = np.ptp(self._draws, axis=0) < _NOTHING
        self._offset = np.where(self._still, 0.0, offset)
        self._acceleration = np.where(self._still, 0.0, _acceleration(sample))

    def low(self, alpha: float) -> Floats:
        """The bound that the value exceeds with confidence 1 - alpha."""
        return np.asarray(np.minimum(self._bound(alpha), np.quantile(self._unlucky, alpha, axis=0, method="lower")))

    def high(self, alpha: float) -> Floats:
        """The bound that the value stays below with confidence 1 - alpha."""
        return self._bound(1 - alpha)

    def at_most(self, bounds: Floats) -> Floats:
        """The p-values of "the value is at most this": where the lower bound first reaches it."""
        count = len(self._draws)
        below = np.array([_share(column, bound) for column, bound in zip(self._draws.T, bounds, strict=True)])
        known = special()
        z = known.ndtri(np.clip(below, 0.5 / count, 1 - 0.5 / count)) - self._offset
        p = known.ndtr(z / np.maximum(1 + self._acceleration * z, _NOTHING) - self._offset)
        p = np.where(self._still, np.where(self._values <= bounds, 1.0, 0.0), p)
        return np.asarray(np.maximum(p, (self._unlucky <= bounds).sum(axis=0) / count))

    def _bound(self, level: float) -> Floats:
        known = special()
        z = self._offset + known.ndtri(level)
        levels = known.ndtr(self._offset + z / np.maximum(1 - self._acceleration * z, _NOTHING))
        return _quantiles(self._draws, levels)


def resample(sample: Sample, count: int, worst: Sequence[Floats], chance: np.random.Generator) -> Replicates:
    """Draw `count` resamples of the clusters.

    worst: of each side the value of each metric that is the worst for the candidate; infinite where there is none.
    """
    draws = unlucky = np.zeros((count, len(sample.values)))
    for sign, side, value in zip(sample.signs, sample.sides, worst, strict=True):
        means = _means(side, count, chance)
        means = np.where(np.isnan(means), side.means, means)
        unseen = _unseen(side, count, chance)
        draws = draws + sign * means
        unlucky = unlucky + sign * np.where(np.isfinite(value), (1 - unseen) * means + unseen * value, sign * np.inf)
    return Replicates(sample, draws, unlucky)


def _quantiles(ordered: Floats, levels: Floats) -> Floats:
    """Of each sorted column the quantile at its own level, between neighbors in proportion."""
    places = np.nan_to_num(levels, nan=0.5) * (len(ordered) - 1)
    below = np.floor(places).astype(np.int64)
    above = np.minimum(below + 1, len(ordered) - 1)
    one, two = (np.take_along_axis(ordered, at[None, :], axis=0)[0] for at in (below, above))
    return np.asarray(one + (places - below) * (two - one))


def _means(side: Side, count: int, chance: np.random.Generator) -> Floats:
    clusters = len(side.totals)
    if clusters > LIMIT:
        return side.means + np.sqrt(side.variances) * chance.standard_normal((count, side.totals.shape[1]))
    found = np.empty((count, side.totals.shape[1]))
    step = max(1, _CELLS // max(1, clusters))
    for start in range(0, count, step):
        size = min(step, count - start)
        drawn = chance.integers(0, clusters, size=(size, clusters)) + clusters * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * clusters).reshape(size, clusters).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            found[start : start + size] = (times @ side.totals) / (times @ side.weights)
    return found


def _unseen(side: Side, count: int, chance: np.random.Generator) -> Floats:
    """Shares of requests that none in the sample is like: Beta(1, effective clusters), by quantiles in random order."""
    grid = (chance.permutation(count)[:, None] + 0.5) / count
    return np.asarray(1 - (1 - grid) ** (1.0 / np.maximum(side.effective, 1)))


def _acceleration(sample: Sample) -> Floats:
    influences = np.vstack([sign * side.influences for sign, side in zip(sample.signs, sample.sides, strict=True)])
    squares = (influences**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (influences**3).sum(axis=0) / (6 * squares**1.5)
    return np.asarray(np.nan_to_num(found, nan=0.0))


def _share(column: NDArray[np.float64], bound: float) -> float:
    low, high = np.searchsorted(column, bound, side="left"), np.searchsorted(column, bound, side="right")
    return float((low + high) / 2 / len(column))
