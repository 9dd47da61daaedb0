"""What spans say: ids, scores and counts by our own names and OpenTelemetry's GenAI names; on request, more.

Content stands on no span unless `span_content` asks for it, and then as the capture policy leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec
from opentelemetry.trace import Span

from ragtrace import prompts
from ragtrace.config import Config
from ragtrace.record import conventions as names
from ragtrace.record import openinference
from ragtrace.record.content import ContentPolicy, packed_of
from ragtrace.record.openinference import NO_CONTENT, NOTHING, Content, Found, fit
from ragtrace.record.spans import Attributes, room
from ragtrace.types import (
    Candidate,
    GenerateRun,
    PackRun,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageRun,
)

__all__ = ["Descriptions", "Surroundings"]

_encode: Final = msgspec.json.Encoder().encode


class Surroundings(Protocol):
    """The request around a stage."""

    query: str | None
    session_id: str | None
    versions: dict[str, str]

    @property
    def runs(self) -> list[StageRun]:
        """Its runs that have ended."""


class Descriptions:
    """Attributes of spans in the vocabularies that are asked for.

    A span takes so many attributes and drops its oldest ones then; so what identifies the span is set last, and the
    documents of OpenInference, several attributes each, are as many as there is room for, the best ones.
    """

    def __init__(self, config: Config, policy: ContentPolicy) -> None:
        self._policy = policy
        self._gen_ai = "gen_ai" in config.span_vocabularies
        self._openinference = "openinference" in config.span_vocabularies
        self._content = config.span_content

    def request(self, record: RequestRecord, request: Surroundings, span: Span | None) -> Attributes:
        """Of a request's span."""
        content = self._of_request(request) if self._content and self._openinference else NO_CONTENT
        found = openinference.request(record, content) if self._openinference else NOTHING
        return self._joined(_request(record), found, span)

    def part(self, request_id: str, session_id: str | None, span: Span | None) -> Attributes:
        """Of the span of a request inside a request."""
        found = openinference.chain(session_id) if self._openinference else NOTHING
        return self._joined({names.REQUEST_ID: request_id}, found, span)

    def stage(self, run: StageRun, request: Surroundings, span: Span | None, source: str | None = None) -> Attributes:
        """Of a stage's span."""
        content = self._of_stage(run, request) if self._content else NO_CONTENT
        own = _stage(run, source) | _messages(run, content)
        found = NOTHING
        if self._openinference:
            found = openinference.stage(run, content, request.session_id, request.versions)
        return self._joined(own, found, span)

    def _joined(self, own: Attributes, found: Found, span: Span | None) -> Attributes:
        if not self._gen_ai:
            own = {name: value for name, value in own.items() if not name.startswith(names.GEN_AI)}
        identity = dict(reversed(own.items())) | found.attributes
        if not found.documents:
            return identity
        documents, left_out = fit(found.documents, room(span) - len(identity) - 1)
        return documents | identity | ({names.DOCUMENTS_LEFT_OUT: left_out} if left_out else {})

    def _of_request(self, request: Surroundings) -> Content:
        answers = [run.generation.answer for run in request.runs if isinstance(run, GenerateRun) and run.is_known]
        return Content(
            query=self._policy.text("query", request.query),
            answer=self._policy.text("answer", answers[-1]) if answers else None,
        )

    def _of_stage(self, run: StageRun, request: Surroundings) -> Content:
        """What is kept of the content of a stage."""
        if isinstance(run, RetrieveRun):
            kept = self._policy.finish_run(run, [])
            assert isinstance(kept, RetrieveRun)
            return Content(query=kept.query, candidates=_by_id([kept]))
        if isinstance(run, PackRun):
            kept = self._policy.finish_run(run, [])
            return Content(packed=packed_of([kept]))
        if isinstance(run, GenerateRun):
            return self._of_generation(run, request)
        found = [each for each in request.runs if isinstance(each, RetrieveRun)] if self._openinference else []
        return Content(
            query=self._policy.text("query", request.query),
            candidates=_by_id(self._policy.finish_run(each, []) for each in found),
        )

    def _of_generation(self, run: GenerateRun, request: Surroundings) -> Content:
        """The prompt with the chunks as far as their texts are kept; else their placeholders stand in it."""
        runs = request.runs
        chunks = self._policy.cut_out(runs)
        kept = self._policy.finish_run(run, chunks)
        assert isinstance(kept, GenerateRun)
        prompt = kept.generation.prompt_template
        if not chunks and self._policy.hides_chunks:
            prompt = None  # its chunks may have been packed in another process
        if prompt is not None:
            packed = packed_of([self._policy.finish_run(each, []) for each in runs if isinstance(each, PackRun)])
            try:
                prompt = prompts.rebuild(prompt, packed)
            except ValueError:  # a chunk's text is not kept
                return Content(prompt=prompt, answer=kept.generation.answer)
        return Content(prompt=prompt, answer=kept.generation.answer)


def _by_id(runs: Iterable[StageRun]) -> dict[str, Candidate]:
    return {each.chunk_id: each for run in runs if isinstance(run, RetrieveRun) for each in run.candidates}


def _messages(run: StageRun, content: Content) -> Attributes:
    """Content by GenAI names."""
    if isinstance(run, RetrieveRun) and content.query:
        return {names.RETRIEVAL_QUERY: content.query}
    found: Attributes = {}
    if isinstance(run, GenerateRun):
        finish = {"finish_reason": run.generation.finish_reason or "unknown"}
        if content.prompt:
            found[names.INPUT_MESSAGES] = _message("user", content.prompt, {})
        if content.answer:
            found[names.OUTPUT_MESSAGES] = _message("assistant", content.answer, finish)
    return found


def _message(role: str, text: str, more: Mapping[str, str]) -> str:
    return _encode([{"role": role, "parts": [{"type": "text", "content": text}], **more}]).decode()


def _request(record: RequestRecord) -> Attributes:
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
    if record.cites is not None:
        attributes[names.CITES] = record.cites
    if record.flags:
        attributes[names.REQUEST_FLAGS] = record.flags
    return attributes | _versions(record.versions)


def _stage(run: StageRun, source: str | None = None) -> Attributes:
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
        names.PACK_DROPPED_REASONS: [chunk.why for chunk in packing.dropped],
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
