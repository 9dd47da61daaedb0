"""Stores with explained requests, as a worker with models leaves them; the models are known sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtrace.analyze.attribution import Part, explain_record
from ragtrace.store import ATTRIBUTION, Finished, FollowUp, Store
from ragtrace.types import (
    Analysis,
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
)
from tests.analyze.engines import AdditiveGenerator, LinearRetriever

__all__ = ["GENERATOR", "explain", "request", "write"]

GENERATOR = AdditiveGenerator({f"text {name}.": worth for worth, name in enumerate("abcdefghij", 1)}, name="m-1")
"""Uses documents in the reverse order of their names: j most, a least."""


def request(request_id: str, documents: str = "abcd", template: str | None = None, **fields: Any) -> RequestRecord:
    """A request whose prompt holds one document per letter, in the order of their ranks."""
    texts = {name: f"The text {name}. More of it." for name in documents}
    candidates = tuple(
        Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(texts.items(), 1)
    )
    chunks = tuple(PackedChunk(chunk_id=name, position=at, text=text) for at, (name, text) in enumerate(texts.items()))
    answer = Generation(answer="It is so.", model="m-1", prompt_template=template)
    defaults: dict[str, Any] = {
        "service": "s",
        "query": Query(original="What is the text a?"),
        "stages": (
            RetrieveRun(query="What is the text a?", candidates=candidates),
            PackRun(packing=Packing(chunks=chunks)),
            GenerateRun(generation=answer),
        ),
    }
    return RequestRecord(request_id=request_id, **{**defaults, **fields})


def write(store: Store, *records: RequestRecord) -> None:
    """Store requests, none of which is explained."""
    store.write(records)


def explain(
    store: Store, *records: RequestRecord, drawn: bool = True, parts: Sequence[Part] = ("generator",), **given: Any
) -> None:
    """Store requests, and explanations of them; drawn: not because of a flag."""
    store.write(records)
    engines: dict[str, Any] = {"generator": GENERATOR, "retriever": LinearRetriever()} | given
    by_id = {record.request_id: record for record in records}
    jobs = store.claim("test", limit=len(records))
    follow_up = FollowUp(ATTRIBUTION, "a-1", flagged=not drawn)
    store.finish(
        [Finished(job, Analysis(request_id=job.request_id, analyzer_version="c-1"), (), follow_up) for job in jobs]
    )
    asked = store.claim("test", kinds=(ATTRIBUTION,), limit=len(records))
    store.finish(
        [
            Finished(
                job,
                Analysis(
                    request_id=job.request_id,
                    analyzer_version="a-1",
                    kind=ATTRIBUTION,
                    explanation=explain_record(by_id[job.request_id], parts=parts, **engines),
                ),
            )
            for job in asked
        ]
    )
