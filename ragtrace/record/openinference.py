"""Span attributes by OpenInference's conventions, for all stages, as Phoenix and other tools read them.

There is no kind for packing: it is a CHAIN, the convention's kind for a step that links others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ragtrace.record import conventions as names
from ragtrace.record.spans import Attributes
from ragtrace.types import Candidate, GenerateRun, PackedChunk, PackRun, RequestRecord, RerankRun, RetrieveRun, StageRun

__all__ = ["NOTHING", "NO_CONTENT", "Content", "Found", "chain", "fit", "request", "stage"]

_TEXT: Final = "text/plain"
_JSON: Final = "application/json"

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a span may say of content; nothing by default."""

    query: str | None = None
    candidates: Mapping[str, Candidate] = field(default_factory=dict)
    packed: Sequence[PackedChunk] = ()
    prompt: str | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The attributes of a span: one group per document, the most important first, and all others."""

    attributes: Attributes = field(default_factory=dict)
    documents: Sequence[Attributes] = ()


NO_CONTENT: Final = Content()
NOTHING: Final = Found()


def fit(documents: Sequence[Attributes], room: int) -> tuple[Attributes, int]:
    """As many whole documents as `room` attributes hold, the most important one last, and how many are left out."""
    count, size = 0, 0
    for document in documents:
        size += len(document)
        if size > room:
            break
        count += 1
    kept = [attribute for document in reversed(documents[:count]) for attribute in document.items()]
    return dict(kept), len(documents) - count


def request(record: RequestRecord, content: Content) -> Found:
    """Of a request's span."""
    return Found(_values(content.query, content.answer) | chain(record.session_id).attributes)


def chain(session_id: str | None) -> Found:
    """Of a span that links others."""
    return Found(_identity("CHAIN", session_id))


def stage(run: StageRun, content: Content, session_id: str | None, versions: Mapping[str, str]) -> Found:
    """Of a stage's span."""
    if isinstance(run, RetrieveRun):
        documents = [
            _document(names.DOCUMENTS, place, candidate.chunk_id, candidate.score, content)
            for place, candidate in enumerate(run.candidates)
        ]
        return Found(_values(content.query, None) | _identity("RETRIEVER", session_id), documents)
    if isinstance(run, RerankRun):
        return _reranking(run, content, session_id, versions)
    if isinstance(run, PackRun):
        return Found(_packed(content) | _identity("CHAIN", session_id))
    return Found(_generation(run, content) | _identity("LLM", session_id))


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


def _document(prefix: str, place: int, chunk_id: str, score: float | None, content: Content) -> Attributes:
    found: Attributes = {f"{prefix}.{place}.{names.DOCUMENT_ID}": chunk_id}
    if score is not None:
        found[f"{prefix}.{place}.{names.DOCUMENT_SCORE}"] = score
    kept = content.candidates.get(chunk_id)
    if kept is not None and kept.text:
        found[f"{prefix}.{place}.{names.DOCUMENT_CONTENT}"] = kept.text
    if kept is not None and kept.metadata:
        found[f"{prefix}.{place}.{names.DOCUMENT_METADATA}"] = _encode(kept.metadata).decode()
    return found


def _reranking(run: RerankRun, content: Content, session_id: str | None, versions: Mapping[str, str]) -> Found:
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
    return Found(attributes | _values(content.query, None) | _identity("RERANKER", session_id), [*outputs, *inputs])


def _packed(content: Content) -> Attributes:
    """The chunks in prompt order."""
    if not content.packed:
        return {}
    chunks = [{"id": chunk.chunk_id, "content": chunk.text} for chunk in content.packed]
    return _values(None, _encode(chunks).decode(), _JSON)


def _generation(run: GenerateRun, content: Content) -> Attributes:
    usage = run.generation.usage
    counts = (usage.input_tokens, usage.output_tokens) if usage is not None else (None, None)
    found = {
        names.LLM_MODEL: run.generation.model,
        names.PROMPT_TOKENS: counts[0],
        names.COMPLETION_TOKENS: counts[1],
        names.TOTAL_TOKENS: None if counts[0] is None or counts[1] is None else counts[0] + counts[1],
    }
    messages = [
        *_message(names.LLM_INPUT, "user", content.prompt),
        *_message(names.LLM_OUTPUT, "assistant", content.answer),
    ]
    known = {name: value for name, value in found.items() if value is not None}
    return dict(messages) | _values(content.prompt, content.answer) | known


def _message(prefix: str, role: str, text: str | None) -> Iterable[tuple[str, str]]:
    if text:
        yield f"{prefix}.0.{names.MESSAGE_ROLE}", role
        yield f"{prefix}.0.{names.MESSAGE_CONTENT}", text
