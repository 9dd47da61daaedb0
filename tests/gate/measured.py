"""The smallest requests that can be compared."""

from __future__ import annotations

from typing import Any

from ragtrace.store import MeasuredRequest, Traits
from ragtrace.types import (
    Candidate,
    Facet,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
)
from tests.gate.populations import STAGES

__all__ = ["measured", "recorded"]

_TEXT = "The deductible of policy HX-2 is 500 EUR from 2024."


def measured(request_id: str = "r", **fields: Any) -> MeasuredRequest:
    """A healthy request of one second; any field of it, or of its traits, may be given; `states` beside sound ones."""
    traits: dict[str, Any] = {"question": request_id, "cluster": None, "versions": {"model": "m1"}}
    traits |= {name: fields.pop(name) for name in Traits.__slots__ if name in fields}
    given: dict[str, Any] = {
        "segment": "all",
        "started_at": 1_000_000_000,
        "ended_at": 2_000_000_000,
        "status": "ok",
        "head_sampled": True,
        "head_probability": 1.0,
        "analyzer_version": "coverage-1",
        "reference": "oracle",
        "verdict": "healthy",
        "traits": Traits(**traits),
    }
    fields["states"] = {**dict.fromkeys(STAGES, "sound"), **fields.get("states", {})}
    return MeasuredRequest(request_id=request_id, **{**given, **fields})


def recorded(request_id: str, **fields: Any) -> RequestRecord:
    """A record whose answer quotes and cites its one chunk."""
    stages = (
        RetrieveRun(candidates=(Candidate(chunk_id="hx-2", rank=1, score=0.9, text=_TEXT),)),
        PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="hx-2", position=1, text=_TEXT),))),
        GenerateRun(generation=Generation(answer="The deductible of policy HX-2 is 500 EUR from 2024 [1].")),
    )
    query = Query(
        original=f"What is the deductible of HX-2 ({request_id[-2:]})?", facets=(Facet(kind="entity", value="HX-2"),)
    )
    given: dict[str, Any] = {
        "service": "shop",
        "segment": "policy",
        "started_at": 1_700_000_000_000_000_000,
        "ended_at": 1_700_000_001_000_000_000,
        "query": query,
        "versions": {"model": "m1"},
        "stages": stages,
    }
    return RequestRecord(request_id=request_id, **{**given, **fields})
