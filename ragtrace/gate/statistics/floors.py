"""Whether the candidate's own mean is below its floor (above it, where lower is better)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragtrace.gate.model import Policy, Rule
from ragtrace.gate.statistics import bootstrap
from ragtrace.gate.statistics.estimates import generator
from ragtrace.gate.statistics.library import special
from ragtrace.gate.statistics.rows import Rows
from ragtrace.gate.statistics.samples import Floats, Sample, side_of

__all__ = ["Floor", "against_floor"]


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
    low, high, p_value, method = _bounds(sample, np.array([sign * floor]), rule, rows, policy)
    mean = sign * float(sample.values[0])
    ends = (low, high) if sign > 0 else (-high, -low)
    reached = mean >= floor if sign < 0 else mean <= floor
    return Floor(mean, *ends, floor, reached, p_value, method)


def _bounds(sample: Sample, goal: Floats, rule: Rule, rows: Rows, policy: Policy) -> tuple[float, float, float, str]:
    if sample.smallest <= bootstrap.LIMIT:
        bounded = rule.kind != "quantity"
        worst = np.array([(0.0 if rule.direction == "lower" else -1.0) if bounded else -np.inf])
        found = bootstrap.resample(sample, policy.resamples, [worst], generator(policy, rows.segment, 3))
        low, high = float(found.low(policy.alpha)[0]), float(found.high(policy.alpha)[0])
        return low, high, float(found.at_most(goal)[0]), "BCa bootstrap"
    student, known = sample.student, special()
    reach = float(known.stdtrit(student.freedom, 1 - policy.alpha)[0] * student.errors[0])
    mean, error = float(sample.values[0]), float(student.errors[0])
    if error > 0:
        p_value = float(known.stdtr(student.freedom[0], (goal[0] - mean) / error))
    else:
        p_value = 0.0 if mean > goal[0] else 1.0
    return mean - reach, mean + reach, p_value, "Student's t"
