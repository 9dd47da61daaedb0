"""The Vercel AI SDK's spans, as its OpenTelemetry integration writes them.

Source: https://ai-sdk.dev/docs/ai-sdk-core/telemetry.
"""

from __future__ import annotations

from typing import Any, Final

from ragtrace.receive._spans import (
    Attributes,
    ReceivedSpan,
    SpanGeneration,
    SpanReading,
    jsonish,
    mapping,
    question_in,
    text,
    usage,
    whole,
)
from ragtrace.receive.dialects.genai import messages

__all__ = ["name", "read", "recognizes"]

name: Final = "Vercel AI SDK"

_OPERATION: Final = "ai.operationId"
_CALLS: Final = (".doGenerate", ".doStream")
_EMBEDDINGS: Final = "ai.embed"


def recognizes(span: ReceivedSpan) -> bool:
    """Every span has an operation's id."""
    return _OPERATION in span.attributes


def read(span: ReceivedSpan) -> SpanReading:
    """By the operation: a call of the model, an embedding, or the function around them."""
    given = span.attributes
    operation = str(given.get(_OPERATION))
    session = text(given, "ai.telemetry.metadata.sessionId")
    if operation.endswith(_CALLS):
        return SpanReading(step=_generated(given), session_id=session)
    if operation.startswith(_EMBEDDINGS):
        model = text(given, "ai.model.id")
        return SpanReading(versions={"embedding": model} if model else {}, session_id=session)
    asked = mapping(given.get("ai.prompt"))
    question = question_in(asked.get("prompt", asked.get("messages")))
    return SpanReading(question=question, answer=_answer(given), session_id=session)


def _generated(given: Attributes) -> SpanGeneration:
    prompt: Any = messages(jsonish(given.get("ai.prompt.messages")))
    return SpanGeneration(
        prompt=prompt or None,
        answer=_answer(given),
        model=text(given, "ai.response.model", "ai.model.id"),
        usage=usage(
            whole(given, "ai.usage.inputTokens", "ai.usage.promptTokens"),
            whole(given, "ai.usage.outputTokens", "ai.usage.completionTokens"),
        ),
        finish_reason=text(given, "ai.response.finishReason"),
    )


def _answer(given: Attributes) -> str | None:
    return text(given, "ai.response.text", "ai.response.object")
