"""Langfuse's observations: failures, what speaks for the request, and retrievers of its first versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragtrace.analyze import analyze_record
from ragtrace.receive._spans import ReceivedSpan
from ragtrace.types import ErrorInfo, RetrieveRun
from tests.receive.spans import assembled, model, retriever, span
from tests.receive.test_assembly import PROMPT, TEXTS, request

QUESTION = "What is the tariff?"


def observation(number: int, kind: str, **given: Any) -> ReceivedSpan:
    """An observation of this type; of what it was given and what came out as Langfuse serializes them."""
    written = {
        f"langfuse.observation.{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
    }
    return span(number, 1, attributes={"langfuse.observation.type": kind} | written)


def test_a_failed_retriever() -> None:
    """Langfuse says errors by its own level, not by the span's status: no failure of recall."""
    failed = observation(2, "retriever", input=QUESTION, level="ERROR", status_message="connection refused")
    record = assembled([request()[0], failed, model(3, 1, QUESTION, "4.5 percent.")])
    (run,) = [run for run in record.stages if isinstance(run, RetrieveRun)]

    assert (run.error, run.incomplete) == (ErrorInfo(type="Error", message="connection refused"), False)
    diagnosis = analyze_record(record).diagnosis
    assert (diagnosis.verdict, diagnosis.stage) == ("no_break_found", None)
    assert diagnosis.state("retrieval") == "not_known"


@pytest.mark.parametrize("level", ["DEBUG", "DEFAULT", "WARNING"])
def test_other_levels(level: str) -> None:
    """They are no failures."""
    found = observation(2, "retriever", input=QUESTION, output=list(TEXTS), level=level)

    assert assembled([request()[0], found]).is_retrieved


def test_a_failed_request() -> None:
    """The level of the root is the request's."""
    given = {"langfuse.observation.type": "chain", "langfuse.observation.level": "ERROR"}
    record = assembled([span(1, ended_at=9_000, attributes=given), request()[1]])

    assert (record.status, record.error) == ("error", ErrorInfo(type="Error", message="Langfuse's level is ERROR"))


@pytest.mark.parametrize("kind", ["tool", "guardrail", "evaluator", "event"])
def test_what_does_not_speak_for_the_request(kind: str) -> None:
    """Under a root that says nothing, what a tool or a judge was given is not the question, its result no answer."""
    other = observation(2, kind, input="is this safe?", output="tool said 42")
    record = assembled([span(1, ended_at=9_000), other, retriever(3, 1, TEXTS)])

    assert record.query.original == QUESTION
    assert record.generation is None


def test_what_an_observation_says_of_its_trace() -> None:
    """That is the request's, whatever the observation is."""
    given = {"langfuse.observation.type": "tool", "langfuse.trace.input": QUESTION, "langfuse.trace.output": "4.5."}
    record = assembled([span(1, ended_at=9_000), span(2, 1, attributes=given), retriever(3, 1, TEXTS)])

    assert record.generation is not None
    assert (record.query.original, record.generation.answer) == (QUESTION, "4.5.")


def test_retrievers_of_langchain_before_3_3() -> None:
    """They are observations as all else, of which a question gives documents; what passes them on retrieves nothing."""
    documents = [{"id": str(place), "page_content": text, "metadata": {}} for place, text in enumerate(TEXTS)]
    found = observation(2, "span", input=QUESTION, output=documents)
    passed = observation(3, "span", input=documents, output=documents)
    record = assembled([request()[0], found, passed, model(4, 1, PROMPT, "4.5 percent.")])

    assert [run.query for run in record.stages if isinstance(run, RetrieveRun)] == [QUESTION]
    assert [(each.chunk_id, each.text) for each in record.candidates] == [("0", TEXTS[0]), ("1", TEXTS[1])]
    assert record.packing is not None
    assert [chunk.chunk_id for chunk in record.packing.chunks] == ["0", "1"]
