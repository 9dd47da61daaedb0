"""p-values of harm by exchanging what equal versions make exchangeable: exact however skewed or tied the scores are.

Pairs: the sign of each cluster's difference is flipped. Independent samples: clusters are dealt anew to the two sides,
and the studentized difference is compared. Drawing ends early where the p-value is plainly large.
Sources: Janssen (1997) and Chung and Romano (2013) on studentized permutation tests, which stay right for means when
the sides differ in more; Besag and Clifford (1991), "Sequential Monte Carlo p-values".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate.statistics.samples import Floats, Sample, Side

__all__ = ["LIMIT", "exchange_p_values"]

LIMIT: Final = 2_000
"""Clusters (of the smaller side) up to which labels are exchanged; with more, Student's t is as good."""

_ENOUGH: Final = 50  # draws as extreme as what was seen, after which drawing ends
_FIRST, _MOST = 256, 8192  # draws of the first round, which doubles until it has the most
_SIGNS, _HANDS = 1 << 14, 1 << 18  # entries of a matrix of signs (it stays in the cache), and of deals
_TIE: Final = 1e-9


def exchange_p_values(sample: Sample, draws: int, chance: np.random.Generator) -> Floats:
    """One-sided p-values of "the candidate is not worse", one for each metric, from at most `draws` exchanges."""
    deal = _Flips(sample.sides[0]) if len(sample.sides) == 1 else _Deals(sample, chance)
    found = np.full(deal.metrics, np.nan)
    extreme = np.zeros(deal.metrics, dtype=np.int64)
    drawn, size = 0, _FIRST
    while drawn < draws and np.isnan(found).any():
        going = np.flatnonzero(np.isnan(found))
        size = min(size, draws - drawn, _MOST)
        counts = extreme[going] + deal.draw(size, going, chance).cumsum(axis=0)
        done = counts[-1] >= _ENOUGH
        found[going[done]] = _ENOUGH / (drawn + 1.0 + (counts[:, done] >= _ENOUGH).argmax(axis=0))
        extreme[going] = counts[-1]
        drawn += size
        size *= 2
    return np.where(np.isnan(found), (extreme + 1.0) / (draws + 1.0), found)


class _Flips:
    """Signs of the clusters' differences. The mean is a monotone function of its own t here, since flipping leaves
    the sum of squares as it is."""

    def __init__(self, side: Side) -> None:
        self._totals = side.totals[np.any(side.totals != 0.0, axis=1)]
        self._seen = self._totals.sum(axis=0)
        self._seen += _TIE * np.abs(self._totals).sum(axis=0)
        self.clusters, self.metrics = max(1, len(self._totals)), self._totals.shape[1]

    def draw(self, size: int, columns: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.bool_]:
        """Which of `size` flips are as bad as what was seen, in each of the columns."""
        totals = self._totals[:, columns]
        found = np.empty((size, len(columns)), dtype=np.bool_)
        for part in _parts(size, _SIGNS // self.clusters):
            signs = chance.integers(0, 2, size=(len(found[part]), len(totals)), dtype=np.int8) * 2.0 - 1.0
            found[part] = signs @ totals <= self._seen[columns]
        return found


class _Deals:
    """Clusters of both sides, dealt to two hands of the same sizes. A side's weights are scaled to a mean of one, and
    of a far larger side a random part is taken."""

    def __init__(self, sample: Sample, chance: np.random.Generator) -> None:
        most = 2 * LIMIT
        one, two = (_scaled(_thinned(side, most, chance)) for side in sample.sides)
        self._dealt = len(one.totals)
        totals, weights = np.vstack([one.totals, two.totals]), np.vstack([one.weights, two.weights])
        self.clusters, self.metrics = totals.shape
        parts = (totals, weights, totals**2, totals * weights, weights**2, (weights > 0).astype(np.float64))
        self._clusters = np.stack(parts, axis=1)
        self._sums = self._clusters.sum(axis=0)
        seen = _studentized(self._clusters[: self._dealt].sum(axis=0), self._sums)
        self._seen = seen + _TIE * np.abs(np.where(np.isfinite(seen), seen, 0.0))

    def draw(self, size: int, columns: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.bool_]:
        """Which of `size` deals are as bad as what was seen, in each of the columns."""
        sums = self._sums[:, columns]
        each = np.ascontiguousarray(self._clusters[:, :, columns]).reshape(self.clusters, -1)
        found = np.empty((size, len(columns)), dtype=np.bool_)
        for part in _parts(size, _HANDS // self.clusters):
            held = np.zeros((len(found[part]), self.clusters), dtype=np.int8)
            held[:, : self._dealt] = 1
            chance.permuted(held, axis=1, out=held)
            one = (held.astype(np.float64) @ each).reshape(len(held), *sums.shape)
            found[part] = _studentized(one, sums) <= self._seen[columns]
        return found


def _parts(size: int, step: int) -> Iterator[slice]:
    step = max(1, step)
    return (slice(start, min(size, start + step)) for start in range(0, size, step))


def _studentized(one: Floats, sums: Floats) -> Floats:
    """Of each deal and metric, from the sums of one hand and of both: (..., 6, metrics)."""
    mean, variance = _moments(one)
    other, variance_too = _moments(sums - one)
    gap, error = mean - other, np.sqrt(np.maximum(variance + variance_too, 0.0))
    gap = np.where(np.abs(gap) < _TIE, 0.0, gap)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(error > _TIE, gap / error, np.where(gap == 0.0, 0.0, np.copysign(np.inf, gap)))
    return np.where(np.isnan(found), -np.inf, found)  # a hand without values counts against the candidate


def _moments(sums: Floats) -> tuple[Floats, Floats]:
    totals, weights, squares, crossed, weighted, units = np.moveaxis(sums, -2, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = totals / weights
        spread = squares - 2 * mean * crossed + mean**2 * weighted
        return mean, np.maximum(spread, 0.0) / weights**2 * np.where(units > 1, units / (units - 1), 1.0)


def _scaled(side: Side) -> Side:
    sums = side.weights.sum(axis=0)
    scale = np.where(sums > 0, side.units / np.where(sums > 0, sums, 1.0), 1.0)
    return Side(side.totals * scale, side.weights * scale)


def _thinned(side: Side, most: int, chance: np.random.Generator) -> Side:
    if len(side.totals) <= most:
        return side
    rows = np.sort(chance.choice(len(side.totals), size=most, replace=False))
    return Side(side.totals[rows], side.weights[rows])
