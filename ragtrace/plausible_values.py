"""Bounds of the numbers in a record, and what becomes of one outside: a sender's clock or counter may lie.

A time that cannot be is replaced by what is known, the moment of arrival; a sampling probability that cannot be weighed
by 1. What the sender said stays in the record's `stated`, so that the same request is recognized when it comes again.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, TypeVar

import msgspec

__all__ = [
    "EARLIEST",
    "LEAST_PROBABILITY",
    "MOST_SKEW",
    "is_weighable",
    "sampling_weight",
    "sentences",
    "settle",
    "settle_moment",
    "stated_start",
]

LEAST_PROBABILITY: Final = 1e-9
"""The least probability with which a request can have been sampled: one in a billion. No process has as many requests
of a segment in an hour, so that no floor is below it; and weights up to its inverse, squared and summed over all
requests that a store can hold, stay far from the largest float."""

EARLIEST: Final = 946_684_800_000_000_000
"""Nanoseconds since the epoch at which 2000 began: an earlier time comes of a clock that was never set."""

MOST_SKEW: Final = 86_400.0
"""The most seconds by which a clock may be allowed to be ahead."""

_SECOND: Final = 1_000_000_000
_LONGEST: Final = 86_400 * _SECOND  # a request that is said to have taken longer tells nothing of how long it took

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_replace: Final[Any] = msgspec.structs.replace


def is_weighable(probability: float) -> bool:
    """Whether 1 / probability is a weight: from `LEAST_PROBABILITY` to 1."""
    return LEAST_PROBABILITY <= probability <= 1.0


def sampling_weight(probability: float) -> float:
    """The weight of a request that was sampled so, in [1, 1e9]: the inverse, and 1 where that is none."""
    return 1.0 / probability if is_weighable(probability) else 1.0


def settle_moment(at: int, now: int, skew: float) -> int:
    """A time in nanoseconds as it may be stored: itself, or `now` where it is before `EARLIEST` or more than `skew`
    seconds ahead."""
    return at if EARLIEST <= at <= now + round(skew * _SECOND) else now


def settle(record: _Struct, now: int, skew: float, earliest: int = EARLIEST) -> _Struct:
    """A `RequestRecord` whose times and sampling probability are possible; the same one where they are. Settling it
    again, at any later time, changes nothing.

    A start that cannot be becomes the end where that can be, else the arrival, less the stated duration up to a day. An
    end that cannot be becomes the start. Runs are moved along, and kept within the request. An end of 0 is unknown.

    now: when it arrived, nanoseconds. skew: seconds by which the sender's clock may be ahead.
    """
    given: Any = record
    try:
        latest = now + round(skew * _SECOND)
        stated: dict[str, int | float] = {}
        start, end = _settle_request(given, now, earliest, latest, stated)
        span = _Span(start, max(start, end), earliest, latest, start - given.started_at)
        stages = tuple([span.settle(run) for run in given.stages])
        changed = sum(new is not old for new, old in zip(stages, given.stages, strict=True))
        if changed:
            stated["stages"] = changed
        probability = given.head_probability
        if isfinite(probability) and not is_weighable(probability) and (given.head_sampled or probability):
            stated["head_probability"], probability = probability, 1.0
    except TypeError:  # a value of a wrong type: writing it says which
        return record
    if not stated:
        return record
    settled: _Struct = _replace(
        given,
        started_at=start,
        ended_at=end,
        stages=stages,
        head_probability=probability,
        stated={**stated, **given.stated},
    )
    return settled


def _settle_request(
    given: Any, now: int, earliest: int, latest: int, stated: dict[str, int | float]
) -> tuple[int, int]:
    """The start and the end; what was said of those that are replaced goes into `stated`."""
    start, end = given.started_at, given.ended_at
    if not earliest <= start <= latest:
        stated["started_at"] = start
        if earliest <= end <= latest:
            start = end
        else:
            took = end - start if end and 0 <= end - start <= _LONGEST else 0
            start = now - took
            if end:
                stated["ended_at"], end = end, now
    elif end and not start <= end <= latest:
        stated["ended_at"], end = end, start
    return start, end


class _Span(msgspec.Struct, frozen=True):
    """When a request ran, by how much its start was moved, and between which times any may lie."""

    start: int
    end: int
    earliest: int
    latest: int
    moved: int

    def settle(self, run: Any) -> Any:
        """A run whose times can be."""
        start = self._moment(run.started_at)
        end = self._moment(run.ended_at)
        end = max(start, end) if end else end
        if (start, end) == (run.started_at, run.ended_at):
            return run
        return _replace(run, started_at=start, ended_at=end)

    def _moment(self, at: int) -> int:
        for possible in (at, at + self.moved):
            if not at or self.earliest <= possible <= self.latest:
                return possible if at else at
        return min(max(at, self.start), self.end)


def stated_start(record: Any) -> int:
    """When a request says that it began, by which it is known."""
    stated: Mapping[str, Any] = record.stated
    start: int = stated.get("started_at", record.started_at)
    return start


def sentences(stated: Mapping[str, int | float]) -> dict[str, str]:
    """What became of each number that cannot be, by its field."""
    return {name: _SENTENCES[name].format(value) for name, value in stated.items() if name in _SENTENCES}


_SENTENCES: Final = {
    "started_at": "its sender says that it began {} ns after 1970, which cannot be: its time is that of its arrival",
    "ended_at": "its sender says that it ended {} ns after 1970, which cannot be: how long it took is not known",
    "stages": "the times of {} of its stages cannot be, and were moved",
    "head_probability": "its sender says that it was sampled with probability {}, which cannot be weighed: it counts "
    "once",
}
