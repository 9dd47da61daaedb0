"""Requests that tests of the analyzer share: one small insurer, three chunks, one question."""

from __future__ import annotations

import time

from ragtrace.store import Store
from ragtrace.types import (
    Candidate,
    Facet,
    GenerateRun,
    Generation,
    Gold,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageRun,
)

TEXTS = {
    "water": "Home Plus, Ireland, 2024\nWe pay up to €5,000 for escape of water.",
    "theft": "Home Plus, Ireland, 2024\nWe pay up to €900 for stolen bicycles.",
    "old": "Home Plus, Ireland, 2023\nWe pay up to €4,000 for escape of water.",
}
FACETS = (Facet(kind="entity", value="Home Plus"), Facet(kind="time", value="2024"))
QUESTION = "What does Home Plus pay for escape of water in 2024?"
ANSWER = "We pay up to €5,000 for escape of water [1]."
RETRIEVE = RetrieveRun(
    started_at=0,
    ended_at=20_000_000,
    candidates=tuple(
        Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(TEXTS.items(), 1)
    ),
)
RERANK = RerankRun(
    moves=tuple(RankMove(chunk_id=name, rank_before=rank, rank_after=rank) for rank, name in enumerate(TEXTS, 1))
)


def packed(*names: str) -> PackRun:
    """A prompt of the named chunks."""
    chunks = tuple(PackedChunk(chunk_id=name, position=place, text=TEXTS[name]) for place, name in enumerate(names, 1))
    return PackRun(packing=Packing(chunks=chunks))


def request(
    *stages: StageRun, answer: str | None = ANSWER, request_id: str = "r", ended_at: int = 0, head_sampled: bool = True
) -> RequestRecord:
    """A request with the given stages, healthy by default."""
    runs = stages or (RETRIEVE, RERANK, packed("water"), GenerateRun(generation=Generation(answer=answer)))
    return RequestRecord(
        request_id=request_id,
        service="s",
        segment="limit",
        trace_id="0af7651916cd43dd8448eb211c80319c",
        query=Query(original=QUESTION, facets=FACETS),
        versions={"model": "m"},
        stages=runs,
        flags=() if head_sampled else ("error",),
        head_sampled=head_sampled,
        started_at=ended_at,
        ended_at=ended_at,
    )


def fill(url: str, count: int) -> list[str]:
    """`count` requests, every third with an answer that contradicts the evidence; returns their ids."""
    answers = [ANSWER, ANSWER, ANSWER.replace("5,000", "7,000")]
    now = time.time_ns()
    records = [request(answer=answers[n % 3], request_id=f"r{n:03}", ended_at=now) for n in range(count)]
    with Store.open(url) as store:
        store.put_gold([Gold(service="s", question=QUESTION, chunk_ids=("water",))])
        store.write(records)
    return [record.request_id for record in records]


def outcome(url: str, ids: list[str]) -> tuple[dict[str, object], dict[str, float]]:
    """Scores and verdict per request, and the totals that count requests and results, not seconds."""
    with Store.open(url) as store:
        analyses = {name: store.get_analysis(name) for name in ids}
        totals = {
            f"{total.name}{total.labels}": total.value
            for total in store.totals()
            if not total.name.endswith(("_sum", "_lag_seconds_bucket", "_analysis_seconds_total"))
        }
    return {name: (found.scores, found.diagnosis) if found else None for name, found in analyses.items()}, totals
