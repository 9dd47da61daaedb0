"""Since when a share has been higher than it was, as far as counts tell for certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log
from typing import Final

__all__ = ["Episode", "find_episode"]

_BLOCKS: Final = 80  # places at which a search looks before it looks closely
_NEAR: Final = 2.0  # log-likelihood within which another place of the change is as good


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


def find_episode(bad: Sequence[bool]) -> Episode | None:
    """The stretch that stands out most; None where chance explains the sequence as well.

    The stretch that maximizes the likelihood of two shares (inside, outside) over that of one share, when the gain
    exceeds what the best of all stretches of an even sequence has in about 1 of 100 cases. An end that is as likely
    behind the last of the sequence is taken to lie there: the episode goes on.
    Source: Siegmund, "Sequential Analysis" (1985), chapter 11: the epidemic alternative.
    """
    count = len(bad)
    sums = [0, *accumulate(bad)]
    if count < 2 or not sums[-1]:
        return None
    gains = _Gains(sums)
    coarse = sorted({round(step * count / _BLOCKS) for step in range(_BLOCKS + 1)})
    _, start, end = max((gains.of(one, two), one, two) for one in coarse for two in coarse if one < two)
    step = count // _BLOCKS + 1
    for _ in range(2):
        start = max(range(max(0, start - step), min(end, start + step + 1)), key=lambda one: gains.of(one, end))
        end = max(range(max(start + 1, end - step), min(count, end + step) + 1), key=lambda two: gains.of(start, two))
    best = gains.of(start, end)
    if best < _threshold(count):
        return None
    if gains.of(start, count) >= best - _NEAR:
        end = count
        best = gains.of(start, end)
    starts = [one for one in range(end) if gains.of(one, end) >= best - _NEAR]
    ends = [two for two in range(start + 1, count + 1) if gains.of(start, two) >= best - _NEAR]
    return Episode(start, end, min(starts), max(starts), min(ends), max(ends))


def _threshold(count: int) -> float:
    return 4.5 + log(count)


class _Gains:
    """Log-likelihood gained by giving a stretch a share of its own, and a higher one; 0 where it is lower."""

    def __init__(self, sums: Sequence[int]) -> None:
        self._sums = sums
        self._count, self._bad = len(sums) - 1, sums[-1]
        self._even = _likelihood(self._bad, self._count)

    def of(self, start: int, end: int) -> float:
        inside, length = self._sums[end] - self._sums[start], end - start
        if inside * self._count <= self._bad * length:
            return 0.0
        outside = _likelihood(self._bad - inside, self._count - length)
        return _likelihood(inside, length) + outside - self._even


def _likelihood(bad: int, known: int) -> float:
    if bad in (0, known):
        return 0.0
    return bad * log(bad / known) + (known - bad) * log(1 - bad / known)
