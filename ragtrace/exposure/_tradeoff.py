"""The trade-off of even exposure: curves of utility over disparity, their slope and area, paired tests by interval.

The utility of an answer beside a reference answer is a number in [0, 1]: exact match, token F1, ROUGE-L. Words are
compared in lower case and without punctuation, for exact match and F1 without articles, as SQuAD has it. A sentence of
a script without spaces is one word. The worth of a document is what the answer is worth with it alone less what it is
worth with none; a document is useful where that is above 0.

Source: Kim and Diaz, "Towards Fair RAG", section 3.1, section 5 and Table 2; the correction: Holm (1979); exact match
and F1: Rajpurkar et al. (2016), "SQuAD"; the longest common subsequence: Lin (2004), "ROUGE".
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.errors import ConfigurationError
from ragtrace.numeric import check_seed, real_array
from ragtrace.sample_statistics import holm

__all__ = [
    "UTILITIES",
    "Curve",
    "IntervalDifference",
    "disparity_curve",
    "exact_match",
    "interval_differences",
    "rouge_l",
    "token_f1",
]

_ARTICLES: Final = frozenset(("a", "an", "the"))


def exact_match(answer: str, reference: str) -> float:
    """1 where both have the same words in the same order, but for articles, else 0."""
    return float(_without_articles(answer) == _without_articles(reference))


def token_f1(answer: str, reference: str) -> float:
    """The harmonic mean of the shares of words, but for articles, in any order, that the other one has: in [0, 1]."""
    said, wanted = _without_articles(answer), _without_articles(reference)
    return _f1((Counter(said) & Counter(wanted)).total(), len(said), len(wanted))


def rouge_l(answer: str, reference: str) -> float:
    """The harmonic mean of the shares that the longest common subsequence of words has of both: in [0, 1]."""
    said, wanted = _words(answer), _words(reference)
    return _f1(_longest_common(said, wanted), len(said), len(wanted))


def _words(text: str) -> list[str]:
    """Letters, digits and the marks on them; everything else is between words."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = (letter if letter.isalnum() or unicodedata.category(letter)[0] == "M" else " " for letter in folded)
    return "".join(kept).split()


def _without_articles(text: str) -> list[str]:
    return [word for word in _words(text) if word not in _ARTICLES]


def _f1(common: int, said: int, wanted: int) -> float:
    """Two texts without a word are alike."""
    return 2 * common / (said + wanted) if said + wanted else 1.0


def _longest_common(first: list[str], second: list[str]) -> int:
    """How many words the longest common subsequence has; time: the product of the lengths."""
    lengths = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, 1):
            above = lengths[place]
            lengths[place] = before + 1 if word == other else max(above, lengths[place - 1])
            before = above
    return lengths[-1]


UTILITIES: Final[Mapping[str, Callable[[str, str], float]]] = {
    "rouge-l": rouge_l,
    "token-f1": token_f1,
    "exact-match": exact_match,
}
"""The measures by name."""


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
