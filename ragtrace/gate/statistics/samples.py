"""Weighted sums by cluster: all that means, their variances and resampling need of a segment's requests.

A sample has one side (the differences of pairs) or two (candidate and baseline as independent samples). Its value is
the signed sum of its sides' weighted means; higher is better. Everything is one column per metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Sample", "Side", "Student", "side_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Side:
    """(clusters, metrics) sums of weight times value, and of the weights, over the requests with a value."""

    totals: Floats
    weights: Floats

    @cached_property
    def means(self) -> Floats:
        """Hájek's estimate of each mean: the weighted sum over the sum of the weights. NaN of nothing."""
        with np.errstate(invalid="ignore", divide="ignore"):
            means: Floats = self.totals.sum(axis=0) / self.weights.sum(axis=0)
        return means

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """How many clusters have a value."""
        return np.asarray((self.weights > 0).sum(axis=0), dtype=np.int64)

    @cached_property
    def effective(self) -> Floats:
        """How many clusters of even weight would tell as much (Kish): a few of great weight are few."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found = self.weights.sum(axis=0) ** 2 / (self.weights**2).sum(axis=0)
        return np.asarray(np.nan_to_num(found, nan=0.0))

    @cached_property
    def influences(self) -> Floats:
        """How far each cluster moves the mean: the linearized statistic of survey sampling."""
        with np.errstate(invalid="ignore", divide="ignore"):
            moved = (self.totals - self.means * self.weights) / self.weights.sum(axis=0)
        return np.asarray(np.nan_to_num(moved, nan=0.0))

    @cached_property
    def variances(self) -> Floats:
        """Of each mean, robust to likeness within clusters. NaN of fewer than two clusters."""
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.where(self.units > 1, self.units / (self.units - 1.0), np.nan)
        found: Floats = scale * (self.influences**2).sum(axis=0)
        return found

    def take(self, columns: NDArray[np.int64]) -> Side:
        """These metrics only."""
        return Side(self.totals[:, columns], self.weights[:, columns])


@dataclass(frozen=True, eq=False)
class Student:
    """Of each metric: the value, its standard error, and the degrees of freedom of the t distribution."""

    values: Floats
    errors: Floats
    freedom: Floats


@dataclass(frozen=True, eq=False)
class Sample:
    """Sides with their signs: (pairs' differences, +1), or (candidate, +1) and (baseline, -1)."""

    sides: tuple[Side, ...]
    signs: tuple[int, ...]

    @property
    def smallest(self) -> int:
        """Clusters of the side that has the fewest."""
        return min(len(side.totals) for side in self.sides)

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """How many clusters have a value: of the smaller side."""
        return np.asarray(np.minimum.reduce([side.units for side in self.sides]), dtype=np.int64)

    @cached_property
    def values(self) -> Floats:
        """Of each metric, higher is better."""
        return np.asarray(sum(sign * side.means for sign, side in zip(self.signs, self.sides, strict=True)))

    @cached_property
    def student(self) -> Student:
        """Cluster-robust standard errors, with Satterthwaite's degrees of freedom for two sides."""
        variance = np.asarray(sum(side.variances for side in self.sides))
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.asarray(sum(side.variances**2 / (side.units - 1.0) for side in self.sides))
            freedom = np.where(spread > 0, variance**2 / spread, self.units - 1.0)
        return Student(self.values, np.sqrt(variance), freedom)

    def take(self, columns: NDArray[np.int64]) -> Sample:
        """These metrics only."""
        return Sample(tuple(side.take(columns) for side in self.sides), self.signs)


def side_of(columns: Sequence[Floats], weights: Floats, clusters: NDArray[np.int64] | None) -> Side:
    """The sums of rows by cluster. columns: one per metric, NaN where undefined. clusters: of each row its number from
    0 on; None where every row is a cluster of its own."""
    values = np.column_stack(columns) if columns else np.empty((len(weights), 0))
    defined = ~np.isnan(values)
    own = defined * weights[:, None]
    totals = np.where(defined, values, 0.0) * own
    if clusters is None:
        return Side(totals, own)
    return Side(_by_cluster(totals, clusters), _by_cluster(own, clusters))


def _by_cluster(rows: Floats, clusters: NDArray[np.int64]) -> Floats:
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    return np.asarray(np.add.reduceat(rows[order], starts, axis=0)) if len(rows) else rows
