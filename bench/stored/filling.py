"""Fills a store with analyzed requests, by the store's own methods: small ones, whose texts come out of one pool."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from bench.sending.prose import Prose
from ragtrace.store import Finished, Job, Store
from ragtrace.types import (
    ANALYZER_VERSION,
    Analysis,
    Candidate,
    Diagnosis,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    Score,
)

__all__ = ["LARGEST", "SEGMENTS", "SERVICE", "fill", "request_id", "room_for"]

LARGEST: Final = 10_000_000_000
"""Bytes that a store may take."""

SERVICE: Final = "bench"
SEGMENTS: Final = 20
_POOL, _LENGTH = 2_000, 400  # texts, and characters of each
_CANDIDATES, _PACKED = 8, 3
_START: Final = 1_700_000_000_000_000_000
_BATCH: Final = 500
_LOOK: Final = 100 * _BATCH  # requests between two looks at the store's size
_EACH: Final = 5_000  # bytes of a request, with what the database needs while it writes: more than it takes


def room_for(requests: int, folder: Path) -> None:
    """Raises: OSError where the disk has too little room for a store of so many requests."""
    free, needed = shutil.disk_usage(folder).free, min(LARGEST, requests * _EACH)
    if free < needed:
        raise OSError(
            f"{requests:,} requests need {needed / 1e9:.1f} GB in {folder}, where {free / 1e9:.1f} GB are free; "
            "let TMPDIR name another folder"
        )


def request_id(number: int) -> str:
    """As random as a trace's id."""
    return blake2b(number.to_bytes(8, "big"), digest_size=16).hexdigest()


def fill(store: Store, requests: int, size: Callable[[], int], first: int = 0) -> None:
    """Write and analyze requests. size: bytes of the store now. Raises: OSError when it becomes larger than LARGEST."""
    texts = _texts()
    for start in range(first, requests, _BATCH):
        numbers = range(start, min(start + _BATCH, requests))
        store.write([_record(number, texts) for number in numbers])
        store.finish([_finished(job) for job in store.claim("bench", limit=len(numbers))])
        if start % _LOOK == 0 and size() > LARGEST:
            raise OSError(f"{start:,} requests take {size():,} bytes, more than {LARGEST:,}")


@cache
def _texts() -> list[str]:
    prose = Prose(1)
    return [prose.text(_LENGTH) for _ in range(_POOL)]


def _record(number: int, texts: list[str]) -> RequestRecord:
    at = _START + number * 1_000_000_000
    places = [(number * 7 + rank * 131) % len(texts) for rank in range(_CANDIDATES)]
    found = tuple(
        Candidate(chunk_id=f"chunk-{place}", rank=rank, score=round(1 / rank, 4), text=texts[place])
        for rank, place in enumerate(places, 1)
    )
    packed = tuple(
        PackedChunk(chunk_id=each.chunk_id, position=place, text=each.text)
        for place, each in enumerate(found[:_PACKED])
    )
    question = f"What is said of {number}?"
    return RequestRecord(
        request_id=request_id(number),
        trace_id=request_id(number),
        service=SERVICE,
        segment=f"segment-{number % SEGMENTS}",
        started_at=at,
        ended_at=at + 1_500_000_000,
        query=Query(original=question),
        versions={"index": "i-1", "model": "m-7"},
        stages=(
            RetrieveRun(query=question, candidates=found),
            PackRun(packing=Packing(chunks=packed)),
            GenerateRun(generation=Generation(answer=texts[number % len(texts)], model="m-7")),
        ),
    )


def _finished(job: Job) -> Finished:
    """An analysis with two of its scores."""
    analysis = Analysis(
        request_id=job.request_id,
        analyzer_version=ANALYZER_VERSION,
        record_revision=job.record_revision,
        scores=(Score(metric="query_coverage", value=0.9), Score(metric="answer_coverage", value=0.8)),
        diagnosis=Diagnosis(verdict="healthy"),
    )
    return Finished(job, analysis)
