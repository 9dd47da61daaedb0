"""Langfuse's SDK, which writes OpenTelemetry spans since its version 3.

Source: https://github.com/langfuse/langfuse-python, langfuse/_client/attributes.py.
"""

from __future__ import annotations

from typing import Any, Final

from ragtrace.receive._grades import graded_by_step
from ragtrace.receive._spans import (
    Attributes,
    ReceivedSpan,
    Reranked,
    Retrieved,
    SpanGeneration,
    SpanReading,
    jsonish,
    listed,
    mapping,
    question_in,
    text,
    usage,
    whole,
)

__all__ = ["name", "read", "recognizes"]

name: Final = "Langfuse"

_TYPE: Final = "langfuse.observation.type"
_INPUT: Final = "langfuse.observation.input"
_OUTPUT: Final = "langfuse.observation.output"
_MODEL: Final = "langfuse.observation.model.name"
_USAGE: Final = "langfuse.observation.usage_details"
_LEVEL: Final = "langfuse.observation.level"
_MESSAGE: Final = "langfuse.observation.status_message"
_SILENT: Final = ("tool", "guardrail", "evaluator", "event")  # what these were given is no one's question
_DOCUMENTS: Final = ("documents", "results", "nodes", "chunks", "contexts")


def recognizes(span: ReceivedSpan) -> bool:
    """Every observation has a type."""
    return _TYPE in span.attributes


def read(span: ReceivedSpan) -> SpanReading:
    """By the observation's type."""
    attributes = span.attributes
    kind = attributes.get(_TYPE)
    about: dict[str, Any] = {
        "session_id": text(attributes, "session.id", "langfuse.session.id"),
        "tenant_id": text(attributes, "langfuse.trace.metadata.tenant_id", "langfuse.trace.metadata.tenant"),
    }
    if attributes.get(_LEVEL) == "ERROR":
        about["error"] = text(attributes, _MESSAGE) or "Langfuse's level is ERROR"
    if kind == "retriever" or (kind == "span" and _is_retriever(attributes)):
        query = question_in(attributes.get(_INPUT))
        step = Retrieved(query=query, found=listed(attributes.get(_OUTPUT), *_DOCUMENTS))
        return SpanReading(step=step, question=query, **about)
    if kind == "reranker":
        before, kept = (listed(attributes.get(name), *_DOCUMENTS) for name in (_INPUT, _OUTPUT))
        return SpanReading(step=Reranked(given=before or None, kept=kept), **about)
    if kind == "generation":
        return SpanReading(step=_generated(attributes), **about)
    if kind == "embedding":
        model = text(attributes, _MODEL)
        return SpanReading(versions={"embedding": model} if model else {}, **about)
    if span.parent_id and (found := graded_by_step(span.name, attributes.get(_INPUT), attributes.get(_OUTPUT))):
        return SpanReading(graded=(found,), **about)
    is_silent = kind in _SILENT and span.parent_id
    asked, said = (None, None) if is_silent else (attributes.get(_INPUT), attributes.get(_OUTPUT))
    question = question_in(attributes.get("langfuse.trace.input", asked))
    return SpanReading(question=question, answer=_answer(attributes.get("langfuse.trace.output", said)), **about)


def _is_retriever(given: Attributes) -> bool:
    """Before its version 3.3, LangChain's retrievers were spans as all else: a question in, documents out."""
    said = given.get(_OUTPUT)
    if not isinstance(said, str) or not said.startswith("[{") or '"page_content"' not in said:
        return False
    found = listed(said) or ()
    return isinstance(jsonish(given.get(_INPUT)), str) and all("page_content" in each for each in found)


def _generated(given: Attributes) -> SpanGeneration:
    prompt = jsonish(given.get(_INPUT))
    if isinstance(prompt, dict):
        prompt = prompt.get("messages", prompt.get("prompt"))
    counts = mapping(given.get(_USAGE))
    return SpanGeneration(
        prompt=prompt if isinstance(prompt, str | list) else None,
        answer=_answer(given.get(_OUTPUT)),
        model=text(given, _MODEL, "gen_ai.request.model"),
        usage=usage(
            whole(counts, "input", "input_tokens", "prompt_tokens"),
            whole(counts, "output", "output_tokens", "completion_tokens"),
        ),
    )


def _answer(value: Any) -> str | None:
    content = jsonish(value)
    if isinstance(content, list) and content:
        content = content[-1]
    if isinstance(content, dict):
        return text(content, "content", "answer", "text", "output", "response", "result")
    return content if isinstance(content, str) and content else None
