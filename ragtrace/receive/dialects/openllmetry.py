"""OpenLLMetry, as Traceloop's instrumentations write it: entities with JSON inputs and outputs, GenAI attributes on
calls of models (flattened in older versions), results of vector databases as events.

Source: https://github.com/traceloop/openllmetry, packages/opentelemetry-semantic-conventions-ai.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ragtrace.receive._grades import graded_by_step
from ragtrace.receive._spans import (
    NOTHING,
    Attributes,
    ReceivedSpan,
    Reranked,
    Retrieved,
    SpanGeneration,
    SpanReading,
    Step,
    grouped,
    has_gaps,
    identifier,
    jsonish,
    listed,
    mapping,
    number,
    question_in,
    text,
    usage,
    whole,
)
from ragtrace.receive.dialects import genai
from ragtrace.record import conventions as names

__all__ = ["name", "read", "recognizes"]

name: Final = "OpenLLMetry"

_KIND: Final = "traceloop.span.kind"
_NAME: Final = "traceloop.entity.name"
_INPUT: Final = "traceloop.entity.input"
_OUTPUT: Final = "traceloop.entity.output"
_PROPERTIES: Final = "traceloop.association.properties."
_PROMPT, _COMPLETION = "gen_ai.prompt", "gen_ai.completion"  # flattened: gen_ai.prompt.0.content
_VECTOR: Final = "db.vector.query.top_k"
_RESULTS: Final = ("db.query.result", "db.search.result", "db.pinecone.query.result")
_RETRIEVAL: Final = "vector_db_retrieve"
_TYPE: Final = "llm.request.type"
_FLATTENED: Final = (f"{_PROMPT}.", f"{_COMPLETION}.")
_RANKED: Final = re.compile(r"Doc (?P<place>\d{1,8}), Score: (?P<score>[-+.\de]+)(?:\n(?P<text>.*))?", re.DOTALL)
"""A completion of Cohere's reranker."""


def recognizes(span: ReceivedSpan) -> bool:
    """An entity, a flattened prompt, which a limit on attributes may have cut, or a query of a vector database."""
    given = span.attributes
    return (
        _KIND in given
        or f"{_PROMPT}.0.content" in given
        or _TYPE in given
        or "traceloop.workflow.name" in given
        or any(event.name in _RESULTS for event in span.events)
        or (span.dropped > 0 and _is_flattened(given))
    )


def _is_flattened(given: Attributes) -> bool:
    return any(name.startswith(_FLATTENED) for name in given)


def read(span: ReceivedSpan) -> SpanReading:
    """By what the span holds."""
    given = span.attributes
    about: dict[str, Any] = {
        "session_id": text(given, f"{_PROPERTIES}session_id", f"{_PROPERTIES}chat_id", "gen_ai.conversation.id"),
        "tenant_id": text(given, f"{_PROPERTIES}tenant_id"),
    }
    step = _step(span)
    if step is not None:
        query = step.query if isinstance(step, Retrieved) else None
        if isinstance(step, Reranked):
            query = next((each["content"] for each in reversed(_asked(given).values()) if each["role"] == "user"), None)
            about["versions"] = {"reranker": model} if (model := text(given, names.REQUEST_MODEL)) else {}
        return SpanReading(step=step, question=query, **about)
    if _KIND not in given or (given[_KIND] == "tool" and span.parent_id):
        return NOTHING
    name, asked, said = text(given, _NAME) or span.name, given.get(_INPUT), given.get(_OUTPUT)
    if span.parent_id and (graded := graded_by_step(name, asked, said)) is not None:
        return SpanReading(graded=(graded,), **about)
    asked, said = jsonish(asked), jsonish(said)
    answer = said.get("outputs", said) if isinstance(said, dict) else said
    answer = text(answer, "answer", "response", "result", "output") if isinstance(answer, dict) else answer
    return SpanReading(question=question_in(asked), answer=answer if isinstance(answer, str) else None, **about)


def _step(span: ReceivedSpan) -> Step | None:
    attributes = span.attributes
    if any(event.name in _RESULTS for event in span.events):
        query = text(attributes, "db.query.text", "db.statement")
        is_cut = bool(span.dropped_events)
        return Retrieved(query=query, found=_results(span), top_k=whole(attributes, _VECTOR), incomplete=is_cut)
    if attributes.get(_TYPE) == "rerank":
        return _reranked(attributes, _ranked(attributes))
    if _is_generation(attributes) or (span.dropped and _is_flattened(attributes)):
        # a limit on attributes takes the type first
        ranked = _ranked(attributes) if span.dropped and _TYPE not in attributes else []
        return _reranked(attributes, ranked) if ranked else _generated(span)
    asked, said = jsonish(attributes.get(_INPUT)), jsonish(attributes.get(_OUTPUT))
    if attributes.get(names.OPERATION_NAME) == _RETRIEVAL:
        return Retrieved(query=question_in(asked), found=listed(said, "documents"))
    nodes = _nodes(said)
    if nodes and isinstance(asked, dict):
        before = _nodes(asked.get("nodes"))
        if before:
            return Reranked(given=before, kept=nodes)
        return Retrieved(query=question_in(asked), found=nodes)
    if isinstance(said, dict) and "additional_kwargs" in said and isinstance(said.get("text"), str):
        return SpanGeneration(prompt=question_in(asked), answer=said["text"])
    return None


def _is_generation(given: Attributes) -> bool:
    return (
        f"{_PROMPT}.0.content" in given or names.INPUT_MESSAGES in given or given.get(_TYPE) in ("chat", "completion")
    )


def _generated(span: ReceivedSpan) -> SpanGeneration:
    standard = genai.generated(span)
    attributes = span.attributes
    messages = _asked(attributes)
    asked = [message for message in messages.values() if message["content"]]
    said = [_message(group)["content"] for group in grouped(attributes, _COMPLETION).values()]
    first = next((content for content in said if content), None)
    return SpanGeneration(
        prompt=asked or standard.prompt,
        answer=first or standard.answer,
        model=standard.model,
        usage=standard.usage
        or usage(whole(attributes, "llm.usage.prompt_tokens"), whole(attributes, "llm.usage.completion_tokens")),
        finish_reason=standard.finish_reason or text(attributes, f"{_COMPLETION}.0.finish_reason"),
        incomplete=has_gaps(messages) if messages else standard.incomplete,
    )


def _asked(given: Attributes) -> dict[int, dict[str, str]]:
    """The messages of a flattened prompt, by their places."""
    return {place: _message(each) for place, each in grouped(given, _PROMPT).items()}


def _ranked(attributes: Attributes) -> list[re.Match[str]]:
    """What a reranker returned, as completions; nothing where one of them says anything else."""
    matches = [_RANKED.fullmatch(_message(group)["content"]) for group in grouped(attributes, _COMPLETION).values()]
    read = [match for match in matches if match]
    return read if len(read) == len(matches) else []


def _reranked(attributes: Attributes, ranked: list[re.Match[str]]) -> Reranked:
    """Documents are the prompt's messages but the user's, which is the query."""
    asked = _asked(attributes)
    before = {
        place: message["content"]
        for place, message in asked.items()
        if message["role"] != "user" and message["content"]
    }
    kept = [
        {"text": match["text"] or before.get(int(match["place"])), "score": number(match["score"])} for match in ranked
    ]
    named = [candidate for candidate in kept if candidate["text"]]
    return Reranked(
        given=[{"text": content} for content in before.values()] or None,
        kept=named or None,
        incomplete=len(named) < len(kept) or has_gaps(asked),
    )


def _message(message: dict[str, Any]) -> dict[str, str]:
    content = jsonish(message.get("content"))
    if isinstance(content, list):
        parts = [part.get("text", part.get("content")) for part in content if isinstance(part, dict)]
        content = "".join(words for words in parts if isinstance(words, str))
    elif not isinstance(content, str):
        content = message.get("content")
    return {"role": str(message.get("role") or "user"), "content": content if isinstance(content, str) else ""}


def _results(span: ReceivedSpan) -> list[dict[str, Any]]:
    """What a vector database returned, one event each."""
    found = []
    for event in span.events:
        if event.name in _RESULTS:
            values = {key.rpartition(".")[2]: value for key, value in event.attributes.items()}
            document = {
                "id": identifier(values.get("id")),
                "text": text(values, "document", "text"),
                "score": number(values.get("score")),
                "distance": number(values.get("distance")),
                "metadata": mapping(values.get("metadata")) or None,
            }
            kept = {key: value for key, value in document.items() if value is not None}
            if kept.keys() & {"id", "text"}:
                found.append(kept)
    return found


def _nodes(value: Any) -> list[dict[str, Any]]:
    """LlamaIndex's scored nodes, each written as JSON."""
    items = [jsonish(each) for each in value] if isinstance(value, list) else []
    found = []
    for each in items:
        node = each.get("node") if isinstance(each, dict) else None
        if isinstance(node, dict) and isinstance(node.get("id_"), str):
            said = text(node, "text") or text(mapping(node.get("text_resource")), "text")
            score, metadata = number(each.get("score")), mapping(node.get("metadata"))
            document = {"id": node["id_"], "text": said, "score": score, "metadata": metadata}
            found.append({key: value for key, value in document.items() if value not in (None, {})})
    return found
