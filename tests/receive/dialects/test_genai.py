"""OpenTelemetry's GenAI spans say the same in every form in which their messages stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragtrace.receive._spans import ReceivedSpan, SpanEvent
from ragtrace.types import RequestRecord
from tests.receive.spans import assembled, span
from tests.receive.test_assembly import TEXTS

QUESTION = "What is the tariff?"
CONTEXT = f"Answer from this.\n\n{TEXTS[0]}"
SAID = "4.5 percent."
SYSTEM = [{"type": "text", "content": CONTEXT}]
ASKED = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
ANSWERED = [{"role": "assistant", "parts": [{"type": "text", "content": SAID}], "finish_reason": "stop"}]
DOCUMENTS = [{"id": f"chunk-{place}", "score": 0.9 - place / 10, "content": text} for place, text in enumerate(TEXTS)]
MESSAGES = {
    "gen_ai.system_instructions": SYSTEM,
    "gen_ai.input.messages": ASKED,
    "gen_ai.output.messages": ANSWERED,
}


def chat(given: dict[str, Any], *events: SpanEvent) -> ReceivedSpan:
    """A call of a model."""
    named = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "tiny"}
    return span(3, 1, attributes=named | given, events=events)


def record(call: ReceivedSpan, documents: Any = DOCUMENTS) -> RequestRecord:
    """A request of a retrieval and this call, below a span that says nothing of either."""
    retrieval = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.query.text": QUESTION,
        "gen_ai.retrieval.documents": documents,
    }
    root = span(1, ended_at=9_000, attributes={"http.request.method": "POST"})
    return assembled([root, span(2, 1, attributes=retrieval), call])


def events(choice: Any) -> list[SpanEvent]:
    """The messages before 1.37, an event each."""
    return [
        SpanEvent("gen_ai.system.message", 1, {"content": CONTEXT}),
        SpanEvent("gen_ai.user.message", 2, {"content": QUESTION}),
        SpanEvent("gen_ai.choice", 3, {"index": 0, "finish_reason": "stop", "message": choice}),
    ]


CHOICE = {"role": "assistant", "content": SAID}
FORMS = {
    "structures": chat(MESSAGES),
    "JSON texts": chat({name: json.dumps(value) for name, value in MESSAGES.items()}),
    "an event of details": chat({}, SpanEvent("gen_ai.client.inference.operation.details", 1, MESSAGES)),
    "events, the choice as JSON": chat({"gen_ai.system": "openai"}, *events(json.dumps(CHOICE))),
    "events, the choice as a structure": chat({"gen_ai.system": "openai"}, *events(CHOICE)),
}


@pytest.mark.parametrize("call", FORMS.values(), ids=FORMS)
def test_messages(call: ReceivedSpan) -> None:
    """Prompt, packing and answer are found in each generation of the attributes."""
    found = record(call)

    assert found.query.original == QUESTION
    assert found.packing is not None
    assert [each.chunk_id for each in found.packing.chunks] == ["chunk-0"]
    assert found.generation is not None
    assert (found.generation.answer, found.generation.model) == (SAID, "tiny")
    assert found.generation.prompt_template == f"{CONTEXT}\n\n{QUESTION}"


@pytest.mark.parametrize(
    "documents",
    [DOCUMENTS, json.dumps(DOCUMENTS), [json.dumps(each) for each in DOCUMENTS]],
    ids=["structures", "a JSON text", "JSON texts"],
)
def test_documents(documents: Any) -> None:
    """Candidates with their scores and texts, in whatever form the one attribute has."""
    found = record(chat(MESSAGES), documents)

    assert [(each.chunk_id, each.rank, each.score, each.text) for each in found.candidates] == [
        ("chunk-0", 1, 0.9, TEXTS[0]),
        ("chunk-1", 2, 0.8, TEXTS[1]),
    ]


def test_an_agent_that_searches_with_a_tool() -> None:
    """A call that asks for a tool has no answer; what the tool returned was packed for the next call."""
    request = {"type": "tool_call", "id": "1", "name": "search", "arguments": {"query": QUESTION}}
    response = {"type": "tool_call_response", "id": "1", "response": DOCUMENTS}
    first = {
        "gen_ai.input.messages": ASKED,
        "gen_ai.output.messages": [{"role": "assistant", "parts": [request], "finish_reason": "tool_calls"}],
    }
    second = {
        "gen_ai.input.messages": [*ASKED, {"role": "tool", "parts": [response]}],
        "gen_ai.output.messages": ANSWERED,
    }
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c-1", **MESSAGES}
    root = span(1, ended_at=9_000, attributes=agent)
    before = chat(first)
    found = assembled(
        [
            root,
            span(2, 1, attributes=before.attributes),
            span(3, 1, attributes={"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": DOCUMENTS}),
            span(4, 1, attributes=chat(second).attributes),
        ]
    )

    assert (found.query.original, found.session_id) == (QUESTION, "c-1")
    assert found.packing is not None
    assert [each.chunk_id for each in found.packing.chunks] == ["chunk-0", "chunk-1"]
    assert found.generation is not None
    assert found.generation.answer == SAID


@pytest.mark.parametrize("kind", ["blob", "file", "uri"])
def test_parts_that_are_no_text(kind: str) -> None:
    """An image in a message is no part of the prompt."""
    image = {"type": kind, "mime_type": "image/png", "modality": "image", "content": "aGVsbG8gd29ybGQ="}
    asked = [{"role": "user", "parts": [image, *ASKED[0]["parts"]]}]
    found = record(chat(MESSAGES | {"gen_ai.input.messages": json.dumps(asked)}))

    assert found.generation is not None
    assert found.generation.prompt_template == f"{CONTEXT}\n\n{QUESTION}"


def test_finish_reason_of_the_first_message() -> None:
    """It stands in the output's messages as well, and the attribute of its own goes before."""
    reasons = [{}, {"gen_ai.response.finish_reasons": ["length"]}]
    found = [record(chat(MESSAGES | given)).generation for given in reasons]

    assert [generation and generation.finish_reason for generation in found] == ["stop", "length"]


def test_a_call_without_its_operation() -> None:
    """The provider's name is enough."""
    given = {name: value for name, value in chat(MESSAGES).attributes.items() if name != "gen_ai.operation.name"}
    found = record(span(3, 1, attributes=given))

    assert found.generation is not None
    assert found.generation.answer == SAID
