"""Spans as the tests of the receiver make them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ragtrace.receive._assembly import assemble
from ragtrace.receive._spans import ReceivedSpan
from ragtrace.types import RequestRecord

TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(number: int, parent: int | None = None, **given: Any) -> ReceivedSpan:
    """A span of the one trace; its id and its times come from its number."""
    defaults: dict[str, Any] = {
        "trace_id": TRACE,
        "span_id": f"{number:016x}",
        "parent_id": None if parent is None else f"{parent:016x}",
        "name": f"span {number}",
        "started_at": 1_000 * number,
        "ended_at": 1_000 * number + 500,
        "resource": {"service.name": "assistant"},
    }
    return ReceivedSpan(**defaults | given)


def retriever(number: int, parent: int | None, documents: Iterable[str], **given: Any) -> ReceivedSpan:
    """An OpenInference retriever's span."""
    attributes: dict[str, Any] = {"openinference.span.kind": "RETRIEVER", "input.value": "What is the tariff?"}
    for place, text in enumerate(documents):
        attributes[f"retrieval.documents.{place}.document.id"] = f"chunk-{place}"
        attributes[f"retrieval.documents.{place}.document.content"] = text
    return span(number, parent, attributes=attributes, **given)


def model(number: int, parent: int | None, prompt: str, answer: str, **given: Any) -> ReceivedSpan:
    """An OpenInference language model's span."""
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "tiny",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": prompt,
        "llm.output_messages.0.message.content": answer,
    }
    return span(number, parent, attributes=attributes, **given)


def assembled(spans: Iterable[ReceivedSpan]) -> RequestRecord:
    """The record of spans that are known to make one."""
    record = assemble(spans)
    assert record is not None
    return record
