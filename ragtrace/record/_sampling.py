"""Request ids, and the head decision: which requests are in the random sample, and with what probability."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import time
from typing import Final

__all__ = ["HeadSampler", "is_sampled", "new_request_id"]

_RANGE: Final = 2**64
_HOUR: Final = 3_600_000_000_000  # nanoseconds
_SEGMENTS: Final = 1000  # that are counted apart; all further ones of an hour are counted as one
_OTHER: Final = "other"

_random: Final = random.Random(os.urandom(32))  # the host's own seeding must not make ids repeat
os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))


class HeadSampler:
    """Samples at a rate, and the first requests of every segment and hour more often: of the n-th of them, the share
    `floor / n` where that is more.

    The probability depends on how many came before, never on which of those were drawn; so 1 / probability weights a
    sampled request without bias. Takes no lock: threads that meet at the turn of the hour may begin it twice, which
    raises a floor and falsifies no probability.
    """

    def __init__(self, rate: float, floor: int = 0) -> None:
        self._rate = rate
        self._floor = floor
        self._window: tuple[int, dict[str, itertools.count[int]]] = (0, {})

    def probability(self, segment: str) -> float:
        """With which probability the next request of `segment` is to be sampled; counts it."""
        if not self._floor:
            return self._rate
        hour, (began, counters) = time.monotonic_ns() // _HOUR, self._window
        if hour != began:
            self._window = (hour, counters := {})
        counter = counters.get(segment)
        if counter is None:
            known = segment if len(counters) < _SEGMENTS else _OTHER
            counter = counters.setdefault(known, itertools.count(1))
        return max(self._rate, min(1.0, self._floor / next(counter)))


def is_sampled(key: str, probability: float) -> bool:
    """Whether the request with this trace id (or request id) is in the random sample.

    The same key gives the same answer everywhere, and a sample at a lower probability is a subset of one at a higher.
    """
    if probability >= 1.0:
        return True
    drawn = int.from_bytes(hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return drawn < probability * _RANGE


def new_request_id(at: int | None = None) -> str:
    """32 hexadecimal digits in the layout of a UUID version 7: they sort by time, `at` (nanoseconds), else now."""
    drawn = _random.getrandbits(74)
    low = (drawn & (2**62 - 1)) | (2 << 62)
    return f"{(time.time_ns() if at is None else at) // 1_000_000:012x}7{drawn >> 62:03x}{low:016x}"
