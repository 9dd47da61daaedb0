"""Means of a comparison's requests, by segment and cluster: their sums, bounds by resampling, p-values by exchanging.

Rows are in an order of their own, so that the order of requests changes no figure. A sample has one side (the
differences of pairs) or two (candidate and baseline as independent samples). Its value is the signed sum of its sides'
weighted means; higher is better. Everything is one column per metric.

Bounds: the bootstrap (BCa), held against the worst case that the sample may not have shown yet. Clusters are resampled,
each side by itself, and the same resamples serve every metric.
p-values of harm: permutation tests, which exchange what equal versions make exchangeable, exact however skewed or tied
the scores are. Of pairs the sign of each cluster's difference is flipped; of independent samples clusters are dealt
anew to the two sides, and the studentized difference is compared. Drawing ends early where the p-value is plainly
large.
Sources: Efron (1987), "Better bootstrap confidence intervals"; Davison and Hinkley (1997), chapter 5, for several
samples; Gaffke (2005), "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable"; Janssen (1997) and Chung and Romano (2013) on studentized permutation tests, which stay right for means when
the sides differ in more; Besag and Clifford (1991), "Sequential Monte Carlo p-values".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate._metrics import is_state
from ragtrace.gate._share_tests import special
from ragtrace.gate.types import NOWHERE, Comparison, Population, Rule
from ragtrace.types import Stage

__all__ = [
    "EXCHANGE_LIMIT",
    "RESAMPLE_LIMIT",
    "Floats",
    "Replicates",
    "Rows",
    "Sample",
    "Side",
    "SideRows",
    "Student",
    "exchange_p_values",
    "resample",
    "rows_of",
    "side_of",
]

_OF_THE_ANSWER: Final = ("generation", "citation")
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
    unchanged: Mapping[Stage, NDArray[np.bool_]] = field(default_factory=dict)

    def columns(self, rule: Rule) -> tuple[Floats, Floats]:
        """The metric's values of the baseline and the candidate; of pairs only where both are defined.

        A pair in which nothing changed has the same state on both sides, whatever an estimate says, and the same answer
        is as good; where it has no value it counts as no difference, in as large a share of such pairs as changed ones
        have a value.
        """
        one, two = self.baseline.column(rule.metric), self.candidate.column(rule.metric)
        if self.paired:
            same = self.same(rule)
            if same is not None and same.any():
                is_estimate = is_state(rule.metric) or rule.stage in _OF_THE_ANSWER
                two = np.where(same, one, two) if is_estimate else two
                one, two = _counted(one, two, same, self._applies(rule), self.baseline.weights, rule)
            undefined = np.isnan(one) | np.isnan(two)
            one, two = np.where(undefined, np.nan, one), np.where(undefined, np.nan, two)
        return one, two

    def _applies(self, rule: Rule) -> NDArray[np.bool_]:
        """The pairs in which the rule's stage applies, or its metric is known, on either side."""
        found = np.zeros(len(self.baseline.places), dtype=np.bool_)
        for side in (self.baseline, self.candidate):
            states = side.population.states.get(rule.stage) if rule.stage is not None else None
            found |= ~np.isnan(side.column(rule.metric))
            found |= True if states is None else states[side.places] != NOWHERE
        return found

    def within(self, segment: str) -> Rows:
        """The requests of a segment."""
        return self._part(segment, [segment])

    def union(self, name: str, segments: Iterable[str]) -> Rows:
        """The requests of several segments, under one name."""
        return self._part(name, segments)

    def _part(self, name: str, segments: Iterable[str]) -> Rows:
        one, two = (_rows_in(side.segments, set(segments)) for side in (self.baseline, self.candidate))
        return self._take(name, one, two)

    def _take(self, name: str | None, one: Indices, two: Indices) -> Rows:
        unchanged = {stage: marks[one] for stage, marks in self.unchanged.items()}
        return Rows(name, self.baseline.take(one), self.candidate.take(two), self.paired, unchanged)

    def same(self, rule: Rule) -> NDArray[np.bool_] | None:
        """The pairs in which nothing changed that the rule's metric depends on; None where that is not known."""
        bounded = rule.kind != "quantity"
        return self.unchanged.get(rule.stage) if rule.stage is not None and bounded and self.paired else None

    @property
    def size(self) -> int:
        """Pairs, or requests of the smaller side; of sessions only their number."""
        return min(side.units(np.ones(len(side.places), dtype=np.bool_)) for side in (self.baseline, self.candidate))

    def known(self, rule: Rule) -> Rows:
        """The requests that have the metric; of pairs those in which both have it."""
        one, two = (np.flatnonzero(~np.isnan(column)) for column in self.columns(rule))
        return self._take(self.segment, one, two)

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
    order = np.argsort(ranks[comparison.pairs[:, 0]], kind="stable")
    pairs = comparison.pairs[order]
    one = _side_rows(baseline, pairs[:, 0])
    weights = one.weights * candidate.weights[pairs[:, 1]]
    return Rows(
        None,
        SideRows(baseline, one.places, weights, one.clusters, one.segments),
        SideRows(candidate, pairs[:, 1], weights, one.clusters, one.segments),
        paired=True,
        unchanged={stage: marks[order] for stage, marks in comparison.unchanged.items()},
    )


def _counted(
    one: Floats, two: Floats, same: NDArray[np.bool_], applies: NDArray[np.bool_], weights: Floats, rule: Rule
) -> tuple[Floats, Floats]:
    """Both columns, in which unchanged pairs without a value have the baseline's mean on both sides.

    They are as many as keep the share of changed pairs what it is among all pairs: were all of them counted, and few of
    the changed ones judged, a loss would be thinned out. For the same reason pairs in which the stage does not apply
    count only where none of the others changed.
    """
    known = ~np.isnan(one) & ~np.isnan(two)
    if (~same & applies).any():
        same = same & applies
    changed, judged = int((~same & applies).sum()), int((~same & known).sum())
    unjudged = np.flatnonzero(same & ~known)
    wanted = int(same.sum()) if not changed else int(same.sum()) * judged // changed
    filled = unjudged[: max(0, wanted - int((same & known).sum()))]
    usual = float(np.average(one[known], weights=weights[known])) if known.any() else float(rule.direction == "higher")
    one, two = one.copy(), two.copy()
    one[filled] = two[filled] = usual
    return one, two


def _order(population: Population) -> Indices:
    ids = population.request_ids
    return np.array(sorted(range(len(ids)), key=lambda at: ids[at]), dtype=np.int64)


def _side_rows(population: Population, places: Indices) -> SideRows:
    numbers: dict[str, int] = {}
    clusters = [numbers.setdefault(population.clusters[at], len(numbers)) for at in places]
    segments = [population.segments[at] for at in places]
    return SideRows(population, places, population.weights[places], np.array(clusters, dtype=np.int64), segments)


def _rows_in(segments: Sequence[str], wanted: Set[str]) -> Indices:
    return np.array([at for at, name in enumerate(segments) if name in wanted], dtype=np.int64)


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


RESAMPLE_LIMIT: Final = 2_000
"""Clusters of a side up to which it is resampled; a mean of more is as good as normal."""

_NOTHING: Final = 1e-12  # what rounding makes of equal values
_CELLS: Final = 1 << 14  # entries of a round's matrix of weights: it stays in the cache, and in one thread
EXCHANGE_LIMIT: Final = 2_000
"""Clusters (of the smaller side) up to which labels are exchanged; with more, Student's t is as good."""
_ENOUGH: Final = 50  # draws as extreme as what was seen, after which drawing ends
_FIRST, _MOST = 256, 8192  # draws of the first round, which doubles until it has the most
_SIGNS, _HANDS = 1 << 14, 1 << 18  # entries of a matrix of signs (it stays in the cache), and of deals
_TIE: Final = 1e-9


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
        below = np.array([_share_below(column, bound) for column, bound in zip(self._draws.T, bounds, strict=True)])
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
        unseen = _unseen_shares(side, count, chance)
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
    if clusters > RESAMPLE_LIMIT:
        return side.means + np.sqrt(side.variances) * chance.standard_normal((count, side.totals.shape[1]))
    means = np.empty((count, side.totals.shape[1]))
    step = max(1, _CELLS // max(1, clusters))
    for start in range(0, count, step):
        size = min(step, count - start)
        drawn = chance.integers(0, clusters, size=(size, clusters)) + clusters * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * clusters).reshape(size, clusters).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[start : start + size] = (times @ side.totals) / (times @ side.weights)
    return means


def _unseen_shares(side: Side, count: int, chance: np.random.Generator) -> Floats:
    """Shares of requests that none in the sample is like: Beta(1, effective clusters), by quantiles in random order."""
    grid = (chance.permutation(count)[:, None] + 0.5) / count
    return np.asarray(1 - (1 - grid) ** (1.0 / np.maximum(side.effective, 1)))


def _acceleration(sample: Sample) -> Floats:
    influences = np.vstack([sign * side.influences for sign, side in zip(sample.signs, sample.sides, strict=True)])
    squares = (influences**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (influences**3).sum(axis=0) / (6 * squares**1.5)
    return np.asarray(np.nan_to_num(found, nan=0.0))


def _share_below(column: NDArray[np.float64], bound: float) -> float:
    low, high = np.searchsorted(column, bound, side="left"), np.searchsorted(column, bound, side="right")
    return float((low + high) / 2 / len(column))


def exchange_p_values(sample: Sample, draws: int, chance: np.random.Generator) -> Floats:
    """One-sided p-values of "the candidate is not worse", one for each metric, from at most `draws` exchanges."""
    deal = _Flips(sample.sides[0]) if len(sample.sides) == 1 else _Deals(sample, chance)
    p_values = np.full(deal.metrics, np.nan)
    extreme = np.zeros(deal.metrics, dtype=np.int64)
    drawn, size = 0, _FIRST
    while drawn < draws and np.isnan(p_values).any():
        going = np.flatnonzero(np.isnan(p_values))
        size = min(size, draws - drawn, _MOST)
        counts = extreme[going] + deal.draw(size, going, chance).cumsum(axis=0)
        done = counts[-1] >= _ENOUGH
        p_values[going[done]] = _ENOUGH / (drawn + 1.0 + (counts[:, done] >= _ENOUGH).argmax(axis=0))
        extreme[going] = counts[-1]
        drawn += size
        size *= 2
    return np.where(np.isnan(p_values), (extreme + 1.0) / (draws + 1.0), p_values)


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
        extreme = np.empty((size, len(columns)), dtype=np.bool_)
        for part in _slices(size, _SIGNS // self.clusters):
            signs = chance.integers(0, 2, size=(len(extreme[part]), len(totals)), dtype=np.int8) * 2.0 - 1.0
            extreme[part] = signs @ totals <= self._seen[columns]
        return extreme


class _Deals:
    """Clusters of both sides, dealt to two hands of the same sizes. A side's weights are scaled to a mean of one, and
    of a far larger side a random part is taken."""

    def __init__(self, sample: Sample, chance: np.random.Generator) -> None:
        most = 2 * EXCHANGE_LIMIT
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
        parts = np.ascontiguousarray(self._clusters[:, :, columns]).reshape(self.clusters, -1)
        extreme = np.empty((size, len(columns)), dtype=np.bool_)
        for part in _slices(size, _HANDS // self.clusters):
            held = np.zeros((len(extreme[part]), self.clusters), dtype=np.int8)
            held[:, : self._dealt] = 1
            chance.permuted(held, axis=1, out=held)
            one = (held.astype(np.float64) @ parts).reshape(len(held), *sums.shape)
            extreme[part] = _studentized(one, sums) <= self._seen[columns]
        return extreme


def _slices(size: int, step: int) -> Iterator[slice]:
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
