"""Requests of the copying model as an application would have recorded them."""

from __future__ import annotations

from collections.abc import Sequence

from ragtrace.prompts import placeholder
from ragtrace.types import (
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
from tests.models.copying import Example, prompt_of

__all__ = ["record_of"]


def record_of(
    example: Example, request_id: str, *, ranking: Sequence[int] | None = None, flags: Sequence[str] = (), at: int = 1
) -> RequestRecord:
    """The request, with chunks c0, c1, ... by place. ranking: places by the retriever's order; None: the prompt's."""
    names = [f"c{place}" for place in range(len(example.documents))]
    order = range(len(names)) if ranking is None else ranking
    candidates = tuple(
        Candidate(chunk_id=names[place], rank=rank, score=1 / rank, text=example.documents[place])
        for rank, place in enumerate(order, 1)
    )
    chunks = tuple(
        PackedChunk(chunk_id=name, position=place, text=text)
        for place, (name, text) in enumerate(zip(names, example.documents, strict=True), 1)
    )
    template = prompt_of([placeholder(name) for name in names], example.question)
    return RequestRecord(
        request_id=request_id,
        service="copier",
        segment="code",
        trace_id="0af7651916cd43dd8448eb211c80319c",
        query=Query(original=example.question),
        versions={"model": "copier"},
        stages=(
            RetrieveRun(candidates=candidates),
            PackRun(packing=Packing(chunks=chunks)),
            GenerateRun(generation=Generation(answer=example.answer, model="copier", prompt_template=template)),
        ),
        flags=tuple(flags),
        head_sampled=True,
        started_at=at,
        ended_at=at,
    )
