"""Inverse propensity over the first k places: what another alpha would have shown, from what the recorded one did.

Each request's ranking was drawn with a known probability. Weighted by how much likelier it is under the other alpha,
its exposure, attributed exposure or utility is an unbiased estimate. Where few requests carry nearly all weight there
is no estimate: below `FEWEST_EFFECTIVE` requests' worth its interval would not hold.

Source: Horvitz and Thompson (1952); the effective size: Kish (1965), "Survey sampling".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.errors import ConfigurationError
from ragtrace.exposure._plackett_luce import log_probability
from ragtrace.numeric import real_array
from ragtrace.wilson import TWO_SIDED_95

__all__ = ["FEWEST_EFFECTIVE", "Reweighted", "propensity_weight", "reweighted_mean"]

FEWEST_EFFECTIVE: Final = 50.0
"""Below this effective number of requests nothing is said of another alpha."""

_LARGEST_LOG: Final = 700.0  # exp of more is no number


@dataclass(frozen=True, slots=True)
class Reweighted:
    """A mean under another alpha with its 95 % interval; None with a reason where too few requests carry the weight.

    effective: Kish's effective number of requests, (Σ w)²/Σ w².
    """

    value: float | None
    low: float | None
    high: float | None
    effective: float
    reason: str | None = None


def propensity_weight(
    ranking: Sequence[int], scores: ArrayLike, alpha: float, recorded: float, *, k: int | None = None
) -> float:
    """How much likelier the first k places are under `alpha` than as recorded, at least 0.

    ranking: the recorded order, as positions in `scores`. recorded: the log-probability of these k places with which
    they were drawn, at most 0.
    Raises: ConfigurationError for a log-probability above 0 or not finite, or a weight that is no number.
    """
    if not np.isfinite(recorded) or recorded > 1e-9:
        raise ConfigurationError.of("the recorded log-probability", recorded, "a finite number of at most 0")
    change = log_probability(list(ranking)[:k], scores, alpha) - recorded
    if change > _LARGEST_LOG:
        raise ConfigurationError(
            f"the recorded log-probability is {recorded:g}, and the ranking would be exp({change:g}) times as likely"
            f" under alpha {alpha:g}; record the probability of the same number of places"
        )
    return float(np.exp(change))


def reweighted_mean(values: ArrayLike, weights: ArrayLike) -> Reweighted:
    """The mean of a value under another alpha: mean(w · value), with its normal interval.

    values: `(requests,)`, as whether a provider's document was among the first k. weights: `(requests,)`, of
    `propensity_weight`. Returns: the estimate; none below `FEWEST_EFFECTIVE`.
    """
    numbers = real_array(values, "values", ConfigurationError)
    factors = real_array(weights, "weights", ConfigurationError)
    if numbers.ndim != 1 or numbers.size == 0 or factors.shape != numbers.shape:
        raise ConfigurationError(f"values have the shape {numbers.shape}, weights {factors.shape}; give one a request")
    if not (np.isfinite(numbers).all() and np.isfinite(factors).all() and (factors >= 0).all()):
        raise ConfigurationError("values must be finite, and weights finite and at least 0")
    effective = _effective(factors)
    if effective < FEWEST_EFFECTIVE:
        reason = (
            f"{len(numbers)} requests are worth {effective:.0f} under this alpha; {FEWEST_EFFECTIVE:.0f} are needed:"
            " ask for an alpha nearer to the recorded one, or for a longer window"
        )
        return Reweighted(None, None, None, effective, reason)
    terms = factors * numbers
    mean = float(terms.mean())
    reach = TWO_SIDED_95 * float(terms.std(ddof=1)) / sqrt(len(terms))
    return Reweighted(mean, mean - reach, mean + reach, effective)


def _effective(weights: NDArray[np.float64]) -> float:
    largest = float(weights.max())
    if largest == 0:
        return 0.0
    scaled = weights / largest
    return float(scaled.sum() ** 2 / (scaled @ scaled))
