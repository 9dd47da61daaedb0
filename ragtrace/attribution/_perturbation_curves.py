"""Faithfulness of an attribution (AIPC): remove what it calls relevant first, or last, and watch the value fall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.attribution.game import Game
from ragtrace.errors import AttributionError
from ragtrace.numeric import check_seed, real_array

__all__ = ["Curves", "Estimate", "aipc", "aipc_difference", "area_between", "perturbation_curves"]

Floats = NDArray[np.float64]
_CONFIDENCE: Final = 0.95
_RESAMPLES: Final = 1000
_ROUNDING: Final = 1e-6  # of the largest value: curves in float32 that differ by no more do not differ


@dataclass(frozen=True, slots=True)
class Curves:
    """The value after removing 0, 1, ..., k players: `(k + 1,)` each, most and least relevant first."""

    morf: Floats
    lerf: Floats

    def normalized(self) -> Curves:
        """Both min-max normalized together, in [0, 1]; zeros where they vary by rounding alone (1e-6).

        Raises: AttributionError for curves of different lengths, or values that are not finite.
        """
        morf, lerf = (real_array(curve, "a curve", AttributionError) for curve in (self.morf, self.lerf))
        if morf.ndim != 1 or morf.shape != lerf.shape or len(morf) < 2:
            raise AttributionError(
                f"curves of shapes {morf.shape} and {lerf.shape}; give two of one length, at least 2"
            )
        both = np.concatenate([morf, lerf])
        if not np.isfinite(both).all():
            raise AttributionError("a curve holds a value that is not finite; check what the game returned")
        spread = float(np.ptp(both))
        if spread <= _ROUNDING * float(np.abs(both).max()):
            return Curves(np.zeros(len(morf)), np.zeros(len(morf)))
        return Curves((morf - both.min()) / spread, (lerf - both.min()) / spread)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over samples with its 95 % bootstrap interval, NaN for one sample alone. per_sample: `(n,)`."""

    mean: float
    low: float
    high: float
    per_sample: Floats


def perturbation_curves(game: Game, attribution: ArrayLike, *, steps: int | None = None) -> Curves:
    """MoRF and LeRF of one sample: players leave by descending and by ascending `attribution` `(k,)`.

    game: `(n, k)` coalitions to `(n, m)` values, which are summed over the m tokens. Equal attributions leave in the
    same order in both curves, so that an attribution without information has no area between them. steps: of more than
    so many players several leave at once, in so many steps that are as equal as can be; the curves are `(steps + 1,)`.

    Raises: AttributionError for attributions or values that are not finite, or no player at all.
    """
    scores = real_array(attribution, "attribution", AttributionError)
    if scores.ndim != 1 or scores.size == 0 or not np.isfinite(scores).all():
        raise AttributionError(f"attribution of shape {scores.shape}; give one finite number for each of k players")
    k = len(scores)
    removed = np.arange(k + 1) if steps is None or k <= steps else np.rint(np.linspace(0, k, steps + 1)).astype(int)
    orders = [np.argsort(-scores, kind="stable"), np.argsort(scores, kind="stable")]
    coalitions = np.concatenate([np.argsort(order)[None, :] >= removed[:, None] for order in orders])
    distinct, back = np.unique(coalitions, axis=0, return_inverse=True)
    values = real_array(game(distinct), "what the game returns", AttributionError)
    if values.ndim != 2 or len(values) != len(distinct) or not np.isfinite(values).all():
        raise AttributionError(f"the game returned {values.shape} for {len(distinct)} coalitions; give finite (n, m)")
    curve = values.sum(axis=1)[back.reshape(-1)]
    return Curves(curve[: len(removed)], curve[len(removed) :])


def area_between(curves: Curves) -> float:
    """The area between LeRF and MoRF over the share of players removed, in [-1, 1]; higher is more faithful.

    Both are min-max normalized together; constant curves, and those that vary by rounding alone (1e-6), have no area.

    Raises: AttributionError for curves of different lengths, or values that are not finite.
    """
    between = curves.normalized()
    gap = between.lerf - between.morf
    return float((gap[1:] + gap[:-1]).mean() / 2)


def aipc(samples: Sequence[Curves], *, seed: int = 0) -> Estimate:
    """Area inside the perturbation curves: the mean of `area_between` with its 95 % bootstrap interval.

    Raises: AttributionError without a sample, ConfigurationError for a seed. Source: RAG-E, appendix D.
    """
    return _bootstrapped(np.array([area_between(curves) for curves in samples]), seed)


def aipc_difference(first: Sequence[Curves], second: Sequence[Curves], *, seed: int = 0) -> Estimate:
    """Mean of first - second over the same samples, with the interval of a paired bootstrap.

    An interval above 0 says that the first is more faithful. Raises: AttributionError unless both have the same number.
    """
    if len(first) != len(second):
        raise AttributionError(f"{len(first)} and {len(second)} samples; give the same samples for both, in order")
    return _bootstrapped(
        np.array([area_between(a) - area_between(b) for a, b in zip(first, second, strict=True)]), seed
    )


def _bootstrapped(values: Floats, seed: int) -> Estimate:
    check_seed(seed)
    if not len(values):
        raise AttributionError("no samples; give the curves of at least one")
    if len(values) == 1:  # all its resamples are alike, which would say that it is sure
        return Estimate(float(values[0]), float("nan"), float("nan"), values)
    chosen = np.random.default_rng(seed).integers(len(values), size=(_RESAMPLES, len(values)))
    low, high = np.quantile(values[chosen].mean(axis=1), [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return Estimate(float(values.mean()), float(low), float(high), values)
