"""The trade-off of even exposure: curves of utility over disparity, their slope and area, paired tests by interval.

Source: Kim and Diaz, "Towards Fair RAG", section 5 and Table 2; the correction: Holm (1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.errors import ConfigurationError
from ragtrace.multiplicity import holm
from ragtrace.numeric import check_seed, real_array

__all__ = ["Curve", "IntervalDifference", "disparity_curve", "interval_differences"]

_INTERVALS: Final = 5
_DRAWS: Final = 9_999  # sign flips, and bootstrap samples
_EXACT: Final = 12  # differences up to which every sign is tried

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve over disparity. slope: of least squares; area: the mean height over the disparities seen, None with a
    reason where all are the same."""

    slope: float | None
    area: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class IntervalDifference:
    """How much better (or worse, below 0) answers are where disparity lies in [low, high) than under the fixed ranking.

    difference: mean over the requests; low_end, high_end: its 95 % bootstrap interval; p_value: two-sided, of flipped
    signs; adjusted: Holm's over the intervals; not_worse: one-sided, that answers lose `margin` or more, with Holm's
    correction. None where fewer than two requests fall into it.
    """

    low: float
    high: float
    requests: int
    difference: float | None = None
    low_end: float | None = None
    high_end: float | None = None
    p_value: float | None = None
    adjusted: float | None = None
    not_worse: float | None = None


def _floats(values: ArrayLike, name: str) -> _Floats:
    return real_array(values, name, ConfigurationError)


def disparity_curve(disparities: ArrayLike, heights: ArrayLike) -> Curve:
    """Slope and area of points over normalized disparity.

    disparities, heights: `(points,)`, each in [0, 1]: as the means at each alpha. Points of one disparity count as
    their mean.
    """
    x, y = _floats(disparities, "disparities"), _floats(heights, "heights")
    if x.ndim != 1 or x.shape != y.shape or x.size == 0 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ConfigurationError(
            f"disparities {x.shape} and heights {y.shape} must be finite numbers, one each a point"
        )
    places, at = np.unique(x, return_inverse=True)
    if len(places) < 2:
        return Curve(None, None, f"all points have the disparity {places[0]:g}")
    means = np.bincount(at.reshape(-1), weights=y) / np.bincount(at.reshape(-1))
    centered = x - x.mean()
    area = float(np.sum(np.diff(places) * (means[1:] + means[:-1]) / 2) / (places[-1] - places[0]))
    return Curve(float(centered @ y / (centered @ centered)), area)


def interval_differences(
    disparities: ArrayLike,
    utilities: ArrayLike,
    fixed: ArrayLike,
    *,
    seed: int,
    margin: float = 0.0,
    fewest: int = 2,
) -> list[IntervalDifference]:
    """Utility in five intervals of normalized disparity, each request against itself under the fixed ranking.

    disparities, utilities: `(requests, alphas)`, NaN where there is none. fixed: `(requests,)`, the utility under the
    deterministic ranking, which itself is no column. margin: a loss that counts as none. fewest: requests of an
    interval below which it is not tested for being no worse.
    """
    check_seed(seed)
    x, y = (
        real_array(disparities, "disparities", ConfigurationError),
        real_array(utilities, "utilities", ConfigurationError),
    )
    base = real_array(fixed, "fixed", ConfigurationError)
    if x.ndim != 2 or x.shape != y.shape or base.shape != x.shape[:1]:
        raise ConfigurationError(
            f"disparities {x.shape} and utilities {y.shape} need one row a request, fixed {base.shape} one number"
        )
    chance = np.random.default_rng(seed)
    known = np.isfinite(x) & np.isfinite(y)
    intervals = np.where(known, np.clip(np.floor(np.where(known, x, 0.0) * _INTERVALS), 0, _INTERVALS - 1), -1)
    found = [_difference(number, intervals == number, y, base, chance, margin) for number in range(_INTERVALS)]
    tested = [each if each.requests >= fewest else replace(each, not_worse=None) for each in found]
    return _adjusted(_adjusted(tested, "p_value", "adjusted"), "not_worse", "not_worse")


def _difference(
    number: int,
    chosen: NDArray[np.bool_],
    utilities: _Floats,
    fixed: _Floats,
    chance: np.random.Generator,
    margin: float,
) -> IntervalDifference:
    counts = chosen.sum(axis=1)
    requests = np.flatnonzero(counts)
    low, high = number / _INTERVALS, (number + 1) / _INTERVALS
    if len(requests) < 2:
        return IntervalDifference(low, high, len(requests))
    means = np.where(chosen, utilities, 0.0).sum(axis=1)[requests] / counts[requests]
    gains = means - fixed[requests]
    picks = chance.integers(0, len(gains), size=(_DRAWS, len(gains)))
    low_end, high_end = np.quantile(gains[picks].mean(axis=1), [0.025, 0.975])
    return IntervalDifference(
        low,
        high,
        len(gains),
        float(gains.mean()),
        float(low_end),
        float(high_end),
        p_value=_sign_flip(gains, chance),
        not_worse=_sign_flip(gains + margin, chance, is_one_sided=True),
    )


def _sign_flip(gains: _Floats, chance: np.random.Generator, *, is_one_sided: bool = False) -> float:
    """The p-value that gains are as likely as losses, or that losses are likelier (one-sided): exact for few, else
    with the draw itself counted."""
    size = np.positive if is_one_sided else np.abs
    seen, slack = float(size(gains.sum())), 1e-12 * float(np.abs(gains).sum())
    if len(gains) <= _EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2 ** len(gains))[:, None] >> np.arange(len(gains))) & 1)
        return float(np.mean(size(signs @ gains) >= seen - slack))
    signs = chance.choice([-1.0, 1.0], size=(_DRAWS, len(gains)))
    return float((1 + np.sum(size(signs @ gains) >= seen - slack)) / (1 + _DRAWS))


def _adjusted(differences: Sequence[IntervalDifference], of: str, name: str) -> list[IntervalDifference]:
    """With Holm's correction over the intervals that were tested."""
    tested = [(place, p) for place, each in enumerate(differences) if (p := getattr(each, of)) is not None]
    found = list(differences)
    for (place, _), adjusted in zip(tested, holm([p_value for _, p_value in tested]), strict=True):
        found[place] = replace(found[place], **{name: adjusted})  # type: ignore[arg-type]
    return found
