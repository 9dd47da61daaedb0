"""The requests of a comparison in an order of their own, cut into segments; the order of rows changes no figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate.model import Comparison, Population, Rule
from ragtrace.gate.statistics.samples import Floats

__all__ = ["Half", "Rows", "rows_of"]

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Half:
    """Requests of one side: weights, and the cluster of each by number."""

    population: Population
    places: Whole
    weights: Floats
    clusters: Whole
    segments: Sequence[str]

    def column(self, metric: str) -> Floats:
        """The metric's values, NaN where undefined; all of them where the side does not know the metric."""
        values = self.population.scores.get(metric)
        return np.full(len(self.places), np.nan) if values is None else values[self.places]

    def take(self, rows: Whole) -> Half:
        """These rows only."""
        return Half(self.population, self.places[rows], self.weights[rows], self.clusters[rows], ())

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
    baseline: Half
    candidate: Half
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
        one, two = (_rows_in(half.segments, segment) for half in (self.baseline, self.candidate))
        return Rows(segment, self.baseline.take(one), self.candidate.take(two), self.paired)

    def known(self, rule: Rule) -> Rows:
        """The requests that have the metric; of pairs those in which both have it."""
        one, two = (np.flatnonzero(~np.isnan(column)) for column in self.columns(rule))
        return Rows(self.segment, self.baseline.take(one), self.candidate.take(two), self.paired)

    def segments(self, required: Iterable[str]) -> list[str]:
        """Those of either side and the required ones; one that holds every request is the whole again, and is left out
        unless it is required. Requests without a segment are in none."""
        found = {name for half in (self.baseline, self.candidate) for name in half.segments}
        wanted = set(required)
        named = found - {""}
        return sorted((set() if len(found) == 1 else named) | (named & wanted) | wanted)


def rows_of(comparison: Comparison) -> Rows:
    """All requests that are compared, ordered by their ids. A pair has the segment and the cluster of its baseline's
    request; it was kept with both its requests, so its weight is the product of theirs."""
    baseline, candidate = comparison.baseline, comparison.candidate
    if comparison.pairs is None:
        return Rows(None, _half(baseline, _order(baseline)), _half(candidate, _order(candidate)), paired=False)
    ranks = np.empty(len(baseline), dtype=np.int64)
    ranks[_order(baseline)] = np.arange(len(baseline))
    pairs = comparison.pairs[np.argsort(ranks[comparison.pairs[:, 0]], kind="stable")]
    one = _half(baseline, pairs[:, 0])
    weights = one.weights * candidate.weights[pairs[:, 1]]
    return Rows(
        None,
        Half(baseline, one.places, weights, one.clusters, one.segments),
        Half(candidate, pairs[:, 1], weights, one.clusters, one.segments),
        paired=True,
    )


def _order(population: Population) -> Whole:
    ids = population.request_ids
    return np.array(sorted(range(len(ids)), key=lambda at: ids[at]), dtype=np.int64)


def _half(population: Population, places: Whole) -> Half:
    numbers: dict[str, int] = {}
    clusters = [numbers.setdefault(population.clusters[at], len(numbers)) for at in places]
    segments = [population.segments[at] for at in places]
    return Half(population, places, population.weights[places], np.array(clusters, dtype=np.int64), segments)


def _rows_in(segments: Sequence[str], segment: str) -> Whole:
    return np.array([at for at, name in enumerate(segments) if name == segment], dtype=np.int64)
