"""Tests and intervals of shares: McNemar's and Fisher's mid-p, the exact score test of pairs, Newcombe's interval of
independent samples; SciPy, that is imported when the first figure is asked for.

Sources: Fagerland, Lydersen and Laake (2013), "The McNemar test for binary matched-pairs data: mid-p and asymptotic
are better than exact conditional"; Tango (1998), "Equivalence test and confidence interval for the difference in
proportions for the paired-sample design", whose score orders the tables of an exact unconditional test as by Hsueh, Liu
and Chen (2001), "Unconditional exact tests for equivalence or noninferiority for paired binary endpoints"; Berger and
Boos (1994), "P values maximized over a confidence set for the nuisance parameter"; Newcombe (1998), "Interval
estimation for the difference between independent proportions", method 10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.engines.models import load_package
from ragtrace.sample_statistics import wilson

__all__ = [
    "IndependentShares",
    "NullDistribution",
    "PairTable",
    "fisher_distribution",
    "fisher_mid_p",
    "inferiority",
    "mcnemar_distribution",
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

    def inferiority(self, margin: float) -> float:
        """The p-value of "worse by the margin or more"."""
        return _worse_by(self.lost, self.gained, self.pairs, margin)

    def interval(self, alpha: float, margin: float) -> tuple[float, float]:
        """Bounds of the difference, each with confidence 1 - alpha: what `inferiority` does not rule out. The lower one
        is above -margin exactly where `inferiority(margin)` is at most alpha."""
        worst = _largest(self.lost, self.gained, self.pairs, alpha, margin)
        return -worst, _largest(self.gained, self.lost, self.pairs, alpha, margin)


_COUNTED: Final = 1_000  # pairs up to which the test is exact; with more the score is as good as normal
_GAMMA: Final = 1e-6  # what the p-value pays for a confidence set of the share of discordant pairs
_SHARES: Final = 24  # discordant shares at which the probability is taken, closer together where few pairs differ
_FURTHEST: Final = 8.0  # standard deviations: no count is further than this


@lru_cache(maxsize=1 << 16)
def _worse_by(lost: int, gained: int, pairs: int, margin: float) -> float:
    """The largest probability of a table that speaks as strongly against "worse by the margin", over all shares of
    discordant pairs that these data allow. margin: in (-1, 1)."""
    if lost == gained == 0 and margin > 0:
        return float((1 - margin) ** pairs)  # least where only losses can be: the exact binomial
    seen = float(_score(np.array([lost]), np.array([gained]), pairs, margin)[0])
    if seen >= 0:
        return 1.0
    known = special()
    if pairs > _COUNTED:
        return float(known.ndtr(seen))
    changed = lost + gained
    most = 1.0 if changed == pairs else float(known.betaincinv(changed + 1, pairs - changed, 1 - _GAMMA / 2))
    least = 0.0 if not changed else float(known.betaincinv(changed, pairs - changed + 1, _GAMMA / 2))
    if most <= abs(margin):
        return _GAMMA
    from_, steps = max(abs(margin), least), np.linspace(0.0, 1.0, _SHARES) ** 2
    discordant = from_ + (most - from_) * steps
    losing, gaining = (discordant + margin) / 2, (discordant - margin) / 2
    reach = float(gaining.max())
    gains = np.arange(min(pairs, int(pairs * reach + _FURTHEST * sqrt(pairs * reach) + 10)) + 1)
    losses = np.arange(min(pairs, len(gains) + max(0, int(pairs * margin)) + 1) + 1)
    scores = _score(losses[:, None], gains[None, :], pairs, margin)
    fits = losses[:, None] + gains[None, :] <= pairs
    allowed = ((scores <= seen + 1e-9) & fits).sum(axis=0) - 1  # the score rises with the losses
    gains, allowed = gains[allowed >= 0], allowed[allowed >= 0]
    ways = known.gammaln(pairs + 1) - known.gammaln(gains + 1) - known.gammaln(pairs - gains + 1)
    point = np.exp(ways + known.xlogy(gains, gaining[:, None]) + known.xlog1py(pairs - gains, -gaining[:, None]))
    among = np.minimum(1.0, losing / np.maximum(1 - gaining, 1e-300))
    below = np.where(
        allowed >= pairs - gains, 1.0, known.bdtr(allowed[None, :], (pairs - gains)[None, :], among[:, None])
    )
    return float(min(1.0, (point * below).sum(axis=1).max() + _GAMMA))


def _score(lost: NDArray[np.int64], gained: NDArray[np.int64], pairs: int, margin: float) -> NDArray[np.float64]:
    """Tango's: how far the losses are from what a worsening by the margin would give, in standard errors."""
    twice = 2.0 * pairs
    linear = -lost - gained + (twice - lost + gained) * margin
    constant = -gained * margin * (1 - margin)
    gaining = (np.sqrt(np.maximum(linear**2 - 4 * twice * constant, 0.0)) - linear) / (2 * twice)
    gaining = np.maximum(gaining, max(0.0, -margin))
    spread = pairs * (2 * gaining + margin * (1 - margin))
    gap = lost - gained - pairs * margin
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(spread > 0, gap / np.sqrt(np.maximum(spread, 1e-300)), np.sign(gap) * np.inf))


@lru_cache(maxsize=1 << 16)
def _largest(lost: int, gained: int, pairs: int, alpha: float, margin: float) -> float:
    """The largest worsening that is not ruled out at alpha."""
    if lost == gained == 0:
        return float(1 - alpha ** (1 / pairs))
    seen = (lost - gained) / pairs
    if lost == pairs:
        return 1.0
    low, high = (
        (seen, min(margin, 1.0)) if _worse_by(lost, gained, pairs, margin) <= alpha else (max(seen, margin), 1.0)
    )
    near = -float(special().ndtri(alpha)) * sqrt(lost + gained) / pairs  # about as far as the bound is
    while high - low > _WIDTH:
        middle = min((low + high) / 2, low + near)
        low, high = (low, middle) if _worse_by(lost, gained, pairs, middle) <= alpha else (middle, high)
    return high


_WIDTH: Final = 2e-4  # of a bound: far less than a report shows


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


@dataclass(frozen=True, slots=True, eq=False)
class NullDistribution:
    """Of a discrete test, given what its distribution depends on: the p-values that it can have where there is nothing
    to find, ascending, and how probable one as small or smaller is."""

    p_values: NDArray[np.float64]
    cumulated: NDArray[np.float64]

    def chance(self, p: float) -> float:
        """The probability of a p-value of at most p. A mid-p of k pairs that all were lost is half as large as it is
        probable, so that this can be up to twice p; and it is 0 below the smallest one."""
        at = int(np.searchsorted(self.p_values, p * (1 + _SAME), side="right"))
        return float(self.cumulated[at - 1]) if at else 0.0


_SAME: Final = 1e-9  # of a p-value: rounding


@lru_cache(maxsize=1 << 12)
def mcnemar_distribution(changed: int) -> NullDistribution:
    """Of the mid-p of this many discordant pairs, most lost first."""
    lost = np.arange(changed, -1, -1)
    return _distribution(np.asarray(stats().binom.pmf(lost, changed, 0.5)))


@lru_cache(maxsize=1 << 12)
def fisher_distribution(candidate: int, baseline: int, good: int) -> NullDistribution:
    """Of the mid-p of samples of these sizes with this many good ones together, fewest in the candidate first."""
    possible = np.arange(max(0, good - baseline), min(candidate, good) + 1)
    return _distribution(np.asarray(stats().hypergeom.pmf(possible, candidate + baseline, good, candidate)))


def _distribution(points: NDArray[np.float64]) -> NullDistribution:
    """points: the probability of each outcome, the worst for the candidate first. One alone has a p-value of 1."""
    if len(points) == 1:
        return NullDistribution(np.ones(1), np.ones(1))
    cumulated = np.cumsum(points)
    return NullDistribution(cumulated - 0.5 * points, np.minimum(1.0, cumulated))
