"""TruLens' OpenTelemetry spans.

Source: https://github.com/truera/trulens, src/otel/semconv/trulens/otel/semconv/trace.py.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from ragtrace.receive._grades import graded_by_step
from ragtrace.receive._spans import (
    NOTHING,
    Attributes,
    GradedDocuments,
    Judgment,
    Packed,
    ReceivedSpan,
    Reranked,
    Retrieved,
    SpanGeneration,
    SpanReading,
    mapping,
    number,
    question_in,
    text,
    usage,
    whole,
)

__all__ = ["name", "read", "recognizes"]

name: Final = "TruLens"

_BASE: Final = "ai.observability."
_TYPE: Final = _BASE + "span_type"
_GIVEN: Final = _BASE + "call.kwargs."
_RETURNED: Final = _BASE + "call.return"
# A message as Python writes it: content='...'
_CONTENT: Final = re.compile(r"\b(?:page_)?content=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_CONTEXTS: Final = "retrieved_contexts"
_SETTINGS: Final = frozenset({"config", "run_manager", "stop", "kwargs"})


def recognizes(span: ReceivedSpan) -> bool:
    """Every span has a type."""
    return _TYPE in span.attributes


def read(span: ReceivedSpan) -> SpanReading:
    """By the span's type."""
    attributes = span.attributes
    kind = attributes.get(_TYPE)
    if kind == "retrieval":
        query = text(attributes, _BASE + "retrieval.query_text") or _question(attributes)
        found = _contexts(attributes.get(_BASE + "retrieval.retrieved_contexts", attributes.get(_RETURNED)))
        top_k = whole(attributes, _BASE + "retrieval.num_contexts")
        return SpanReading(step=Retrieved(query=query, found=found, top_k=top_k))
    if kind == "reranking":
        before = _texts(attributes.get(_BASE + "reranking.input_context_texts"))
        after = _contexts(attributes.get(_BASE + "reranking.output_context_texts", attributes.get(_RETURNED)))
        return SpanReading(step=Reranked(given=before or None, kept=after))
    if kind == "context_filter" or kind == "context_selection":
        chunks = _contexts(attributes.get(_RETURNED))
        return NOTHING if chunks is None else SpanReading(step=Packed(chunks=chunks))
    if kind == "generation":
        return SpanReading(step=_generated(attributes))
    if kind == "record_root":
        question = text(attributes, _BASE + "record_root.input") or _question(attributes)
        service = text(attributes, _BASE + "app_name")
        return SpanReading(question=question, answer=text(attributes, _BASE + "record_root.output"), service=service)
    if kind == "eval":
        return SpanReading(graded=_graded(attributes))
    if kind == "eval_root":
        return SpanReading(judgments=_judged(attributes, span.ended_at))
    return NOTHING


def _question(given: Attributes) -> str | None:
    return question_in({key[len(_GIVEN) :]: value for key, value in given.items() if key.startswith(_GIVEN)})


def _contexts(value: Any) -> list[str] | None:
    return _texts(value) if isinstance(value, list) else None


def _texts(value: Any) -> list[str]:
    """Contexts, also those that are documents in Python's writing."""
    values = value if isinstance(value, list) else []
    return [_said(each) for each in values if isinstance(each, str) and each]


def _said(written: str) -> str:
    """What the messages or the document in Python's writing say; any other text as it is."""
    found = _CONTENT.findall(written) if "content=" in written else []
    try:
        return "\n\n".join(str(ast.literal_eval(each)) for each in found) or written
    except (ValueError, SyntaxError):
        return written


def _generated(given: Attributes) -> SpanGeneration:
    returned = given.get(_RETURNED)
    cost = _BASE + "cost."
    return SpanGeneration(
        prompt=list(_given_texts(given)),
        answer=_said(returned) if isinstance(returned, str) and returned else None,
        model=text(given, cost + "model", "gen_ai.request.model", _BASE + "generation.model"),
        usage=usage(whole(given, cost + "num_prompt_tokens"), whole(given, cost + "num_completion_tokens")),
    )


def _given_texts(given: Attributes) -> list[str]:
    """All texts of a call's arguments, in order: together they are what the model was given."""
    texts: list[str] = []
    for key, value in given.items():
        if key.startswith(_GIVEN) and key[len(_GIVEN) :] not in _SETTINGS:
            texts += _texts(value) if isinstance(value, list) else _texts([value])
    return texts


def _graded(given: Attributes) -> tuple[GradedDocuments, ...]:
    """What an evaluation says of the one context that it was given."""
    start = _BASE + "eval.args"
    told = {key[len(start) + 1 :]: value for key, value in given.items() if key.startswith(f"{start}.")}
    arguments = {key.rpartition(".")[2]: value for key, value in (told or mapping(given.get(start))).items()}
    if _CONTEXTS in arguments:
        arguments["context"] = arguments.pop(_CONTEXTS)
    metric = text(given, _BASE + "eval.metric_name") or ""
    found = graded_by_step(metric, arguments, {"score": given.get(_BASE + "eval.score")})
    return () if found is None else (found,)


def _judged(given: Attributes, at: int) -> tuple[Judgment, ...]:
    label = text(given, _BASE + "eval_root.metric_name")
    score = number(given.get(_BASE + "eval_root.score"))
    if label is None or score is None:
        return ()
    comment = text(given, _BASE + "eval_root.explanation", _BASE + "eval.explanation")
    return (Judgment(source="trulens", label=label, score=score, comment=comment, at=at),)
