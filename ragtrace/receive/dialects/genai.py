"""OpenTelemetry's GenAI conventions, in the generations that are in use.

Since 1.37 messages stand in `gen_ai.input.messages` and `gen_ai.output.messages`, on the span or on an event; before,
each message was an event of its own. Values are JSON texts or structures.
Source: https://github.com/open-telemetry/semantic-conventions-genai (status: development).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ragtrace.receive._grades import graded_by_event, is_of_a_document
from ragtrace.receive._spans import (
    Attributes,
    GradedDocuments,
    Judgment,
    ReceivedSpan,
    Retrieved,
    SpanGeneration,
    SpanReading,
    jsonish,
    listed,
    number,
    text,
    usage,
    whole,
)
from ragtrace.record import conventions as names

__all__ = ["generated", "graded", "judgment", "judgments", "messages", "name", "read", "recognizes"]

name: Final = "OpenTelemetry GenAI"

_SYSTEM: Final = "gen_ai.system_instructions"
_RESPONSE_MODEL: Final = "gen_ai.response.model"
_SESSION: Final = "gen_ai.conversation.id"
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_OLD_PROMPT, _OLD_ANSWER = "gen_ai.content.prompt", "gen_ai.content.completion"
_OLD_MESSAGE: Final = ("gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message")
_OLD_CHOICE: Final = "gen_ai.choice"
_PROVIDER: Final = "gen_ai.provider.name"
_SYSTEM_NAME: Final = "gen_ai.system"  # the provider's, until 1.36
_DATA: Final = ("reasoning", "blob", "file", "uri")  # parts that are no text of the prompt
_GENERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "completion"})
_INPUT_TOKENS: Final = (names.INPUT_TOKENS, "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS: Final = (names.OUTPUT_TOKENS, "gen_ai.usage.completion_tokens")


def recognizes(span: ReceivedSpan) -> bool:
    """An operation's name, the documents of a retrieval, who serves the model, or an evaluation."""
    given = span.attributes
    return (
        names.OPERATION_NAME in given
        or names.RETRIEVAL_DOCUMENTS in given
        or _PROVIDER in given
        or _SYSTEM_NAME in given
        or any(event.name == names.EVALUATION_EVENT for event in span.events)
    )


def read(span: ReceivedSpan) -> SpanReading:
    """By the operation."""
    attributes = span.attributes
    operation = text(attributes, names.OPERATION_NAME)
    about: dict[str, Any] = {
        "session_id": text(attributes, _SESSION, names.SESSION_ID),
    }
    if operation == "retrieval" or names.RETRIEVAL_DOCUMENTS in attributes:
        query = text(attributes, names.RETRIEVAL_QUERY)
        found, is_cut = _documents(attributes.get(names.RETRIEVAL_DOCUMENTS))
        step = Retrieved(
            query=query,
            found=found,
            top_k=whole(attributes, names.RETRIEVAL_TOP_K, "gen_ai.request.top_k"),
            incomplete=is_cut,
        )
        return SpanReading(step=step, question=query, **about)
    if operation in _GENERATIONS or (operation is None and (_PROVIDER in attributes or _SYSTEM_NAME in attributes)):
        return SpanReading(step=generated(span), **about)
    if operation == "embeddings":
        model = text(attributes, names.REQUEST_MODEL, _RESPONSE_MODEL)
        return SpanReading(versions={"embedding": model} if model else {}, **about)
    asked = messages(attributes.get(names.INPUT_MESSAGES))
    said = messages(attributes.get(names.OUTPUT_MESSAGES))
    question = next((message["content"] for message in reversed(asked) if message["role"] == "user"), None)
    return SpanReading(question=question, answer=said[-1]["content"] if said else None, **about)


def judgments(span: ReceivedSpan) -> tuple[Judgment, ...]:
    """The results of evaluations, which are events; one that names a document judges no answer."""
    events = (each for each in span.events if each.name == names.EVALUATION_EVENT)
    of_answers = (each for each in events if not is_of_a_document(each.attributes))
    return tuple(found for each in of_answers if (found := judgment(each.attributes, each.at)) is not None)


def graded(span: ReceivedSpan) -> tuple[GradedDocuments, ...]:
    """What evaluations say of single documents."""
    events = (each for each in span.events if each.name == names.EVALUATION_EVENT)
    return tuple(found for each in events if (found := graded_by_event(each.attributes)) is not None)


def judgment(given: Attributes, at: int) -> Judgment | None:
    """What an event of an evaluation says; None where it holds neither a score nor a label."""
    score, label = number(given.get(names.EVALUATION_VALUE)), text(given, names.EVALUATION_LABEL)
    if score is None and label is None:
        return None
    judge = text(given, names.EVALUATION_NAME) or "evaluation"
    return Judgment(source=judge, score=score, label=label, comment=text(given, names.EVALUATION_EXPLANATION), at=at)


def messages(value: Any) -> list[dict[str, str]]:
    """Messages with their texts: `[{"role": ..., "parts": [{"type": "text", "content": ...}]}]`, or plain contents."""
    contents = jsonish(value)
    if isinstance(contents, str):
        return [{"role": "user", "content": contents}] if contents else []
    if isinstance(contents, dict):
        contents = [contents]
    read = (
        [_message(content) for content in contents if isinstance(content, dict)] if isinstance(contents, list) else []
    )
    return [message for message in read if message["content"]]


def _message(message: dict[str, Any]) -> dict[str, str]:
    content = jsonish(message.get("content", message.get("parts", message.get("message"))))
    if isinstance(content, dict):
        content = content.get("content")
    if isinstance(content, list):
        said = [_part(part) for part in content if isinstance(part, dict)]
        content = "".join(words for words in said if isinstance(words, str))
    return {"role": str(message.get("role") or "user"), "content": content if isinstance(content, str) else ""}


def _part(given: dict[str, Any]) -> Any:
    """What a part says: its text, or what a tool returned, in which retrieved texts may stand; no image."""
    kind = given.get("type")
    if kind in _DATA:
        return None
    if kind == "tool_call_response":
        returned = given.get("response", given.get("result"))
        return returned if isinstance(returned, str | None) else json.dumps(returned, ensure_ascii=False)
    return given.get("content", given.get("text"))


def _documents(value: Any) -> tuple[list[Any] | None, bool]:
    """The documents, and whether some cannot be read: a limit on a value's length leaves the start of JSON."""
    found = listed(value)
    if not found:
        return found, False
    read = [each for each in map(jsonish, found) if not (isinstance(each, str) and each.startswith('{"'))]
    return read or None, len(read) < len(found)


def generated(span: ReceivedSpan) -> SpanGeneration:
    """A call of a model, from the span's messages."""
    given = span.attributes
    prompt, answers = list(_prompt(span)), list(_answers(span))
    return SpanGeneration(
        prompt=prompt or None,
        answer=answers[0] if answers else None,
        model=text(given, names.REQUEST_MODEL, _RESPONSE_MODEL),
        usage=usage(whole(given, *_INPUT_TOKENS), whole(given, *_OUTPUT_TOKENS)),
        finish_reason=_finish_reason(span),
        incomplete=bool(span.dropped_events) and names.INPUT_MESSAGES not in given,
    )


def _finish_reason(span: ReceivedSpan) -> str | None:
    """As an attribute of its own, or in the first message of the output."""
    found = span.attributes.get(names.FINISH_REASONS)
    if isinstance(found, list) and found:
        return str(found[0])
    said = (jsonish(given.get(names.OUTPUT_MESSAGES)) for given in _places(span))
    first = next((each[0] for each in said if isinstance(each, list) and each), None)
    return text(first, "finish_reason") if isinstance(first, dict) else None


def _places(span: ReceivedSpan) -> Iterator[Attributes]:
    """Where messages stand: on the span, else on its event of details."""
    yield span.attributes
    yield from (event.attributes for event in span.events if event.name == _DETAILS)


def _prompt(span: ReceivedSpan) -> Iterator[dict[str, str]]:
    for given in _places(span):
        found = messages(given.get(names.INPUT_MESSAGES))
        if found:
            yield from messages(_as_message("system", given.get(_SYSTEM)))
            yield from found
            return
    for event in span.events:
        if event.name in _OLD_MESSAGE:
            role = event.name.split(".")[1]
            yield from messages(event.attributes | {"role": role})
        elif event.name == _OLD_PROMPT:
            yield from messages(event.attributes.get("gen_ai.prompt"))


def _as_message(role: str, parts: Any) -> Any:
    found = jsonish(parts)
    return None if not found else {"role": role, "content": found}


def _answers(span: ReceivedSpan) -> Iterator[str]:
    for attributes in _places(span):
        for message in messages(attributes.get(names.OUTPUT_MESSAGES)):
            yield message["content"]
    for event in span.events:
        if event.name == _OLD_CHOICE:
            yield from (message["content"] for message in messages(event.attributes))
        elif event.name == _OLD_ANSWER:
            completion = event.attributes.get("gen_ai.completion")
            yield from (message["content"] for message in messages(completion))
