"""Times the two reads that people wait for: the newest requests of a segment, and one request whole."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import quantiles
from typing import Final

from bench.stored.filling import SEGMENTS, SERVICE, request_id
from ragtrace.store import Store

__all__ = ["NEWEST", "Reads", "read"]

NEWEST: Final = 50


@dataclass(frozen=True, slots=True)
class Reads:
    """95th percentiles in milliseconds."""

    listed: float
    opened: float


def read(store: Store, requests: int, count: int, draw: random.Random) -> Reads:
    """Read so often of a store that was filled with so many requests.

    Raises: RuntimeError when something is missing.
    """

    def listed() -> None:
        segment = f"segment-{draw.randrange(SEGMENTS)}"
        found = store.find_requests(service=SERVICE, segment=segment, limit=NEWEST)
        if len(found) != min(NEWEST, requests // SEGMENTS):
            raise RuntimeError(f"{len(found)} requests of {segment} were found")

    def opened() -> None:
        wanted = request_id(draw.randrange(requests))
        record = store.get_record(wanted)
        if record is None or not all(each.text for each in record.candidates):
            raise RuntimeError(f"request {wanted} is not whole")

    return Reads(_percentile(listed, count), _percentile(opened, count))


def _percentile(work: Callable[[], None], count: int) -> float:
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - began))
    return quantiles(taken, n=20, method="inclusive")[-1]
