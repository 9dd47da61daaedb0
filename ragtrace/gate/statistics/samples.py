"""The requests of a comparison, cut into segments, and their weighted sums by cluster: all that means, variances and
resampling need.

Rows are in an order of their own, so that the order of requests changes no figure. A sample has one side (the
differences of pairs) or two (candidate and baseline as independent samples). Its value is the signed sum of its sides'
weighted means; higher is better. Everything is one column per metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate.model import Comparison, Population, Rule

__all__ = ["Floats", "Rows", "Sample", "Side", "SideRows", "Student", "rows_of", "side_of"]

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SideRows:
    """Requests of one side: weights, and the cluster of each by number."""

    population: Population
    places: Indices
    weights: Floats
    clusters: Indices
    segments: Sequence[str]

    def column(self, metric: str) -> Floats:
        """The metric's values, NaN where undefined; all of them where the side does not know the metric."""
        values = self.population.scores.get(metric)
        return np.full(len(self.places), np.nan) if values is None else values[self.places]

    def take(self, rows: Indices) -> SideRows:
        """These rows only."""
        return SideRows(self.population, self.places[rows], self.weights[rows], self.clusters[rows], ())

    def units(self, chosen: NDArray[np.bool_]) -> int:
        """How many clusters the chosen requests are of."""
        return len(np.unique(self.clusters[chosen])) if self.clustered else int(chosen.sum())

    @property
    def plain(self) -> bool:
        """Whether all weigh the same and no two share a cluster."""
        alike = len(self.weights) == 0 or bool((self.weights == self.weights[0]).all())
        return alike and not self.clustered

    @cached_property
    def clustered(self) -> bool:
        """Whether some share a cluster."""
        return len(np.unique(self.clusters)) < len(self.clusters)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Both sides of one segment (None: over all); the same row of both is a pair where they are paired."""

    segment: str | None
    baseline: SideRows
    candidate: SideRows
    paired: bool

    def columns(self, rule: Rule) -> tuple[Floats, Floats]:
        """The metric's values of the baseline and the candidate; of pairs only where both are defined."""
        one, two = self.baseline.column(rule.metric), self.candidate.column(rule.metric)
        if self.paired:
            undefined = np.isnan(one) | np.isnan(two)
            one, two = np.where(undefined, np.nan, one), np.where(undefined, np.nan, two)
        return one, two

    def within(self, segment: str) -> Rows:
        """The requests of a segment."""
        one, two = (_rows_in(side.segments, segment) for side in (self.baseline, self.candidate))
        return Rows(segment, self.baseline.take(one), self.candidate.take(two), self.paired)

    def known(self, rule: Rule) -> Rows:
        """The requests that have the metric; of pairs those in which both have it."""
        one, two = (np.flatnonzero(~np.isnan(column)) for column in self.columns(rule))
        return Rows(self.segment, self.baseline.take(one), self.candidate.take(two), self.paired)

    def segments(self, required: Iterable[str]) -> list[str]:
        """Those of either side and the required ones; one that holds every request is the whole again, and is left out
        unless it is required. Requests without a segment are in none."""
        names = {name for side in (self.baseline, self.candidate) for name in side.segments}
        wanted = set(required)
        named = names - {""}
        return sorted((set() if len(names) == 1 else named) | (named & wanted) | wanted)


def rows_of(comparison: Comparison) -> Rows:
    """All requests that are compared, ordered by their ids. A pair has the segment and the cluster of its baseline's
    request; it was kept with both its requests, so its weight is the product of theirs."""
    baseline, candidate = comparison.baseline, comparison.candidate
    if comparison.pairs is None:
        return Rows(
            None, _side_rows(baseline, _order(baseline)), _side_rows(candidate, _order(candidate)), paired=False
        )
    ranks = np.empty(len(baseline), dtype=np.int64)
    ranks[_order(baseline)] = np.arange(len(baseline))
    pairs = comparison.pairs[np.argsort(ranks[comparison.pairs[:, 0]], kind="stable")]
    one = _side_rows(baseline, pairs[:, 0])
    weights = one.weights * candidate.weights[pairs[:, 1]]
    return Rows(
        None,
        SideRows(baseline, one.places, weights, one.clusters, one.segments),
        SideRows(candidate, pairs[:, 1], weights, one.clusters, one.segments),
        paired=True,
    )


def _order(population: Population) -> Indices:
    ids = population.request_ids
    return np.array(sorted(range(len(ids)), key=lambda at: ids[at]), dtype=np.int64)


def _side_rows(population: Population, places: Indices) -> SideRows:
    numbers: dict[str, int] = {}
    clusters = [numbers.setdefault(population.clusters[at], len(numbers)) for at in places]
    segments = [population.segments[at] for at in places]
    return SideRows(population, places, population.weights[places], np.array(clusters, dtype=np.int64), segments)


def _rows_in(segments: Sequence[str], segment: str) -> Indices:
    return np.array([at for at, name in enumerate(segments) if name == segment], dtype=np.int64)


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
