"""Power of a cell: the smallest worsening that it blocks with the wanted power, and the requests that it takes.

The worsening that is imagined: of scores and booleans, a share of the requests falls to the worst value, as when
evidence is missed; of quantities, all grow by the same factor. The test is taken at the first step of Holm's procedure,
the strictest. Source: Connor (1987), "Sample size for testing differences in proportions for the paired-sample
design", which this extends from booleans to scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np

from ragtrace.gate.model import Rule
from ragtrace.gate.statistics.library import optimize, special
from ragtrace.gate.statistics.samples import Floats, Rows, Sample, Side

__all__ = ["Spread", "detectable", "needed", "power", "spread_of"]
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


def spread_of(
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
