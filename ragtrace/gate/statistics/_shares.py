"""Tests and intervals of shares: McNemar's and Fisher's mid-p, and Newcombe's intervals of a difference; SciPy, that is
imported when the first figure is asked for.

Sources: Fagerland, Lydersen and Laake (2013), "The McNemar test for binary matched-pairs data: mid-p and asymptotic
are better than exact conditional"; Newcombe (1998), "Interval estimation for the difference between independent
proportions" and "Improved confidence intervals for the difference between binomial proportions based on paired data",
method 10 of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any

from ragtrace.engines.models import load_package
from ragtrace.wilson import wilson

__all__ = [
    "IndependentShares",
    "PairTable",
    "fisher_mid_p",
    "inferiority",
    "mcnemar_mid_p",
    "optimize",
    "special",
    "stats",
]


@cache
def special() -> Any:
    """`scipy.special`.

    Raises: MissingExtraError.
    """
    return load_package("scipy.special", package="scipy", extra="gate")


@cache
def stats() -> Any:
    """`scipy.stats`.

    Raises: MissingExtraError.
    """
    return load_package("scipy.stats", package="scipy", extra="gate")


@cache
def optimize() -> Any:
    """`scipy.optimize`.

    Raises: MissingExtraError.
    """
    return load_package("scipy.optimize", package="scipy", extra="gate")


_FAR = 40.0  # standard deviations: nothing is further than this


@dataclass(frozen=True, slots=True)
class PairTable:
    """Pairs of 0 and 1: good on both sides, good to bad, bad to good, bad on both."""

    both: int
    lost: int
    gained: int
    neither: int

    @property
    def pairs(self) -> int:
        """All of them."""
        return self.both + self.lost + self.gained + self.neither

    @property
    def difference(self) -> float:
        """The candidate's share of good minus the baseline's."""
        return (self.gained - self.lost) / self.pairs

    def interval(self, z: float) -> tuple[float, float]:
        """Newcombe's interval for paired shares (method 10: Wilson's bounds, phi with continuity correction)."""
        after, before = self.both + self.gained, self.both + self.lost
        return _hybrid((after, self.pairs), (before, self.pairs), z, self._phi())

    def _phi(self) -> float:
        before, after = self.both + self.lost, self.both + self.gained
        margins = before * (self.pairs - before) * after * (self.pairs - after)
        if not margins:
            return 0.0
        cross = self.both * self.neither - self.lost * self.gained
        return (max(cross - self.pairs / 2, 0.0) if cross > 0 else float(cross)) / sqrt(margins)


@dataclass(frozen=True, slots=True)
class IndependentShares:
    """Shares of good of two independent samples; the sizes are effective ones where requests are weighted or alike."""

    candidate: float
    candidate_size: float
    baseline: float
    baseline_size: float

    @property
    def difference(self) -> float:
        """The candidate's share of good minus the baseline's."""
        return self.candidate - self.baseline

    def interval(self, z: float) -> tuple[float, float]:
        """The Newcombe-Wilson hybrid score interval (method 10 for independent shares)."""
        after = (self.candidate * self.candidate_size, self.candidate_size)
        return _hybrid(after, (self.baseline * self.baseline_size, self.baseline_size), z, 0.0)


def _hybrid(after: tuple[float, float], before: tuple[float, float], z: float, phi: float) -> tuple[float, float]:
    one, two = after[0] / after[1], before[0] / before[1]
    (low, high), (lower, upper) = wilson(*after, z), wilson(*before, z)
    down, up, deep, rise = one - low, high - one, two - lower, upper - two
    middle = one - two
    below = sqrt(max(0.0, down * down - 2 * phi * down * rise + rise * rise))
    above = sqrt(max(0.0, up * up - 2 * phi * up * deep + deep * deep))
    return max(-1.0, middle - below), min(1.0, middle + above)


def inferiority(interval: Callable[[float], tuple[float, float]], difference: float, margin: float) -> float:
    """The p-value of "worse by the margin or more": where the interval, widened until then, first holds the margin."""
    side = 0 if difference > -margin else 1

    def gap(z: float) -> float:
        return interval(z)[side] + margin

    if gap(0.0) == 0.0:
        return 0.5
    z = _FAR if gap(0.0) * gap(_FAR) > 0 else float(optimize().brentq(gap, 0.0, _FAR, xtol=1e-6))
    return float(special().ndtr(-z if side == 0 else z))


def mcnemar_mid_p(lost: int, gained: int) -> float:
    """One-sided mid-p of "no more pairs were lost than gained". 1 where no pair changed."""
    changed = lost + gained
    if not changed:
        return 1.0
    exact = special().bdtrc(lost - 1, changed, 0.5) if lost else 1.0
    point = stats().binom.pmf(lost, changed, 0.5)
    return float(exact - 0.5 * point)


def fisher_mid_p(candidate_good: int, candidate: int, baseline_good: int, baseline: int) -> float:
    """One-sided mid-p of "the candidate's share of good is no lower", given the number of good ones on both sides."""
    good = candidate_good + baseline_good
    if good in (0, candidate + baseline):
        return 1.0
    of, all_tables = (candidate + baseline, good, candidate), stats().hypergeom
    return float(all_tables.cdf(candidate_good, *of) - 0.5 * all_tables.pmf(candidate_good, *of))
