"""OpenInference's kinds of spans that are no stage."""

from __future__ import annotations

import pytest

from ragtrace.receive._spans import ReceivedSpan
from tests.receive.spans import assembled, retriever, span
from tests.receive.test_assembly import TEXTS


def other(kind: str) -> ReceivedSpan:
    """A span of this kind that was given something and returned something."""
    given = {"openinference.span.kind": kind, "input.value": "is this safe?", "output.value": "said 42"}
    return span(2, 1, attributes=given)


@pytest.mark.parametrize("kind", ["TOOL", "GUARDRAIL", "EVALUATOR", "PROMPT"])
def test_what_does_not_speak_for_the_request(kind: str) -> None:
    """Under a root that says nothing, what a tool or a judge was given is not the question, its result no answer."""
    record = assembled([span(1, ended_at=9_000), other(kind), retriever(3, 1, TEXTS)])

    assert record.query.original == "What is the tariff?"
    assert record.generation is None


@pytest.mark.parametrize("kind", ["CHAIN", "AGENT"])
def test_what_speaks_for_the_request(kind: str) -> None:
    """Chains and agents do, also below a root that is none."""
    record = assembled([span(1, ended_at=9_000), other(kind), retriever(3, 1, TEXTS)])

    assert record.generation is not None
    assert (record.query.original, record.generation.answer) == ("is this safe?", "said 42")


def test_a_tool_that_is_the_root() -> None:
    """It is the request: an assistant that another one calls."""
    record = assembled([span(1, attributes=other("TOOL").attributes), retriever(3, 1, TEXTS)])

    assert record.query.original == "is this safe?"
