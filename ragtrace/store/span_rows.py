"""What the store hands out and takes in of spans that wait for their assembly, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from ragtrace.types import Feedback, RequestRecord

__all__ = ["Assembled", "DueTrace", "SpanPart", "StoredPart", "TraceJudgement"]


@dataclass(frozen=True, slots=True)
class SpanPart:
    """Spans of one trace as they arrived together, as an OTLP request in protobuf.

    `tenant` is "" where there is but one; `ended`: the trace's root is among them."""

    tenant: str
    trace_id: str
    body: bytes
    ended: bool


@dataclass(frozen=True, slots=True)
class TraceJudgement:
    """A judgement of the request of a trace, whose id the sender need not know: `said.request_id` is empty."""

    tenant: str
    trace_id: str
    said: Feedback


@dataclass(frozen=True, slots=True)
class DueTrace:
    """A trace to assemble: how many parts it has, how often it was tried before, the bytes of its parts, and when the
    lease of whoever took it ends, in Unix seconds."""

    tenant: str
    trace_id: str
    parts: int
    attempts: int
    bytes: int = 0
    leased_until: float = 0.0


class StoredPart(NamedTuple):
    """A part of a trace as it came, in protobuf, by its digest. `alone`: the bytes that it takes in the store by
    itself; 0 where it is stored against the texts of its record."""

    digest: str
    body: bytes
    alone: int = 0


class Assembled(NamedTuple):
    """A trace that was assembled: its record, None where its spans tell nothing of RAG, and the parts that were read
    for it. `span_ids`: of all of its spans. `judgements`: what its spans say of a request, where they make none."""

    trace: DueTrace
    record: RequestRecord | None
    parts: Sequence[StoredPart] = ()
    span_ids: Set[str] = frozenset()
    judgements: Sequence[Feedback] = ()
