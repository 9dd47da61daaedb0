"""The Plackett–Luce distribution over rankings: a fixed ranking by score becomes a random one, each with its chance.

Places are filled from the first on, each by one of the items that are left with a probability proportional to exp(l).
The logit l = (1 + minmax(score))^alpha turns from even chances (alpha = 0) to the order of the scores (alpha → ∞). The
alpha of a draw and the probability of what was drawn are what `propensity_weight` needs to say what another alpha would
have shown.

Inverse propensity over the first k places: each request's ranking was drawn with a known probability. Weighted by how
much likelier it is under the other alpha, its exposure, attributed exposure or utility is an unbiased estimate. Where
few requests carry nearly all weight there is no estimate: below `FEWEST_EFFECTIVE` requests' worth its interval would
not hold.

Source: Plackett (1975), "The analysis of permutations"; the logits: Kim and Diaz, "Towards Fair RAG", section 3;
Horvitz and Thompson (1952); the effective size: Kish (1965), "Survey sampling".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.errors import ConfigurationError
from ragtrace.numeric import check_seed, is_integer, is_real, real_array
from ragtrace.sample_statistics import TWO_SIDED_95

__all__ = [
    "FEWEST_EFFECTIVE",
    "LARGEST_ALPHA",
    "Reweighted",
    "check_alpha",
    "check_depth",
    "inclusion_probabilities",
    "log_probability",
    "plackett_luce_logits",
    "propensity_weight",
    "reweighted_mean",
    "sample_rankings",
    "seed_of",
]

LARGEST_ALPHA: Final = 1000.0
"""Above this 2^alpha is no number any more; infinity is the order of the scores."""

_DETERMINISTIC_GAP: Final = 1e300  # between neighbors' logits where alpha is infinite
_STEP: Final = 0.1  # of the trapezoid rule; its error is far below float64's
_NODES: Final = np.arange(-40.0, 5.0, _STEP)  # beyond them the density of a Gumbel variable is below 1e-17

_Floats = NDArray[np.float64]


def check_alpha(alpha: object) -> None:
    """Raises: ConfigurationError unless it is a number from 0 to `LARGEST_ALPHA`, or infinity."""
    if not is_real(alpha) or not (0 <= alpha <= LARGEST_ALPHA or alpha == np.inf):  # type: ignore[operator]
        raise ConfigurationError.of("alpha", alpha, f"a number from 0 to {LARGEST_ALPHA:g}, or infinity")


def check_depth(k: object, name: str = "k") -> None:
    """Raises: ConfigurationError unless it is an integer of at least 1."""
    if not is_integer(k) or k < 1:  # type: ignore[operator]
        raise ConfigurationError.of(name, k, "an integer of at least 1")


def plackett_luce_logits(scores: ArrayLike, alpha: float) -> _Floats:
    """l = (1 + minmax(score))^alpha of each item.

    scores: `(n,)`, finite; more is better. Scores that are all equal count as 0 after minmax: all logits are 1.
    Returns: `(n,)`, in [1, 2^alpha]; with an infinite alpha equal scores have equal
        logits, and all others differ without end.
    Raises: ConfigurationError for scores that are not finite or not one-dimensional, and for an alpha out of range.
    """
    check_alpha(alpha)
    values = real_array(scores, "scores", ConfigurationError)
    if values.ndim != 1 or values.size == 0:
        raise ConfigurationError(f"scores have the shape {values.shape}; give one number for each item")
    if not np.isfinite(values).all():
        raise ConfigurationError(f"the score of item {int(np.argmin(np.isfinite(values)))} is not finite")
    if alpha == np.inf:
        return np.asarray(np.unique(values, return_inverse=True)[1].reshape(-1) * _DETERMINISTIC_GAP, dtype=np.float64)
    half = values / 2  # the range of two finite numbers may be none
    spread = float(np.ptp(half))
    scaled = (half - half.min()) / spread if spread > 0 else np.zeros_like(half)
    return np.asarray((1 + scaled) ** alpha)


def seed_of(request_id: str) -> int:
    """A seed from a request's id: the same request gets the same ranking again. In [0, 2^64)."""
    return int.from_bytes(hashlib.sha256(request_id.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def sample_rankings(
    scores: ArrayLike, alpha: float, *, seed: int, count: int = 1, k: int | None = None
) -> NDArray[np.intp]:
    """Random rankings of the items, by sorting their logits with Gumbel noise added.

    scores: `(n,)`. k: how many places; None, or more than n: all.
    Returns: `(count, k)`, positions in `scores`, best first.
    Raises: ConfigurationError for what is out of range.
    """
    check_seed(seed)
    check_depth(count, "count")
    logits = plackett_luce_logits(scores, alpha)
    if k is not None:
        check_depth(k)
    noise = np.random.default_rng(seed).gumbel(size=(count, len(logits)))
    # Beside a large logit the noise is lost in rounding; it decides among those that are equal then.
    order = np.lexsort((-noise, -(logits + noise)), axis=-1)
    return np.ascontiguousarray(order[:, :k])


def log_probability(ranking: Sequence[int], scores: ArrayLike, alpha: float) -> float:
    """The log-probability that the first places are filled by these items in this order, at most 0.

    ranking: positions in `scores`, best first; k of the n items are a prefix. With an infinite alpha what contradicts
    the scores is impossible: −∞.
    Raises: ConfigurationError for a position that is not there, or stands there twice.
    """
    logits = plackett_luce_logits(scores, alpha)
    places = _positions(ranking, len(logits))
    left = np.ones(len(logits), dtype=bool)
    total = 0.0
    for place in places:
        gaps = logits[left] - logits[place]
        most = float(gaps.max())
        total -= np.inf if most > _DETERMINISTIC_GAP / 2 else most + float(np.log(np.exp(gaps - most).sum()))
        left[place] = False
    return total + 0.0


def _positions(ranking: Sequence[int], items: int) -> list[int]:
    places = list(ranking)
    for place in places:
        if not is_integer(place) or not 0 <= place < items:
            raise ConfigurationError.of("a place of the ranking", place, f"a position from 0 to {items - 1}")
    if len(set(places)) < len(places):
        raise ConfigurationError(f"the ranking {places} holds an item more than once; give each one place")
    return places


def inclusion_probabilities(scores: ArrayLike, alpha: float, k: int) -> _Floats:
    """How likely each item is among the first k: its expected exposure under machine-user attention.

    The order of arrival of exponential clocks with rates exp(l) is a Plackett–Luce ranking, so an item is among the
    first k where fewer than k others ring before it: one integral over its time, exact to rounding.

    scores: `(n,)`. Returns: `(n,)`, in [0, 1], with the sum min(k, n).
    Raises: ConfigurationError for what is out of range.
    """
    check_depth(k)
    logits = plackett_luce_logits(scores, alpha)
    if k >= len(logits):
        return np.ones(len(logits))
    density = np.exp(_NODES - np.exp(_NODES)) * _STEP
    found = np.array([density @ _few_before(np.delete(logits, item) - logits[item], k) for item in range(len(logits))])
    return np.asarray(np.clip(found * (k / found.sum()), 0.0, 1.0))


def _few_before(gaps: _Floats, k: int) -> _Floats:
    """The probability that fewer than k clocks have rung, at each node. gaps: their logits less the item's own."""
    with np.errstate(over="ignore"):
        rung = -np.expm1(-np.exp(_NODES[:, None] + gaps[None, :]))
    counts = np.zeros((len(_NODES), k))  # of exactly 0, 1, … k - 1 that have rung
    counts[:, 0] = 1.0
    for column in rung.T:
        share = column[:, None]
        counts[:, 1:] = counts[:, 1:] * (1 - share) + counts[:, :-1] * share
        counts[:, :1] *= 1 - share
    return np.asarray(counts.sum(axis=1))


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
