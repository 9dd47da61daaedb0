"""One file per vocabulary of spans; the first dialect that recognizes a span reads it."""

from __future__ import annotations

from typing import Final

from ragtrace.receive._spans import NOTHING, Dialect, Packed, ReceivedSpan, Reranked, Retrieved, SpanReading, Step
from ragtrace.receive.dialects import genai, langfuse, openinference, openllmetry, own, trulens, vercel
from ragtrace.types import replace

__all__ = ["DIALECTS", "read_span"]

DIALECTS: Final[tuple[Dialect, ...]] = (own, openinference, openllmetry, langfuse, trulens, vercel, genai)
"""In this order: what carries two vocabularies is read by the one that says more."""


def read_span(span: ReceivedSpan) -> SpanReading:
    """What a span says; nothing where no dialect knows it. Evaluations are events that any span may have."""
    reading = next((dialect.read(span) for dialect in DIALECTS if dialect.recognizes(span)), NOTHING)
    if (step := reading.step) is not None and (span.dropped or _is_silent(step)):
        reading = replace(reading, step=_cut(step, span, reading))
    if not span.events:
        return reading
    judged, graded = genai.judgments(span), genai.graded(span)
    if not (judged or graded):
        return reading
    return replace(reading, judgments=(*reading.judgments, *judged), graded=(*reading.graded, *graded))


def _is_silent(step: Step) -> bool:
    """Whether the span does not say what came out."""
    return (isinstance(step, Retrieved) and step.found is None) or (isinstance(step, Reranked) and step.kept is None)


def _cut(step: Step, span: ReceivedSpan, reading: SpanReading) -> Step:
    """A stage of whose values some did not come: a limit took them away, or they were never put on the span.

    A retriever that failed returned nothing.
    """
    if isinstance(step, Packed):
        return step
    if isinstance(step, Retrieved) and step.found is None:
        is_failed = span.status == "error" or reading.error is not None
        return replace(step, found=(), incomplete=bool(span.dropped) or not is_failed)
    return replace(step, incomplete=True)
