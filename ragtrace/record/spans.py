"""Spans: started on the host's tracer provider, and described with ids, scores and counts (never with content)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode, Tracer, TracerProvider

from ragtrace.record import conventions as names
from ragtrace.record.flushing import precede
from ragtrace.types import GenerateRun, PackRun, RequestRecord, RerankRun, RetrieveRun, StageRun

__all__ = ["Attributes", "Tracing", "describe_request", "describe_stage", "mark_failed"]

Attributes: TypeAlias = dict[str, Any]

_encode: Final = msgspec.json.Encoder().encode


class Tracing:
    """Finds the tracer of `provider`, else of the host's global provider; none when the host has none.

    Spans end in the background. So that none is missing when the host flushes its provider or shuts it down, those
    two wait for `flush` first.
    """

    def __init__(self, provider: TracerProvider | None = None, flush: Callable[[float], object] | None = None) -> None:
        self._given = provider
        self._flush = flush
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def tracer(self) -> Tracer | None:
        """The tracer to start spans with."""
        provider = self._given or trace.get_tracer_provider()
        if provider is not self._provider:
            self._provider = provider
            self._tracer = (
                None if isinstance(provider, trace.ProxyTracerProvider) else provider.get_tracer(names.TRACER)
            )
            if self._tracer is not None and self._flush is not None:
                precede(provider, self._flush)
        return self._tracer


def mark_failed(span: Span, error: BaseException) -> None:
    """Write an exception on a span."""
    span.record_exception(error, escaped=True)
    span.set_status(Status(StatusCode.ERROR, type(error).__name__))


def describe_request(record: RequestRecord) -> Attributes:
    """The attributes of a request's span."""
    attributes: Attributes = {
        names.REQUEST_ID: record.request_id,
        names.REQUEST_SERVICE: record.service,
        names.REQUEST_SEGMENT: record.segment,
        names.REQUEST_HEAD_SAMPLED: record.head_sampled,
        names.REQUEST_HEAD_PROBABILITY: record.head_probability,
    }
    if record.query.query_class is not None:
        attributes[names.REQUEST_QUERY_CLASS] = record.query.query_class
    if record.session_id is not None:
        attributes[names.SESSION_ID] = record.session_id
    if record.flags:
        attributes[names.REQUEST_FLAGS] = record.flags
    return attributes | _versions(record.versions)


def describe_stage(run: StageRun, source: str | None = None) -> Attributes:
    """The attributes of a stage's span."""
    if isinstance(run, RetrieveRun):
        return _retrieval(run, source)
    if isinstance(run, RerankRun):
        return _reranking(run)
    if isinstance(run, PackRun):
        return _packing(run)
    return _generation(run)


def _retrieval(run: RetrieveRun, source: str | None) -> Attributes:
    ids = [candidate.chunk_id for candidate in run.candidates]
    scores = [candidate.score for candidate in run.candidates]
    documents = _encode([{"id": known, "score": score} for known, score in zip(ids, scores, strict=True)])
    attributes: Attributes = {
        names.OPERATION_NAME: "retrieval",
        names.RETRIEVAL_DOCUMENTS: documents.decode(),
        names.RETRIEVAL_IDS: ids,
    }
    if None not in scores:
        attributes[names.RETRIEVAL_SCORES] = scores
    if run.top_k is not None:
        attributes[names.RETRIEVAL_TOP_K] = run.top_k
    if source is not None:
        attributes[names.RETRIEVAL_DATA_SOURCE] = source
    return attributes


def _reranking(run: RerankRun) -> Attributes:
    kept = [move for move in run.moves if move.rank_after is not None]
    attributes: Attributes = {
        names.OPERATION_NAME: "rerank",
        names.RERANK_INPUT_COUNT: sum(move.rank_before is not None for move in run.moves),
        names.RERANK_IDS: [move.chunk_id for move in kept],
        names.RERANK_RANKS_BEFORE: [move.rank_before or 0 for move in kept],
        names.RERANK_DROPPED_IDS: [move.chunk_id for move in run.moves if move.rank_after is None],
    }
    scores = [move.score for move in kept]
    if None not in scores:
        attributes[names.RERANK_SCORES] = scores
    return attributes


def _packing(run: PackRun) -> Attributes:
    packing = run.packing
    tokens = [chunk.tokens for chunk in packing.chunks]
    attributes: Attributes = {
        names.OPERATION_NAME: "pack",
        names.PACK_IDS: [chunk.chunk_id for chunk in packing.chunks],
        names.PACK_TRUNCATED_IDS: [chunk.chunk_id for chunk in packing.chunks if chunk.truncated],
        names.PACK_DROPPED_IDS: [chunk.chunk_id for chunk in packing.dropped],
        names.PACK_DROPPED_REASONS: [chunk.reason for chunk in packing.dropped],
    }
    if None not in tokens:
        attributes[names.PACK_TOKENS] = tokens
    if packing.budget_tokens is not None:
        attributes[names.PACK_BUDGET] = packing.budget_tokens
    return attributes


def _generation(run: GenerateRun) -> Attributes:
    generation = run.generation
    found: Attributes = {
        names.REQUEST_MODEL: generation.model,
        names.FINISH_REASONS: generation.finish_reason and (generation.finish_reason,),
        names.INPUT_TOKENS: generation.usage and generation.usage.input_tokens,
        names.OUTPUT_TOKENS: generation.usage and generation.usage.output_tokens,
        names.ANSWER_LENGTH: None if generation.answer is None else len(generation.answer),
    }
    return {names.OPERATION_NAME: "chat"} | {name: value for name, value in found.items() if value is not None}


def _versions(versions: Mapping[str, str]) -> Attributes:
    return {f"{names.VERSION}.{component}": version for component, version in versions.items()}
