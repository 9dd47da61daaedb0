"""Shares of a sample: with bounds, whether one has risen, and since when, as far as counts tell for certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import erfc, log, sqrt
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.alerts.settings import RISES_BY, RISES_FROM, effect
from ragtrace.sample_statistics import ONE_SIDED_95, share_and_size, wilson
from ragtrace.triage._report import Tally

__all__ = [
    "ENOUGH",
    "NEAR",
    "Episode",
    "Weighed",
    "break_end",
    "chance_of_growth",
    "find_episode",
    "growth",
    "has_ended",
    "has_risen",
    "likelihood_gain",
    "share_of",
]

Weighed: TypeAlias = Sequence[tuple[bool, float]]
"""Of each request whether it counts, and its weight: the inverse of the probability with which it was kept."""

ENOUGH: Final = 10
"""Requests below which nothing is said."""

_EACH_SIDE: Final = 20  # requests on both sides, below which no share is said to have risen
_CLEARLY: Final = 3.0  # standard errors of the difference of two shares
_LEAST: Final = 0.05  # by which a share of `RISES_FROM` must have grown to be worth a word; others by as much,
_GROWTH: Final = effect(RISES_FROM + _LEAST, RISES_FROM)  # after the transformation,
_POINTS: Final = RISES_BY * _LEAST  # and by so much
_BLOCKS: Final = 80  # places at which a search looks before it looks closely
NEAR: Final = 2.0  # log-likelihood within which another place of the change is as good
_ROUNDING: Final = 1e-9


def share_of(weighed: Weighed, z: float = ONE_SIDED_95) -> Tally:
    """The share of those that count: of the traffic, not of the sample (Hájek's estimate).

    z: standard deviations to its bounds.
    """
    if not weighed:
        return Tally(count=0, of=0, share=None, low=0.0, high=1.0)
    share, size = share_and_size(weighed)
    low, high = wilson(share * size, size, z)
    return Tally(count=sum(counts for counts, _ in weighed), of=len(weighed), share=share, low=low, high=high)


def has_risen(now: Weighed, before: Weighed) -> bool:
    """Whether a share is clearly above what it was, and by as much as five points of 15 % or more (`effect`): two
    proportions, one-sided, with at least twenty requests on both sides, or with what tells as much as twenty that were
    drawn evenly."""
    if not now or not before:
        return False
    if min(share_and_size(each)[1] for each in (now, before)) < _EACH_SIDE:
        return False
    grown, error = growth(now, before)
    shares = (share_and_size(each)[0] for each in (now, before))
    return grown >= max(_POINTS, _CLEARLY * error) and effect(*shares) >= _GROWTH


def growth(now: Weighed, before: Weighed) -> tuple[float, float]:
    """By how much a share is above what it was, and the standard error of that if nothing changed; both sides hold
    requests."""
    (share, size), (earlier, earlier_size) = share_and_size(now), share_and_size(before)
    pooled = (share * size + earlier * earlier_size) / (size + earlier_size)
    return share - earlier, sqrt(pooled * (1 - pooled) * (1 / size + 1 / earlier_size))


def has_ended(during: Tally, after: Tally, allowed: float) -> bool:
    """Whether a break is over: enough requests came after it, their share is within the budget, and it is clearly below
    that of the break."""
    return after.of >= ENOUGH and after.share is not None and after.share <= allowed and after.high < during.low


def break_end(weighed: Weighed, allowed: float) -> tuple[int, Tally] | None:
    """Where the stretch of a sequence that stands out is over: the place of the first request behind it, and the share
    from there on; None where none stands out, or nothing proves that it is over. allowed: by the budget."""
    episode = find_episode([counts for counts, _ in weighed], [weight for _, weight in weighed])
    if episode is None or episode.end == len(weighed):
        return None
    after = share_of(weighed[episode.end :])
    return (episode.end, after) if has_ended(share_of(weighed[episode.start : episode.end]), after, allowed) else None


def chance_of_growth(now: Weighed, before: Weighed) -> float:
    """The chance that a share grows so much where nothing changed, one-sided."""
    grown, error = growth(now, before)
    return erfc(grown / error / sqrt(2)) / 2 if error else 1.0


def likelihood_gain(now: Weighed, before: Weighed) -> float:
    """The log-likelihood that two shares gain over one; of two places that part the same requests, those within
    `NEAR` of each other explain a change alike."""
    sides = [(share * size, size) for share, size in (share_and_size(now), share_and_size(before))]
    whole = _likelihood(sum(bad for bad, _ in sides), sum(size for _, size in sides))
    return sum(_likelihood(bad, size) for bad, size in sides) - whole


@dataclass(frozen=True, slots=True)
class Episode:
    """The stretch `[start, end)` of a sequence in which the share of the bad is higher than around it.

    earliest and latest bound where it may have started, ends_earliest and ends_latest where it may have ended.
    """

    start: int
    end: int
    earliest: int
    latest: int
    ends_earliest: int
    ends_latest: int


def find_episode(bad: Sequence[bool], weights: Sequence[float] | None = None) -> Episode | None:
    """The stretch that stands out most; None where chance explains the sequence as well.

    weights: the inverse of the probabilities with which the requests were kept, where they differ.

    The stretch that maximizes the likelihood of two shares (inside, outside) over that of one share, when the gain
    exceeds what the best of all stretches of an even sequence has in about 1 of 100 cases. An end that is as likely
    behind the last of the sequence is taken to lie there: the episode goes on.
    Source: Siegmund, "Sequential Analysis" (1985), chapter 11: the epidemic alternative.
    """
    count = len(bad)
    if count < 2 or not any(bad):
        return None
    counts = _counts(weights or [1.0] * count)
    gains = _Gains(
        [0.0, *accumulate(each if is_bad else 0.0 for is_bad, each in zip(bad, counts, strict=True))],
        [0.0, *accumulate(counts)],
    )
    if gains.most < _threshold(count):
        return None
    coarse = sorted({round(step * count / _BLOCKS) for step in range(_BLOCKS + 1)})
    _, start, end = max((gains.of(one, two), one, two) for one, two in gains.best_of(coarse))
    step = count // _BLOCKS + 1
    for _ in range(2):
        start = max(range(max(0, start - step), min(end, start + step + 1)), key=lambda one: gains.of(one, end))
        end = max(range(max(start + 1, end - step), min(count, end + step) + 1), key=lambda two: gains.of(start, two))
    best = gains.of(start, end)
    if best < _threshold(count):
        return None
    if gains.of(start, count) >= best - NEAR:
        end = count
        best = gains.of(start, end)
    starts = np.flatnonzero(gains.of_each(np.arange(end), end) >= best - NEAR)
    ends = start + 1 + np.flatnonzero(gains.of_each(start, np.arange(start + 1, count + 1)) >= best - NEAR)
    return Episode(start, end, int(starts[0]), int(starts[-1]), int(ends[0]), int(ends[-1]))


def _threshold(count: int) -> float:
    return 4.5 + log(count)


def _counts(weights: Sequence[float]) -> list[float]:
    """For how many observations each request counts: together for as many as would tell as much if all were drawn alike
    (Kish), and none for more than one, so that a single bad request of great weight is no change by itself."""
    scale = sum(weights) / sum(weight**2 for weight in weights)
    return [min(1.0, weight * scale) for weight in weights]


class _Gains:
    """Log-likelihood gained by giving a stretch a share of its own, and a higher one; 0 where it is lower."""

    def __init__(self, bad: Sequence[float], known: Sequence[float]) -> None:
        self._bad, self._known = bad, known
        self._arrays = np.array(bad), np.array(known)
        self._even = _likelihood(bad[-1], known[-1])

    @property
    def most(self) -> float:
        """What no stretch gains more than: both shares would be 0 or 1."""
        return -self._even

    def of(self, start: int, end: int) -> float:
        inside, length = self._bad[end] - self._bad[start], self._known[end] - self._known[start]
        if inside * self._known[-1] <= self._bad[-1] * length:
            return 0.0
        outside = _likelihood(self._bad[-1] - inside, self._known[-1] - length)
        return _likelihood(inside, length) + outside - self._even

    def best_of(self, places: Sequence[int]) -> list[tuple[int, int]]:
        """The stretches between two of the places that gain most, but for rounding: all of them at once."""
        at = np.array(places)
        starts, ends = np.triu_indices(len(places), 1)
        gains = self.of_each(at[starts], at[ends])
        return [(places[starts[one]], places[ends[one]]) for one in np.flatnonzero(gains >= gains.max() - _ROUNDING)]

    def of_each(self, starts: NDArray[np.int_] | int, ends: NDArray[np.int_] | int) -> NDArray[np.float64]:
        """`of` each stretch, but for rounding."""
        bad, known = self._arrays
        inside, length = bad[ends] - bad[starts], known[ends] - known[starts]
        outside, rest = bad[-1] - inside, known[-1] - length
        gains: NDArray[np.float64] = _likelihoods(inside, length) + _likelihoods(outside, rest) - self._even
        gains[inside * known[-1] <= bad[-1] * length] = 0.0
        return gains


def _likelihoods(bad: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.float64]:
    """`_likelihood` of each."""
    good = known - bad
    is_even = np.minimum(bad, good) <= _ROUNDING
    bad, good, known = (np.where(is_even, 1.0, each) for each in (bad, good, known))
    return np.where(is_even, 0.0, bad * np.log(bad / known) + good * np.log(good / known))


def _likelihood(bad: float, known: float) -> float:
    good = known - bad
    if min(bad, good) <= _ROUNDING:
        return 0.0
    return bad * log(bad / known) + good * log(good / known)
