"""A service whose true breaks are known: the tool names some of them, and people label all of them right."""

from __future__ import annotations

from typing import Final

from ragtrace.store import Finished, Job, RequestLabel, Store
from ragtrace.triage import Window
from ragtrace.types import (
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
    StageFinding,
)

SECOND: Final = 1_000_000_000
START: Final = 1_700_000_000 * SECOND
WINDOW: Final = Window.of(START, START + 10_000 * SECOND)
TRULY_BROKEN: Final = 5
"""Every so many requests retrieval broke; the tool names every second one of them, and suspects generation in some."""


def record(number: int, **fields: object) -> RequestRecord:
    """A request with three candidates, of which the prompt holds two."""
    found = tuple(Candidate(chunk_id=f"c{rank}", rank=rank, text=f"Text {rank} of {number}.") for rank in (1, 2, 3))
    packed = (PackedChunk(chunk_id="c1", position=1), PackedChunk(chunk_id="c2", position=2))
    stages = (
        RetrieveRun(candidates=found),
        PackRun(packing=Packing(chunks=packed)),
        GenerateRun(generation=Generation(answer="So it is.")),
    )
    given = {
        "request_id": f"r{number:04}",
        "service": "shop",
        "started_at": START + number * SECOND,
        "ended_at": START + number * SECOND,
        "query": Query(original=f"What is the fee of case {number}?"),
        "versions": {"model": "m-1"},
        "stages": stages,
    } | fields
    return RequestRecord(**given)  # type: ignore[arg-type]


def is_broken(request_id: str) -> bool:
    """Whether retrieval truly broke."""
    return int(request_id[1:5]) % TRULY_BROKEN == 0


def diagnosis(request_id: str, judge: str = "j1") -> Diagnosis:
    """What the tool says: half of the breaks are named; of the others a third are suspected or not known."""
    number = int(request_id[1:5])
    if number % (2 * TRULY_BROKEN) == 0:
        stages = (StageFinding(stage="retrieval", state="broken"), StageFinding(stage="generation", state="sound"))
        return Diagnosis(verdict="recall_failure", stage="retrieval", stages=stages, judge=judge)
    state = {0: "suspected", 1: "not_known"}.get(number % 6, "sound")
    second = StageFinding(stage="generation", state=state)  # type: ignore[arg-type]  # one of the states
    verdict = "healthy" if state == "sound" else "no_break_found"
    return Diagnosis(verdict=verdict, stages=(StageFinding(stage="retrieval", state="sound"), second), judge=judge)


def fill(store: Store, records: list[RequestRecord]) -> None:
    """Store requests with what the tool says of them."""
    store.write(records)
    finished = [Finished(job, _analysis(job)) for job in store.claim("w", limit=len(records))]
    store.finish(finished)


def _analysis(job: Job) -> Analysis:
    return Analysis(
        request_id=job.request_id,
        analyzer_version=job.analyzer_version,
        record_revision=job.record_revision,
        diagnosis=diagnosis(job.request_id),
    )


def label(request_id: str, labeler: str = "ada") -> RequestLabel:
    """What a labeler who is always right says."""
    stages = {"retrieval": "broken" if is_broken(request_id) else "sound", "ranking": "sound", "generation": "sound"}
    first = "retrieval" if is_broken(request_id) else "none"
    return RequestLabel(request_id, labeler, first, stages, needed=("c1",), labeled_at=START)
