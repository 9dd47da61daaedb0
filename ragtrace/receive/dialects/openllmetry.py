"""OpenLLMetry, as Traceloop's instrumentations write it: entities with JSON inputs and outputs, GenAI attributes on
calls of models (flattened in older versions), results of vector databases as events.

Source: https://github.com/traceloop/openllmetry, packages/opentelemetry-semantic-conventions-ai.
"""

from __future__ import annotations

from typing import Any, Final

from ragtrace.receive.dialects import genai
from ragtrace.receive.reading import NOTHING, Generated, Reading, Reranked, Retrieved, Step
from ragtrace.receive.spans import Attributes, ReceivedSpan
from ragtrace.receive.values import grouped, identifier, jsonish, mapping, number, question_in, text, usage, whole
from ragtrace.record import conventions as names

__all__ = ["name", "read", "recognizes"]

name: Final = "OpenLLMetry"

_KIND: Final = "traceloop.span.kind"
_INPUT: Final = "traceloop.entity.input"
_OUTPUT: Final = "traceloop.entity.output"
_PROPERTIES: Final = "traceloop.association.properties."
_PROMPT, _COMPLETION = "gen_ai.prompt", "gen_ai.completion"  # flattened: gen_ai.prompt.0.content
_USAGE: Final = "llm.usage."
_VECTOR: Final = "db.vector.query.top_k"
_RESULTS: Final = ("db.query.result", "db.search.result", "db.pinecone.query.result")
_RETRIEVAL: Final = "vector_db_retrieve"


def recognizes(span: ReceivedSpan) -> bool:
    """An entity, a flattened prompt, or a query of a vector database."""
    given = span.attributes
    return (
        _KIND in given
        or f"{_PROMPT}.0.content" in given
        or "llm.request.type" in given
        or "traceloop.workflow.name" in given
        or any(event.name in _RESULTS for event in span.events)
    )


def read(span: ReceivedSpan) -> Reading:
    """By what the span holds."""
    given = span.attributes
    about: dict[str, Any] = {
        "session_id": text(given, f"{_PROPERTIES}session_id", f"{_PROPERTIES}chat_id", "gen_ai.conversation.id"),
        "tenant_id": text(given, f"{_PROPERTIES}tenant_id"),
    }
    step = _step(span)
    if step is not None:
        query = step.query if isinstance(step, Retrieved) else None
        return Reading(step=step, question=query, **about)
    if _KIND not in given:
        return NOTHING
    asked, said = jsonish(given.get(_INPUT)), jsonish(given.get(_OUTPUT))
    answer = said.get("outputs", said) if isinstance(said, dict) else said
    answer = text(answer, "answer", "response", "result", "output") if isinstance(answer, dict) else answer
    return Reading(question=question_in(asked), answer=answer if isinstance(answer, str) else None, **about)


def _step(span: ReceivedSpan) -> Step | None:
    given = span.attributes
    if any(event.name in _RESULTS for event in span.events):
        query = text(given, "db.query.text", "db.statement")
        return Retrieved(query=query, found=_results(span), top_k=whole(given, _VECTOR), incomplete=bool(span.dropped))
    if _is_generation(given):
        return _generated(span)
    asked, said = jsonish(given.get(_INPUT)), jsonish(given.get(_OUTPUT))
    if given.get(names.OPERATION_NAME) == _RETRIEVAL:
        return Retrieved(query=question_in(asked), found=_documents(said), incomplete=bool(span.dropped))
    nodes = _nodes(said)
    if nodes and isinstance(asked, dict):
        before = _nodes(asked.get("nodes"))
        if before:
            return Reranked(given=before, kept=nodes, incomplete=bool(span.dropped))
        return Retrieved(query=question_in(asked), found=nodes, incomplete=bool(span.dropped))
    if isinstance(said, dict) and "additional_kwargs" in said and isinstance(said.get("text"), str):
        return Generated(prompt=question_in(asked), answer=said["text"])
    return None


def _is_generation(given: Attributes) -> bool:
    return (
        f"{_PROMPT}.0.content" in given
        or names.INPUT_MESSAGES in given
        or given.get("llm.request.type") in ("chat", "completion")
    )


def _generated(span: ReceivedSpan) -> Generated:
    found = genai.generated(span)
    given = span.attributes
    asked = [_message(each) for each in grouped(given, _PROMPT).values()]
    said = [_message(each)["content"] for each in grouped(given, _COMPLETION).values()]
    first = next((each for each in said if each), None)
    prompt = [each for each in asked if each["content"]] or found.prompt
    return Generated(
        prompt=prompt,
        answer=first or found.answer,
        model=found.model,
        usage=found.usage
        or usage(whole(given, "llm.usage.prompt_tokens"), whole(given, "llm.usage.completion_tokens")),
        finish_reason=found.finish_reason or text(given, f"{_COMPLETION}.0.finish_reason"),
    )


def _message(given: dict[str, Any]) -> dict[str, str]:
    content = jsonish(given.get("content"))
    if isinstance(content, list):
        parts = [each.get("text", each.get("content")) for each in content if isinstance(each, dict)]
        content = "".join(each for each in parts if isinstance(each, str))
    elif not isinstance(content, str):
        content = given.get("content")
    return {"role": str(given.get("role") or "user"), "content": content if isinstance(content, str) else ""}


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


def _documents(value: Any) -> list[Any]:
    found = value.get("documents") if isinstance(value, dict) else value
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


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
