"""Requests analyzed per second on one core: the worker, beside the same jobs leased, read and ended unanalyzed.

The two are interleaved round by round over equal stores in one process, so that the ratio between them means something
on a busy machine; the absolute figures are this machine's own. Usage: python bench/analyze.py [REQUESTS] [ROUNDS]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from ragtrace.analyze import worker
from ragtrace.store import Finished, Store
from ragtrace.types import (
    Analysis,
    Candidate,
    Facet,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
)

CANDIDATES, PACKED, SENTENCES = 50, 8, 4
PRODUCTS, PLACES = ("Alder", "Birch", "Cedar", "Dogwood", "Elm"), ("France", "Germany", "Spain", "Italy")
TOPICS = ("deductible", "waiting period", "claim limit", "notice period", "premium refund")


def sentence(draw: random.Random) -> str:
    """One fact with an entity, a place, a year and a quantity in it."""
    return (
        f"The {draw.choice(TOPICS)} of the {draw.choice(PRODUCTS)} policy in {draw.choice(PLACES)} is "
        f"{draw.randrange(50, 900)} EUR from {draw.randrange(2019, 2026)}, unless the insurer agrees otherwise."
    )


def record(number: int) -> RequestRecord:
    """A request of the size that a production pipeline leaves: 50 candidates, 8 of them packed, 4 sentences."""
    draw = random.Random(number)
    texts = [" ".join(sentence(draw) for _ in range(5)) for _ in range(CANDIDATES)]
    order = draw.sample(range(CANDIDATES), CANDIDATES)
    packed = [PackedChunk(chunk_id=f"c{i}", position=at + 1, text=texts[i]) for at, i in enumerate(order[:PACKED])]
    answer = " ".join(f"{texts[order[at]].split('. ')[0].rstrip('.')} [{at + 1}]." for at in range(SENTENCES))
    product, place = draw.choice(PRODUCTS), draw.choice(PLACES)
    return RequestRecord(
        request_id=f"{number:032x}",
        service="bench",
        started_at=number,
        ended_at=number + 1,
        query=Query(
            original=f"What is the deductible of the {product} policy in {place} in 2024?",
            facets=(Facet(kind="entity", value=product), Facet(kind="jurisdiction", value=place)),
        ),
        stages=(
            RetrieveRun(
                candidates=tuple(
                    Candidate(chunk_id=f"c{i}", rank=i + 1, score=1 / (i + 1), text=text)
                    for i, text in enumerate(texts)
                )
            ),
            RerankRun(
                moves=tuple(
                    RankMove(chunk_id=f"c{i}", rank_before=i + 1, rank_after=at + 1) for at, i in enumerate(order)
                )
            ),
            PackRun(packing=Packing(chunks=tuple(packed))),
            GenerateRun(generation=Generation(answer=answer)),
        ),
    )


def analyze(store: Store) -> None:
    """The real worker."""
    worker.run(store)


def end_unanalyzed(store: Store) -> None:
    """The worker's traffic with the store and nothing else."""
    while jobs := store.claim("bench"):
        store.get_records([job.request_id for job in jobs])
        store.finish([Finished(job, Analysis(request_id=job.request_id, analyzer_version="bench")) for job in jobs])


def rate(work: Callable[[Store], None], records: list[RequestRecord]) -> float:
    """Requests per second of CPU time, over a fresh store."""
    with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{Path(folder) / 'bench.db'}") as store:
        store.write(records)
        started = time.process_time()
        work(store)
        spent = time.process_time() - started
        assert store.queue_depth().get("done") == len(records)
    return len(records) / spent


def main(requests: int = 200, rounds: int = 5) -> None:
    """Print the two rates and their ratio: medians over the rounds, with the range of the ratio."""
    records = [record(number) for number in range(requests)]
    for work in (analyze, end_unanalyzed):  # what is loaded and compiled once is not counted
        rate(work, records[:5])
    pairs = [(rate(analyze, records), rate(end_unanalyzed, records)) for _ in range(rounds)]
    ratios = [analyzed / unanalyzed for analyzed, unanalyzed in pairs]
    print(f"{requests} requests, {CANDIDATES} candidates each, {rounds} rounds")
    print(f"analyzed    {median(analyzed for analyzed, _ in pairs):8.1f} requests/s/core")
    print(f"store alone {median(unanalyzed for _, unanalyzed in pairs):8.1f} requests/s/core")
    print(f"ratio       {median(ratios):8.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
