"""Evaluations are events that a span of any dialect may have."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.receive._spans import Judgment, SpanEvent
from ragtrace.receive.dialects import read_span
from tests.receive.spans import span

EVENT = SpanEvent(
    "gen_ai.evaluation.result",
    9,
    {
        "gen_ai.evaluation.name": "relevance",
        "gen_ai.evaluation.score.value": 1,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "It answers.",
    },
)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"scope": "ragtrace", "attributes": {"ragtrace.request.id": "r"}},
        {"scope": "ragtrace", "attributes": {"ragtrace.retrieval.ids": ["a"]}},
        {"attributes": {"openinference.span.kind": "CHAIN"}},
        {"attributes": {"traceloop.span.kind": "workflow"}},
        {"attributes": {"langfuse.observation.type": "span"}},
        {"attributes": {"ai.operationId": "ai.generateText"}},
        {"attributes": {"gen_ai.operation.name": "chat"}},
    ],
)
def test_any_dialect(given: dict[str, Any]) -> None:
    """Each is read once, whatever else the span says."""
    expected = Judgment(source="relevance", score=1.0, label="pass", comment="It answers.", at=9)
    assert read_span(span(1, events=(EVENT, SpanEvent("other", 1, {})), **given)).judgments == (expected,)
    assert read_span(span(1, **given)).judgments == ()


@pytest.mark.parametrize("attributes", [{}, {"gen_ai.evaluation.score.value": "many"}, {"gen_ai.evaluation.name": 7}])
def test_says_nothing(attributes: dict[str, Any]) -> None:
    """An evaluation without a score and a label is none."""
    assert read_span(span(1, events=(SpanEvent(EVENT.name, 9, attributes),))).judgments == ()
