"""Estimates of every metric in one segment: means, difference, interval, the p-values of both questions; and floors.

Inside, higher is better: values of a metric where lower is better change their sign.

Beside them the power of a cell: the smallest worsening that it blocks with the wanted power, and the requests that it
takes. The worsening that is imagined: of scores and booleans, a share of the requests falls to the worst value, as when
evidence is missed; of quantities, all grow by the same factor. The test is taken at the first step of the family's
procedure, the strictest. Source: Connor (1987), "Sample size for testing differences in proportions for the
paired-sample design", which this extends from booleans to scores.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate._means import (
    EXCHANGE_LIMIT,
    RESAMPLE_LIMIT,
    Floats,
    Rows,
    Sample,
    Side,
    exchange_p_values,
    resample,
    side_of,
)
from ragtrace.gate._share_tests import (
    IndependentShares,
    PairTable,
    fisher_distribution,
    fisher_mid_p,
    inferiority,
    mcnemar_distribution,
    mcnemar_mid_p,
    optimize,
    special,
)
from ragtrace.gate.types import Policy, Rule
from ragtrace.sample_statistics import effective_size

__all__ = [
    "CellEstimate",
    "Floor",
    "Spread",
    "against_floor",
    "decides",
    "detectable",
    "estimate",
    "generator",
    "needed",
    "power",
]

_SURE = 0.9  # confidence of the upper bound of the noise: half of all samples have less noise than there is
_Z = 1.2816


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one request's contribution, with likeness within clusters and weights taken into it.

    noise: variance of the difference (of a pair, or of one request of each side). mean, square: of the candidate's
    values from 0, the worst, up, and of their squares. shared: covariance of the difference and the candidate's value.
    scaled: a worsening multiplies the values; mean and square are then their mean and variance.
    """

    noise: float
    mean: float
    square: float
    shared: float
    scaled: bool

    def after(self, loss: float) -> float:
        """The second moment of the difference, around no loss, once the mean has fallen by `loss`."""
        part = loss / self.mean
        if self.scaled:
            return self.noise + 2 * part * abs(self.shared) + part * part * self.square + loss * loss
        return max(self.noise - 2 * part * self.shared + part * self.square, self.noise / 4 + loss * loss)


def power(spread: Spread, size: float, loss: float, alpha: float) -> float:
    """The chance that a worsening by `loss` is found by a one-sided test at `alpha` with `size` requests."""
    known = special()
    second = spread.after(loss)
    around = max(second - loss * loss, second * 1e-6)
    return float(known.ndtr((loss * sqrt(size) + known.ndtri(alpha) * sqrt(second)) / sqrt(around)))


def detectable(spread: Spread, size: float, alpha: float, wanted: float) -> float | None:
    """The smallest loss that is found with the wanted power; None where not even the largest is."""
    most = spread.mean if not spread.scaled else 100 * spread.mean
    size = size - _correction(alpha)
    if size <= 0 or not most > 0 or power(spread, size, most, alpha) < wanted:
        return None
    least = most * 1e-6
    if power(spread, size, least, alpha) >= wanted:
        return least
    return float(optimize().brentq(lambda loss: power(spread, size, loss, alpha) - wanted, least, most, xtol=least))


def decides(spread: Spread, margin: float, alpha: float, wanted: float) -> int | None:
    """How many requests pass a candidate that is no worse with the wanted power, if the noise stays what it is; None
    where there is no margin."""
    if not 0 < margin < inf:
        return None
    known = special()
    reach = float(known.ndtri(1 - alpha) + known.ndtri(wanted))
    return ceil(spread.noise * reach * reach / margin**2)


def needed(spread: Spread, loss: float, alpha: float, wanted: float) -> int | None:
    """How many requests find a worsening by `loss` with the wanted power; None where there is not that much to lose."""
    if not spread.mean > 0 or not 0 < loss < inf or (loss > spread.mean and not spread.scaled):
        return None
    known = special()
    second = spread.after(loss)
    around = max(second - loss * loss, 0.0)
    root: float = (known.ndtri(wanted) * sqrt(around) - known.ndtri(alpha) * sqrt(second)) / loss
    return ceil(root * root + _correction(alpha))


def _correction(alpha: float) -> float:
    """Guenther's (1981) for t instead of the normal distribution."""
    return float(special().ndtri(alpha)) ** 2 / 2


def _spread_of(
    rows: Rows, sample: Sample, at: int, rule: Rule, baseline: Floats, candidate: Floats
) -> tuple[Spread, float]:
    """Of one metric: the spread, and how many requests there are (the harmonic mean of two sides).

    Source for taking an upper bound of the noise: Browne (1995), "On the use of a pilot sample for sample size
    determination".
    """
    defined = ~np.isnan(candidate)
    counts = [int((~np.isnan(values)).sum()) for values in ([candidate] if rows.paired else [candidate, baseline])]
    bounded = rule.kind != "quantity"
    noise = sum(_noise(side, at, count, bounded) for side, count in zip(sample.sides, counts, strict=True))
    weights, values = rows.candidate.weights[defined], candidate[defined]
    good = 1 - values if bounded and rule.direction == "lower" else values
    change = values - baseline[defined] if rows.paired else values
    turned = change if rule.direction == "higher" else -change
    mean = float(np.average(good, weights=weights))
    moved = turned - np.average(turned, weights=weights)
    shared = float(np.average(moved * (good - mean), weights=weights))
    square = float(np.average(good**2, weights=weights)) - (0.0 if bounded else mean**2)
    return Spread(noise, mean, square, shared, scaled=not bounded), len(counts) / sum(1 / count for count in counts)


def _noise(side: Side, at: int, count: int, bounded: bool) -> float:
    moved, units = side.influences[:, at], int(side.units[at])
    squares = float((moved**2).sum())
    least = 1 - (1 - _SURE) ** (1 / units) if bounded else 0.0  # what could be all-or-nothing and was not seen
    if units < 2 or not squares:
        return least
    doubt = sqrt(max(0.0, float((moved**4).sum()) / squares**2 - 1 / units))
    return float(max(count * squares * units / (units - 1) * (1 + _Z * doubt), least))


_ROUNDING: Final = 1e-12
_PLAINLY: Final = 2.0  # times alpha: with a p-value of t above this no exchange is drawn, and the cell cannot fail


@dataclass(frozen=True, slots=True)
class CellEstimate:
    """Of one metric in one segment. difference, low and high: above 0 the candidate is better; margin: resolved.

    chance: of a p-value of harm as small as the one given, between equal versions that differ in as many requests.
    """

    baseline: float
    candidate: float
    difference: float
    low: float
    high: float
    margin: float
    p_harm: float
    p_inferior: float
    spread: Spread
    size: float
    method: str
    chance: Callable[[float], float]
    is_same: bool = False  # no request differs from another, or from its partner


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    rule: Rule
    sign: int
    baseline: Floats
    candidate: Floats
    margin: float
    share: float  # of the baseline that is the margin; 0 where the margin is absolute

    @property
    def worst(self) -> float:
        """What the worst candidate has; -inf where values have no bound."""
        return -np.inf if self.rule.kind == "quantity" else min(0.0, float(self.sign))

    @property
    def best(self) -> float:
        """What the best baseline has in the comparison with the margin."""
        return np.inf if self.rule.kind == "quantity" else max(0.0, self.sign - self.share)


def generator(policy: Policy, segment: str | None, purpose: int) -> np.random.Generator:
    """Chance of its own for each segment, so that one more segment changes no figure of the others."""
    name = 0 if segment is None else 1 + zlib.crc32(segment.encode())
    return np.random.default_rng([policy.seed, name, purpose])


def estimate(rows: Rows, rules: Sequence[Rule], policy: Policy, strictest: float) -> list[CellEstimate]:
    """The figures of each rule; every rule has a defined value on both sides.

    strictest: the level that the smallest p-value of the family is held against; p-values must be able to get below.
    """
    columns = [_column(rows, rule) for rule in rules]
    sample = _sample(rows, columns, contrast=False)
    rare = sample.units <= RESAMPLE_LIMIT
    if sample.smallest > RESAMPLE_LIMIT and rare.any():
        return _apart(rows, rules, policy, strictest, rare)
    contrast = _sample(rows, columns, contrast=True) if any(column.share for column in columns) else sample
    p_harm, tests = _harm_p_values(rows, columns, sample, policy, strictest)
    bounds = _Bounds(contrast, columns, rows, policy)
    estimates = []
    for at, column in enumerate(columns):
        before, after = _mean(column.baseline, rows.baseline.weights), _mean(column.candidate, rows.candidate.weights)
        low, high, p_inferior, interval = bounds.of(at)
        spread, size = _spread_of(rows, sample, at, column.rule, column.baseline, column.candidate)
        estimates.append(
            CellEstimate(
                baseline=before,
                candidate=after,
                difference=column.sign * (after - before),
                low=low,
                high=high,
                margin=column.margin,
                p_harm=float(p_harm[at]),
                p_inferior=p_inferior,
                spread=spread,
                size=size,
                method=f"{interval}; {tests[at]}",
                chance=_chance(rows, column, sample, at, float(p_harm[at])),
                is_same=sample.values[at] == 0.0 == sample.student.errors[at],
            )
        )
    return estimates


def _apart(
    rows: Rows, rules: Sequence[Rule], policy: Policy, strictest: float, rare: NDArray[np.bool_]
) -> list[CellEstimate]:
    """A metric that few of many requests have is judged on those alone, by the methods for few."""
    often = [rule for rule, alone in zip(rules, rare, strict=True) if not alone]
    common = iter(estimate(rows, often, policy, strictest) if often else ())
    return [
        estimate(rows.known(rule), [rule], policy, strictest)[0] if alone else next(common)
        for rule, alone in zip(rules, rare, strict=True)
    ]


def _column(rows: Rows, rule: Rule) -> _Column:
    baseline, candidate = rows.columns(rule)
    margin, share = rule.margin_of(rows.segment), 0.0
    if rule.relative:
        share, margin = margin, margin * abs(_mean(baseline, rows.baseline.weights))
    return _Column(rule, 1 if rule.direction == "higher" else -1, baseline, candidate, margin, share)


def _mean(values: Floats, weights: Floats) -> float:
    defined = ~np.isnan(values)
    return float(np.average(values[defined], weights=weights[defined]))


def _sample(rows: Rows, columns: Sequence[_Column], *, contrast: bool) -> Sample:
    """With `contrast` the baseline's mean is lowered by a relative margin, whose own noise is then in the interval."""
    before = [(column.sign - (column.share if contrast else 0.0)) * column.baseline for column in columns]
    after = [column.sign * column.candidate for column in columns]
    one, two = rows.baseline, rows.candidate
    if rows.paired:
        gaps = [late - early for late, early in zip(after, before, strict=True)]
        return Sample((side_of(gaps, one.weights, one.clusters if one.clustered else None),), (1,))
    sides = (
        side_of(after, two.weights, two.clusters if two.clustered else None),
        side_of(before, one.weights, one.clusters if one.clustered else None),
    )
    return Sample(sides, (1, -1))


def _plain(rows: Rows) -> bool:
    return rows.baseline.plain and rows.candidate.plain


def _harm_p_values(
    rows: Rows, columns: Sequence[_Column], sample: Sample, policy: Policy, strictest: float
) -> tuple[Floats, list[str]]:
    student = sample.student
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(student.values == 0.0, np.inf, student.values / student.errors)
        p = special().stdtr(student.freedom, t)
    tests = ["Student's t"] * len(columns)
    booleans = [index for index, column in enumerate(columns) if column.rule.kind == "boolean" and _plain(rows)]
    for index in booleans:
        p[index], tests[index] = _mid_p(rows, columns[index])
    if sample.smallest <= EXCHANGE_LIMIT:
        name = "signs exchanged" if rows.paired else "labels exchanged"
        large = _PLAINLY * policy.alpha
        close = np.array(
            [index for index in range(len(columns)) if index not in booleans and not p[index] > large], dtype=np.int64
        )
        tests = [name if index in close else test for index, test in enumerate(tests)]
        if len(close):
            draws = max(policy.resamples, ceil(10 / strictest))
            p[close] = exchange_p_values(sample.take(close), draws, generator(policy, rows.segment, 1))
    return np.asarray(p), tests


def _mid_p(rows: Rows, column: _Column) -> tuple[float, str]:
    if rows.paired:
        table = _table(column)
        return mcnemar_mid_p(table.lost, table.gained), "McNemar mid-p"
    one, two = _good(column.baseline, column.sign), _good(column.candidate, column.sign)
    return fisher_mid_p(*two, *one), "Fisher mid-p"


def _chance(rows: Rows, column: _Column, sample: Sample, at: int, own: float) -> Callable[[float], float]:
    """How probable p-values are between equal versions: of shares counted out, as long as they are few; where signs
    are exchanged, none is below that of all signs against the candidate, but for what drawing leaves (half of it). own:
    the p-value; one of t, which is reported where it is plainly large, may be below that."""
    if column.rule.kind == "boolean" and _plain(rows):
        if rows.paired:
            table = _table(column)
            changed = table.lost + table.gained
            return mcnemar_distribution(changed).chance if changed <= EXCHANGE_LIMIT else float
        (good, one), (also, two) = _good(column.candidate, column.sign), _good(column.baseline, column.sign)
        return fisher_distribution(one, two, good + also).chance if max(one, two) <= EXCHANGE_LIMIT else float
    if not rows.paired or sample.smallest > EXCHANGE_LIMIT:
        return float
    changed = int(np.count_nonzero(sample.sides[0].totals[:, at]))
    least = min(own, 0.5 ** (changed + 1) if changed else 1.0)
    return lambda p: p if p >= least else 0.0


def _good(values: Floats, sign: int) -> tuple[int, int]:
    defined = values[~np.isnan(values)]
    return int((defined == (1.0 if sign > 0 else 0.0)).sum()), len(defined)


def _table(column: _Column) -> PairTable:
    good = 1.0 if column.sign > 0 else 0.0
    defined = ~np.isnan(column.baseline)
    before, after = column.baseline[defined] == good, column.candidate[defined] == good
    return PairTable(
        both=int((before & after).sum()),
        lost=int((before & ~after).sum()),
        gained=int((~before & after).sum()),
        neither=int((~before & ~after).sum()),
    )


class _Bounds:
    """Intervals of all metrics at once, since resamples are shared; booleans have closed forms."""

    def __init__(self, contrast: Sample, columns: Sequence[_Column], rows: Rows, policy: Policy) -> None:
        self._columns, self._rows, self._contrast = columns, rows, contrast
        self._alpha = policy.alpha
        self._z = float(special().ndtri(1 - policy.alpha))
        self._plain = _plain(rows)
        # What is bounded is the difference plus the share of the baseline that a relative margin is.
        shares = np.array([column.margin if column.share else 0.0 for column in columns])
        goals = np.array([0.0 if column.share else -column.margin for column in columns])
        if contrast.smallest <= RESAMPLE_LIMIT:
            self.method = "BCa bootstrap"
            replicates = resample(contrast, policy.resamples, self._worst(), generator(policy, rows.segment, 2))
            low, high, self._p = replicates.low(policy.alpha), replicates.high(policy.alpha), replicates.at_most(goals)
        else:
            self.method = "Student's t interval"
            student = contrast.student
            reach = special().stdtrit(student.freedom, 1 - policy.alpha) * student.errors
            low, high = student.values - reach, student.values + reach
            with np.errstate(invalid="ignore", divide="ignore"):
                self._p = special().stdtr(student.freedom, (goals - student.values) / student.errors)
            self._p = np.where(student.errors > 0, self._p, np.where(student.values > goals, 0.0, 1.0))
        self._low, self._high = (_zeroed(end - shares, shares) for end in (low, high))

    def of(self, at: int) -> tuple[float, float, float, str]:
        """Low, high, the p-value of "worse by the margin", and the interval's name."""
        column = self._columns[at]
        if column.rule.kind != "boolean" or column.share or (self._rows.paired and not self._plain):
            return float(self._low[at]), float(self._high[at]), float(self._p[at]), self.method
        if self._rows.paired:
            table = _table(column)
            return *table.interval(self._alpha, column.margin), table.inferiority(column.margin), "exact score interval"
        shares = self._halves(at)
        low, high = shares.interval(self._z)
        name = "Newcombe-Wilson interval"
        return low, high, inferiority(shares.interval, shares.difference, column.margin), name

    def _halves(self, at: int) -> IndependentShares:
        sides = []
        for side in self._contrast.sides:
            share = float(abs(side.means[at]))
            share = share if self._columns[at].sign > 0 else 1 - share
            sides += [share, effective_size(share, float(side.variances[at]), float(side.effective[at]))]
        return IndependentShares(*sides)

    def _worst(self) -> list[Floats]:
        worst = np.array([column.worst for column in self._columns])
        best = np.array([column.best for column in self._columns])
        return [worst - best] if self._rows.paired else [worst, best]


def _zeroed(ends: Floats, shares: Floats) -> Floats:
    """Zero where a relative margin leaves nothing but rounding."""
    return np.where(np.abs(ends) <= _ROUNDING * shares, 0.0, ends)


@dataclass(frozen=True, slots=True)
class Floor:
    """The candidate's mean with its interval, and the p-value of "it reaches the floor"."""

    mean: float
    low: float
    high: float
    floor: float
    reached: bool
    p_harm: float
    method: str


def against_floor(rows: Rows, rule: Rule, policy: Policy) -> Floor:
    """The candidate's requests, of pairs those that have one, against `rule.floor`."""
    floor = 0.0 if rule.floor is None else rule.floor
    own = rows.candidate.column(rule.metric)
    half = rows.candidate.take(np.flatnonzero(~np.isnan(own)))
    sign = -1.0 if rule.direction == "higher" else 1.0  # above the negated floor is what must be shown
    side = side_of([sign * half.column(rule.metric)], half.weights, half.clusters if half.clustered else None)
    sample = Sample((side,), (1,))
    low, high, p_value, method = _floor_bounds(sample, np.array([sign * floor]), rule, rows, policy)
    mean = sign * float(sample.values[0])
    ends = (low, high) if sign > 0 else (-high, -low)
    reached = mean >= floor if sign < 0 else mean <= floor
    return Floor(mean, *ends, floor, reached, p_value, method)


def _floor_bounds(
    sample: Sample, goal: Floats, rule: Rule, rows: Rows, policy: Policy
) -> tuple[float, float, float, str]:
    if sample.smallest <= RESAMPLE_LIMIT:
        bounded = rule.kind != "quantity"
        worst = np.array([(0.0 if rule.direction == "lower" else -1.0) if bounded else -np.inf])
        replicates = resample(sample, policy.resamples, [worst], generator(policy, rows.segment, 3))
        low, high = float(replicates.low(policy.alpha)[0]), float(replicates.high(policy.alpha)[0])
        return low, high, float(replicates.at_most(goal)[0]), "BCa bootstrap"
    student, known = sample.student, special()
    reach = float(known.stdtrit(student.freedom, 1 - policy.alpha)[0] * student.errors[0])
    mean, error = float(sample.values[0]), float(student.errors[0])
    if error > 0:
        p_value = float(known.stdtr(student.freedom[0], (goal[0] - mean) / error))
    else:
        p_value = 0.0 if mean > goal[0] else 1.0
    return mean - reach, mean + reach, p_value, "Student's t"
