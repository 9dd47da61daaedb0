"""One file per vocabulary of spans; the first dialect that recognizes a span reads it."""

from __future__ import annotations

from typing import Final

from ragtrace.receive.dialects import genai, langfuse, openinference, openllmetry, own, trulens, vercel
from ragtrace.receive.reading import NOTHING, Dialect, Reading
from ragtrace.receive.spans import ReceivedSpan
from ragtrace.types import replace

__all__ = ["DIALECTS", "read_span"]

DIALECTS: Final[tuple[Dialect, ...]] = (own, openinference, openllmetry, langfuse, trulens, vercel, genai)
"""In this order: what carries two vocabularies is read by the one that says more."""


def read_span(span: ReceivedSpan) -> Reading:
    """What a span says; nothing where no dialect knows it. Evaluations are events that any span may have."""
    reading = next((dialect.read(span) for dialect in DIALECTS if dialect.recognizes(span)), NOTHING)
    judged = genai.judgements(span) if span.events else ()
    return replace(reading, judgements=(*reading.judgements, *judged)) if judged else reading
