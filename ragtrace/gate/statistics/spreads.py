"""How noisy one request's contribution is, and what it could lose: what power and sample sizes are worked out from."""

from __future__ import annotations

from math import sqrt

import numpy as np

from ragtrace.gate.model import Rule
from ragtrace.gate.statistics.power import Spread
from ragtrace.gate.statistics.rows import Rows
from ragtrace.gate.statistics.samples import Floats, Sample, Side

__all__ = ["spread_of"]

_SURE = 0.9  # confidence of the upper bound of the noise: half of all samples have less noise than there is
_Z = 1.2816


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
