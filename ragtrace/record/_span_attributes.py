"""Attributes of spans: ids, scores and counts by our own names, OpenTelemetry's GenAI names and, on request,
OpenInference's for all stages, as Phoenix and other tools read them.

Content stands on no span unless `span_content` asks for it, and then as the capture policy leaves it. OpenInference has
no kind for packing: it is a CHAIN, the convention's kind for a step that links others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
from opentelemetry.trace import Span

from ragtrace import prompts
from ragtrace.config import Config
from ragtrace.record import conventions as names
from ragtrace.record._spans import Attributes, room
from ragtrace.record.content import ContentPolicy, packed_of
from ragtrace.types import (
    Candidate,
    GenerateRun,
    HostGrades,
    PackedChunk,
    Packing,
    PackRun,
    RerankRun,
    RetrieveRun,
    SampledRanking,
    StageRun,
)

__all__ = ["Descriptions"]

_encode: Final = msgspec.json.Encoder().encode
_KINDS: Final = {
    "retrieve": ("retrieval", "RETRIEVER"),
    "rerank": ("rerank", "RERANKER"),
    "pack": ("pack", "CHAIN"),
    "generate": ("chat", "LLM"),
}
"""Of each stage its name as an operation, and its kind for OpenInference."""
_TEXT: Final = "text/plain"
_JSON: Final = "application/json"


class _Surroundings(Protocol):
    """The request around a stage."""

    query: str | None
    query_class: str | None
    session_id: str | None
    head_sampled: bool
    head_probability: float
    cites: bool | None
    sampled_ranking: SampledRanking | None
    graded: HostGrades | None
    flags: dict[str, None]
    versions: dict[str, str]

    @property
    def request_id(self) -> str:
        """Its id."""

    @property
    def service(self) -> str:
        """The application that it belongs to."""

    @property
    def segment_label(self) -> str:
        """Its segment."""

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
        self.are_short = not (self._openinference or self._content)
        """Whether ids, ranks and scores are all that is told of what stages returned."""

    def request(self, request: _Surroundings, span: Span | None, *, outlined: bool = False) -> Attributes:
        """Of a request's span; `outlined` without content."""
        is_told = self._content and self._openinference and not outlined
        content = self._of_request(request) if is_told else _NO_CONTENT
        found = _openinference_request(request.session_id, content) if self._openinference else _NOTHING
        return self._joined(_request(request), found, span)

    def outline(self, stage: str, session_id: str | None, known: Attributes) -> Attributes:
        """Of a stage's span, where what it returned is not read."""
        operation, kind = _KINDS[stage]
        found = _identity(kind, session_id) if self._openinference else {}
        if self._gen_ai:
            found[names.OPERATION_NAME] = operation
        for name, value in known.items():
            if value is not None and (self._gen_ai or not name.startswith(names.GEN_AI)):
                found[name] = value
        return found

    def part(self, request_id: str, session_id: str | None, span: Span | None) -> Attributes:
        """Of the span of a request inside a request."""
        found = _openinference_chain(session_id) if self._openinference else _NOTHING
        return self._joined({names.REQUEST_ID: request_id}, found, span)

    def stage(self, run: StageRun, request: _Surroundings, span: Span | None, source: str | None = None) -> Attributes:
        """Of a stage's span."""
        content = self._of_stage(run, request) if self._content else _NO_CONTENT
        own = _stage(run, source) | _messages(run, content)
        found = _NOTHING
        if self._openinference:
            found = _openinference_stage(run, content, request.session_id, request.versions)
        return self._joined(own, found, span)

    def retrieval(
        self, ids: Sequence[str], scores: Sequence[float | None], top_k: int | None, source: str | None
    ) -> Attributes:
        """Of a retriever's span, where descriptions are short, as all below."""
        return self._joined(_retrieval(ids, scores, top_k, source), _NOTHING, None)

    def reranking(
        self,
        kept: Sequence[str],
        scores: Sequence[float | None],
        inputs: int,
        before: Sequence[int],
        lost: Sequence[str],
    ) -> Attributes:
        """Of a reranker's: what it kept, with its scores and ranks before, of so many inputs; what it lost."""
        return self._joined(_reranking(kept, scores, inputs, before, lost), _NOTHING, None)

    def packing(self, packing: Packing) -> Attributes:
        """Of a packer's."""
        return self._joined(_packing(packing), _NOTHING, None)

    def _joined(self, own: Attributes, found: _Found, span: Span | None) -> Attributes:
        if not self._gen_ai:
            own = {name: value for name, value in own.items() if not name.startswith(names.GEN_AI)}
        identity = dict(reversed(own.items())) | found.attributes
        if not found.documents:
            return identity
        documents, left_out = _fit(found.documents, room(span) - len(identity) - 1)
        return documents | identity | ({names.DOCUMENTS_LEFT_OUT: left_out} if left_out else {})

    def _of_request(self, request: _Surroundings) -> _Content:
        answers = [run.generation.answer for run in request.runs if isinstance(run, GenerateRun) and run.is_known]
        return _Content(
            query=self._policy.text("query", request.query),
            answer=self._policy.text("answer", answers[-1]) if answers else None,
        )

    def _of_stage(self, run: StageRun, request: _Surroundings) -> _Content:
        """What is kept of the content of a stage."""
        if isinstance(run, RetrieveRun):
            kept = self._policy.finish_run(run, [])
            assert isinstance(kept, RetrieveRun)
            return _Content(query=kept.query, candidates=_by_id([kept]))
        if isinstance(run, PackRun):
            kept = self._policy.finish_run(run, [])
            return _Content(packed=packed_of([kept]))
        if isinstance(run, GenerateRun):
            return self._of_generation(run, request)
        found = [each for each in request.runs if isinstance(each, RetrieveRun)] if self._openinference else []
        return _Content(
            query=self._policy.text("query", request.query),
            candidates=_by_id(self._policy.finish_run(each, []) for each in found),
        )

    def _of_generation(self, run: GenerateRun, request: _Surroundings) -> _Content:
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
                return _Content(prompt=prompt, answer=kept.generation.answer)
        return _Content(prompt=prompt, answer=kept.generation.answer)


def _by_id(runs: Iterable[StageRun]) -> dict[str, Candidate]:
    return {each.chunk_id: each for run in runs if isinstance(run, RetrieveRun) for each in run.candidates}


def _messages(run: StageRun, content: _Content) -> Attributes:
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


def _request(request: _Surroundings) -> Attributes:
    attributes: Attributes = {
        names.REQUEST_ID: request.request_id,
        names.REQUEST_SERVICE: request.service,
        names.REQUEST_SEGMENT: request.segment_label,
        names.REQUEST_HEAD_SAMPLED: request.head_sampled,
        names.REQUEST_HEAD_PROBABILITY: request.head_probability,
    }
    if request.query_class is not None:
        attributes[names.REQUEST_QUERY_CLASS] = request.query_class
    if request.session_id is not None:
        attributes[names.SESSION_ID] = request.session_id
    if request.cites is not None:
        attributes[names.CITES] = request.cites
    if request.sampled_ranking is not None:
        attributes[names.RANKING_ALPHA] = request.sampled_ranking.alpha
        attributes[names.RANKING_LOG_PROBABILITY] = request.sampled_ranking.log_probability
        attributes[names.RANKING_PLACES] = request.sampled_ranking.places
    if request.graded is not None:
        attributes |= _graded(request.graded)
    if request.flags:
        attributes[names.REQUEST_FLAGS] = tuple(request.flags)
    return attributes | _versions(request.versions)


def _graded(said: HostGrades) -> Attributes:
    found: Attributes = {}
    if said.grades:
        found[names.GRADE_IDS] = [each.chunk_id for each in said.grades]
        found[names.GRADES] = [each.grade for each in said.grades]
    return found if said.action is None else found | {names.GRADE_ACTION: said.action}


def _stage(run: StageRun, source: str | None = None) -> Attributes:
    if isinstance(run, RetrieveRun):
        ids = [candidate.chunk_id for candidate in run.candidates]
        return _retrieval(ids, [candidate.score for candidate in run.candidates], run.top_k, source)
    if isinstance(run, RerankRun):
        kept = [move for move in run.moves if move.rank_after is not None]
        return _reranking(
            [move.chunk_id for move in kept],
            [move.score for move in kept],
            sum(move.rank_before is not None for move in run.moves),
            [move.rank_before or 0 for move in kept],
            [move.chunk_id for move in run.moves if move.rank_after is None],
        )
    if isinstance(run, PackRun):
        return _packing(run.packing)
    return _generation(run)


class _Document(msgspec.Struct, gc=False):
    """As the GenAI conventions name its parts."""

    id: str
    score: float | None


def _retrieval(ids: Sequence[str], scores: Sequence[float | None], top_k: int | None, source: str | None) -> Attributes:
    documents = _encode([*map(_Document, ids, scores)])
    attributes: Attributes = {
        names.OPERATION_NAME: "retrieval",
        names.RETRIEVAL_DOCUMENTS: documents.decode(),
        names.RETRIEVAL_IDS: ids,
    }
    if None not in scores:
        attributes[names.RETRIEVAL_SCORES] = scores
    if top_k is not None:
        attributes[names.RETRIEVAL_TOP_K] = top_k
    if source is not None:
        attributes[names.RETRIEVAL_DATA_SOURCE] = source
    return attributes


def _reranking(
    kept: Sequence[str], scores: Sequence[float | None], inputs: int, before: Sequence[int], lost: Sequence[str]
) -> Attributes:
    attributes: Attributes = {
        names.OPERATION_NAME: "rerank",
        names.RERANK_INPUT_COUNT: inputs,
        names.RERANK_IDS: kept,
        names.RERANK_RANKS_BEFORE: before,
        names.RERANK_DROPPED_IDS: lost,
    }
    if None not in scores:
        attributes[names.RERANK_SCORES] = scores
    return attributes


def _packing(packing: Packing) -> Attributes:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What a span may say of content; nothing by default."""

    query: str | None = None
    candidates: Mapping[str, Candidate] = field(default_factory=dict)
    packed: Sequence[PackedChunk] = ()
    prompt: str | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """The attributes of a span: one group per document, the most important first, and all others."""

    attributes: Attributes = field(default_factory=dict)
    documents: Sequence[Attributes] = ()


_NO_CONTENT: Final = _Content()


_NOTHING: Final = _Found()


def _fit(documents: Sequence[Attributes], room: int) -> tuple[Attributes, int]:
    """As many whole documents as `room` attributes hold, the most important one last, and how many are left out."""
    count, size = 0, 0
    for document in documents:
        size += len(document)
        if size > room:
            break
        count += 1
    kept = [attribute for document in reversed(documents[:count]) for attribute in document.items()]
    return dict(kept), len(documents) - count


def _openinference_request(session_id: str | None, content: _Content) -> _Found:
    """Of a request's span."""
    return _Found(_values(content.query, content.answer) | _openinference_chain(session_id).attributes)


def _openinference_chain(session_id: str | None) -> _Found:
    """Of a span that links others."""
    return _Found(_identity("CHAIN", session_id))


def _openinference_stage(
    run: StageRun, content: _Content, session_id: str | None, versions: Mapping[str, str]
) -> _Found:
    """Of a stage's span."""
    if isinstance(run, RetrieveRun):
        documents = [
            _document(names.DOCUMENTS, place, candidate.chunk_id, candidate.score, content)
            for place, candidate in enumerate(run.candidates)
        ]
        return _Found(_values(content.query, None) | _identity("RETRIEVER", session_id), documents)
    if isinstance(run, RerankRun):
        return _openinference_reranking(run, content, session_id, versions)
    if isinstance(run, PackRun):
        return _Found(_packed(content) | _identity("CHAIN", session_id))
    return _Found(_openinference_generation(run, content) | _identity("LLM", session_id))


def _identity(kind: str, session_id: str | None) -> Attributes:
    found: Attributes = {} if session_id is None else {names.SESSION_ID: session_id}
    return found | {names.SPAN_KIND: kind}


def _values(given: str | None, returned: str | None, kind: str = _TEXT) -> Attributes:
    found: Attributes = {}
    if given:
        found |= {names.INPUT_VALUE: given, names.INPUT_TYPE: _TEXT}
    if returned:
        found |= {names.OUTPUT_VALUE: returned, names.OUTPUT_TYPE: kind}
    return found


def _document(prefix: str, place: int, chunk_id: str, score: float | None, content: _Content) -> Attributes:
    found: Attributes = {f"{prefix}.{place}.{names.DOCUMENT_ID}": chunk_id}
    if score is not None:
        found[f"{prefix}.{place}.{names.DOCUMENT_SCORE}"] = score
    kept = content.candidates.get(chunk_id)
    if kept is not None and kept.text:
        found[f"{prefix}.{place}.{names.DOCUMENT_CONTENT}"] = kept.text
    if kept is not None and kept.metadata:
        found[f"{prefix}.{place}.{names.DOCUMENT_METADATA}"] = _encode(kept.metadata).decode()
    return found


def _openinference_reranking(
    run: RerankRun, content: _Content, session_id: str | None, versions: Mapping[str, str]
) -> _Found:
    kept = [move for move in run.moves if move.rank_after is not None]
    given = sorted((move for move in run.moves if move.rank_before is not None), key=lambda move: move.rank_before or 0)
    outputs = [
        _document(names.RERANKER_OUTPUTS, place, move.chunk_id, move.score, content) for place, move in enumerate(kept)
    ]
    inputs = [_document(names.RERANKER_INPUTS, place, move.chunk_id, None, content) for place, move in enumerate(given)]
    attributes: Attributes = {names.RERANKER_TOP_K: len(kept)}
    if content.query:
        attributes[names.RERANKER_QUERY] = content.query
    if "reranker" in versions:
        attributes[names.RERANKER_MODEL] = versions["reranker"]
    return _Found(attributes | _values(content.query, None) | _identity("RERANKER", session_id), [*outputs, *inputs])


def _packed(content: _Content) -> Attributes:
    """The chunks in prompt order."""
    if not content.packed:
        return {}
    chunks = [{"id": chunk.chunk_id, "content": chunk.text} for chunk in content.packed]
    return _values(None, _encode(chunks).decode(), _JSON)


def _openinference_generation(run: GenerateRun, content: _Content) -> Attributes:
    usage = run.generation.usage
    counts = (usage.input_tokens, usage.output_tokens) if usage is not None else (None, None)
    found = {
        names.LLM_MODEL: run.generation.model,
        names.PROMPT_TOKENS: counts[0],
        names.COMPLETION_TOKENS: counts[1],
        names.TOTAL_TOKENS: None if counts[0] is None or counts[1] is None else counts[0] + counts[1],
    }
    messages = [
        *_openinference_message(names.LLM_INPUT, "user", content.prompt),
        *_openinference_message(names.LLM_OUTPUT, "assistant", content.answer),
    ]
    known = {name: value for name, value in found.items() if value is not None}
    return dict(messages) | _values(content.prompt, content.answer) | known


def _openinference_message(prefix: str, role: str, text: str | None) -> Iterable[tuple[str, str]]:
    if text:
        yield f"{prefix}.0.{names.MESSAGE_ROLE}", role
        yield f"{prefix}.0.{names.MESSAGE_CONTENT}", text
