"""Requests analyzed per second of processor time: with 50 new chunks each, and with 50 that were seen before.

A request of the first sort has chunks that no request had before it; one of the second draws its chunks from 400 that
as many requests had before it, with a question and an answer of its own. Beside them the same jobs leased, read and
ended unanalyzed. All are interleaved round by round over fresh stores in one process, each beside a loop of plain
Python that is timed right before it: *per loop* is how many requests are analyzed in the time of that loop, and says
more on a busy machine than the rate.

Usage: python bench/analyze.py [--requests 100] [--rounds 5] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

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
LOOP: Final = 1_000_000  # additions of the reference loop
SHOWN: Final = 15  # functions of a profile
POOL: Final = 400  # chunks that recur
PRODUCTS, PLACES = ("Alder", "Birch", "Cedar", "Dogwood", "Elm"), ("France", "Germany", "Spain", "Italy")
TOPICS = ("deductible", "waiting period", "claim limit", "notice period", "premium refund")


def sentence(draw: random.Random) -> str:
    """One fact with an entity, a place, a year and a quantity in it."""
    return (
        f"The {draw.choice(TOPICS)} of the {draw.choice(PRODUCTS)} policy in {draw.choice(PLACES)} is "
        f"{draw.randrange(50, 900)} EUR from {draw.randrange(2019, 2026)}, unless the insurer agrees otherwise."
    )


class Measured(NamedTuple):
    """Requests per second of processor time, and in the time of the reference loop."""

    rate: float
    per_loop: float


def new_texts(number: int) -> list[str]:
    """The texts of 50 chunks, different for each number."""
    draw = random.Random(number)
    return [" ".join(sentence(draw) for _ in range(5)) for _ in range(CANDIDATES)]


def record(number: int, texts: Sequence[str]) -> RequestRecord:
    """A request of the size that a production pipeline leaves: 50 candidates, 8 of them packed, 4 sentences."""
    draw = random.Random(f"request {number}")
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
    """The real worker, as `ragtrace analyze` runs it."""
    with worker.rare_collections():
        worker.run(store)


def end_unanalyzed(store: Store) -> None:
    """The worker's traffic with the store and nothing else."""
    while jobs := store.claim("bench"):
        store.get_records([job.request_id for job in jobs])
        store.finish([Finished(job, Analysis(request_id=job.request_id, analyzer_version="bench")) for job in jobs])


def new_requests(numbers: range) -> list[RequestRecord]:
    """Requests whose chunks no other request has."""
    return [record(number, new_texts(number)) for number in numbers]


def seen_requests(numbers: range) -> list[RequestRecord]:
    """Requests whose chunks recur."""
    pool = [text for number in range(POOL // CANDIDATES) for text in new_texts(-100 - number)]
    return [record(number, random.Random(number).sample(pool, CANDIDATES)) for number in numbers]


def reference_seconds() -> float:
    """The processor time of the reference loop, now."""
    started = time.process_time()
    total = 0
    for number in range(LOOP):
        total += number & 7
    return time.process_time() - started


def measured(
    work: Callable[[Store], None], records: list[RequestRecord], profile: cProfile.Profile | None = None
) -> Measured:
    """How fast the work is over a fresh store with these requests."""
    with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{Path(folder) / 'bench.db'}") as store:
        store.write(records)
        loop = reference_seconds()
        started = time.process_time()
        if profile is not None:
            profile.runcall(work, store)
        else:
            work(store)
        spent = time.process_time() - started
        assert store.queue_depth().get("done") == len(records)
    return Measured(len(records) / spent, len(records) * loop / spent)


def main() -> None:
    """Print the rates: medians over the rounds, with their range."""
    options = _options()
    count, rounds = options.requests, options.rounds
    for work in (analyze, end_unanalyzed):  # what is loaded and compiled once is not counted
        measured(work, new_requests(range(-5, 0)))
    found: dict[str, list[Measured]] = {"50 new chunks": [], "50 seen chunks": [], "not analyzed": []}
    measured(analyze, seen_requests(range(-10 - count, -10)))
    profiles = {name: cProfile.Profile() for name in list(found)[:2]} if options.profile else {}
    for turn in range(rounds):
        start = 2 * turn * count
        new = new_requests(range(start, start + count))
        seen = seen_requests(range(start + count, start + 2 * count))
        found["50 new chunks"].append(measured(analyze, new, profiles.get("50 new chunks")))
        found["50 seen chunks"].append(measured(analyze, seen, profiles.get("50 seen chunks")))
        found["not analyzed"].append(measured(end_unanalyzed, new))
    print(f"{count} requests, {rounds} rounds{', under the profiler' if profiles else ''}")
    print(f"{'':16}{'requests/s/core':>32}{'per loop':>32}")
    for name, figures in found.items():
        print(
            f"{name:16}{_range([one.rate for one in figures], 1):>32}{_range([one.per_loop for one in figures], 3):>32}"
        )
    for name, profile in profiles.items():
        print(f"\n== {name} ==")
        pstats.Stats(profile).sort_stats("tottime").print_stats(SHOWN)


def _range(values: Sequence[float], digits: int) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100, help="of each sort and round (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default %(default)s)")
    parser.add_argument("--profile", action="store_true", help=f"show the {SHOWN} functions that take most time")
    return parser.parse_args()


if __name__ == "__main__":
    main()
