"""Grades of documents that other tools' spans carry: of a step that filters, of an evaluator, of an event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragtrace.analyze import analyze_record
from ragtrace.receive._grades import graded_by_step
from ragtrace.receive._spans import ReceivedSpan, SpanEvent
from ragtrace.types import Grade, HostGrades
from tests.receive.spans import assembled, retriever, span
from tests.receive.test_assembly import TEXTS, request

QUESTION = "What is the tariff?"
LISTED: list[Any] = [{"id": None, "metadata": {}, "page_content": text, "type": "Document"} for text in TEXTS]
SERIALIZED = [{"lc": 1, "type": "constructor", "id": ["langchain", "Document"], "kwargs": each} for each in LISTED]
WRITTEN = [f"page_content={text!r} metadata={{}}" for text in TEXTS]


def with_spans(*others: ReceivedSpan) -> HostGrades | None:
    """What is known of the grades of a request whose retriever found `TEXTS`."""
    root = request()[0]
    return assembled([root, retriever(2, 1, TEXTS), *others]).graded


def as_openinference(name: str, given: Any, returned: Any) -> ReceivedSpan:
    """A chain's span, as LangChain's instrumentation writes it."""
    values = {"input.value": json.dumps(given), "output.value": json.dumps(returned)}
    return span(5, 1, name=name, attributes={"openinference.span.kind": "CHAIN", **values})


def as_langfuse(name: str, given: Any, returned: Any) -> ReceivedSpan:
    """The same as an observation."""
    values = {"input": json.dumps(given), "output": json.dumps(returned)}
    written = {f"langfuse.observation.{key}": value for key, value in values.items()}
    return span(5, 1, name=name, attributes={"langfuse.observation.type": "chain", **written})


def as_openllmetry(name: str, given: Any, returned: Any) -> ReceivedSpan:
    """The same as an entity."""
    values = {"input": json.dumps({"inputs": given}), "output": json.dumps({"outputs": returned})}
    written = {f"traceloop.entity.{key}": value for key, value in values.items()}
    kind = {"traceloop.span.kind": "task", "traceloop.entity.name": name}
    return span(5, 1, name=f"{name}.task", attributes=kind | written)


@pytest.mark.parametrize("sender", [as_openinference, as_langfuse, as_openllmetry])
@pytest.mark.parametrize("documents", [LISTED, SERIALIZED, WRITTEN], ids=["listed", "serialized", "written"])
def test_a_step_that_passes_on_what_it_finds_relevant(sender: Any, documents: list[Any]) -> None:
    """LangGraph's `grade_documents`: a yes for what comes out, a no for the rest, and the action that follows."""
    state = {"question": QUESTION, "documents": documents}
    kept = state | {"documents": documents[:1], "web_search": "Yes"}

    found = with_spans(sender("grade_documents", state, kept))

    assert found is not None
    assert [(each.chunk_id, each.grade) for each in found.grades] == [
        (f"chunk-{place}", -1.0 if place else 1.0) for place in range(len(TEXTS))
    ]
    assert (found.action, found.source) == ("AMBIGUOUS", "grade_documents")


@pytest.mark.parametrize(
    ("kept", "search", "action"),
    [(2, "No", "CORRECT"), (1, False, "CORRECT"), (1, "Yes", "AMBIGUOUS"), (0, True, "INCORRECT"), (0, "No", None),
     (1, None, None)],
)  # fmt: skip
def test_the_action_that_a_step_took(kept: int, search: Any, action: str | None) -> None:
    """Go on, go on and search, search instead; nothing where it says nothing of a search, or searches for nothing."""
    state = {"documents": LISTED[:2]}
    found = graded_by_step("grade_documents", state, {"documents": LISTED[:kept], "web_search": search})

    assert found is not None
    assert found.action == action


def test_a_step_that_lists_its_grades() -> None:
    """Scores from 0 to 1 of all that it was given, and the action in its own words."""
    found = graded_by_step("docs_grader", {"documents": LISTED[:2]}, {"scores": [0.9, 0.2], "action": "correct"})

    assert found is not None
    assert found.grades == pytest.approx((0.8, -0.6))
    assert found.action == "CORRECT"


@pytest.mark.parametrize(
    "step",
    [
        ("retrieve_documents", {"documents": LISTED}, {"documents": LISTED[:1]}),
        ("retrieval_documents", {"documents": LISTED}, {"documents": LISTED[:1]}),
        ("grade_documents", {"documents": LISTED[:1]}, {"documents": LISTED}),
        ("grade_documents", {"documents": LISTED}, {"question": QUESTION}),
        ("grade_documents", {"documents": LISTED}, {"question": QUESTION, "scores": [1.0]}),
        ("grade_documents", "no state", {"documents": LISTED}),
        ("hallucination_grader", {"documents": LISTED, "generation": "42"}, {"binary_score": "yes"}),
        ("answer_relevance", {"question": QUESTION, "context": TEXTS[0]}, {"score": 1.0}),
        ("document_relevance", {"context": TEXTS[0]}, {"score": 3.0}),
        ("document_relevance", {"context": TEXTS[0]}, {"label": "perhaps"}),
    ],
)
def test_what_grades_no_document(step: tuple[str, Any, Any]) -> None:
    """Other steps, a step that says not what comes out, judges of answers, and scores of another scale."""
    assert graded_by_step(*step) is None


@pytest.mark.parametrize(
    ("name", "given", "returned", "grade"),
    [
        ("document_relevance", {"input": QUESTION, "document_text": TEXTS[1]}, {"score": 0.25, "label": "good"}, -0.5),
        ("Relevance", {"input": QUESTION, "reference": TEXTS[1]}, {"label": "unrelated"}, -1.0),
        ("RunnableSequence", {"question": QUESTION, "document": TEXTS[1]}, {"binary_score": "yes"}, 1.0),
        ("RunnableSequence", {"question": QUESTION, "document": TEXTS[1]}, "binary_score='no'", -1.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sender", [as_openinference, as_langfuse, as_openllmetry])
def test_an_evaluator_of_one_document(sender: Any, name: str, given: Any, returned: Any, grade: float) -> None:
    """Its score or label counts for the candidate with this text."""
    found = with_spans(sender(name, given, returned))

    assert found == HostGrades(grades=(Grade(chunk_id="chunk-1", grade=grade),), source=name)


@pytest.mark.parametrize(
    "arguments",
    [
        {"ai.observability.eval.args.question": QUESTION, "ai.observability.eval.args.context": TEXTS[0]},
        {"ai.observability.eval.args": {"ai.observability.retrieval.retrieved_contexts": TEXTS[0]}},
    ],
)
def test_trulens_context_relevance(arguments: dict[str, Any]) -> None:
    """TruLens evaluates each context by itself."""
    said = {"metric_name": "context_relevance", "score": 0.75}
    attributes = {f"ai.observability.eval.{key}": value for key, value in said.items()} | arguments
    evaluated = span(5, 1, attributes={"ai.observability.span_type": "eval", **attributes})

    assert with_spans(evaluated) == HostGrades(
        grades=(Grade(chunk_id="chunk-0", grade=0.5),), source="context_relevance"
    )


def test_an_evaluation_of_one_document_is_no_judgment_of_the_answer() -> None:
    """A GenAI event that names a document grades it; one that names none stays a judgment."""
    values = {"gen_ai.evaluation.name": "relevance", "gen_ai.evaluation.score.value": 0.1}
    events = [
        SpanEvent("gen_ai.evaluation.result", 5, values | {"document.id": "chunk-1"}),
        SpanEvent("gen_ai.evaluation.result", 6, values | {"gen_ai.evaluation.name": "helpfulness"}),
        SpanEvent("gen_ai.evaluation.result", 7, {"document.id": "chunk-0", "gen_ai.evaluation.score.label": "?"}),
    ]
    root = request()[0]

    record = assembled([root, retriever(2, 1, TEXTS, events=tuple(events))])

    assert record.graded == HostGrades(grades=(Grade(chunk_id="chunk-1", grade=-0.8),), source="relevance")
    assert [each.source for each in record.feedback] == ["helpfulness"]


def test_what_no_candidate_is_named_by_is_left_out() -> None:
    """A grade of a page that a search found later, or of another text, is of no candidate."""
    assert with_spans(as_openinference("document_relevance", {"context": "Elsewhere."}, {"score": 1.0})) is None


def test_the_applications_own_word_goes_before() -> None:
    """What it says by `grade` of a chunk counts; what it does not say comes from the others."""
    own = {"ragtrace.grades.ids": ["chunk-0"], "ragtrace.grades.values": [0.25], "ragtrace.grades.action": "AMBIGUOUS"}
    state = {"documents": LISTED[:2]}
    step = as_openinference("grade_documents", state, state | {"web_search": "No"})

    found = with_spans(step, span(6, 1, attributes=own))

    assert found is not None
    assert {each.chunk_id: each.grade for each in found.grades} == {"chunk-0": 0.25, "chunk-1": 1.0}
    assert (found.action, found.source) == ("AMBIGUOUS", "grade_documents")


def test_they_become_the_requests_grading() -> None:
    """The analyzer takes them for the host's own, without any judge."""
    state = {"documents": LISTED}
    step = as_openinference("grade_documents", state, {"documents": [], "web_search": "Yes"})
    record = assembled([request()[0], retriever(2, 1, TEXTS), step])

    grading = analyze_record(record).grading

    assert grading is not None
    assert (grading.by, grading.action, grading.taken) == ("host", "INCORRECT", "INCORRECT")
