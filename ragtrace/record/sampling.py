"""Request ids, and the head decision: which requests are in the random sample."""

from __future__ import annotations

import hashlib
import os
import random
import time
from typing import Final

__all__ = ["is_sampled", "new_request_id"]

_RANGE: Final = 2**64

_random: Final = random.Random(os.urandom(32))  # the host's own seeding must not make ids repeat
os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))


def is_sampled(key: str, rate: float) -> bool:
    """Whether the request with this trace id (or request id) is in the random sample.

    The same key gives the same answer everywhere, and a sample at a lower rate is a subset of one at a higher rate.
    """
    if rate >= 1.0:
        return True
    drawn = int.from_bytes(hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return drawn < rate * _RANGE


def new_request_id(at: int | None = None) -> str:
    """32 hexadecimal digits in the layout of a UUID version 7: they sort by time, `at` (nanoseconds), else now."""
    drawn = _random.getrandbits(74)
    low = (drawn & (2**62 - 1)) | (2 << 62)
    return f"{(time.time_ns() if at is None else at) // 1_000_000:012x}7{drawn >> 62:03x}{low:016x}"
