"""What a cell can find: the smallest worsening that it blocks with the wanted power, and the requests that it takes.

The worsening that is imagined: of scores and booleans, a share of the requests falls to the worst value, as when
evidence is missed; of quantities, all grow by the same factor. The test is taken at the first step of Holm's procedure,
the strictest. Source: Connor (1987), "Sample size for testing differences in proportions for the paired-sample
design", which this extends from booleans to scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, sqrt

from ragtrace.gate.statistics.library import optimize, special

__all__ = ["Spread", "detectable", "needed", "power"]


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
