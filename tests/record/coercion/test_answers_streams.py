"""Parts of streamed answers of every make: joined to what an undivided answer would have been."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace as Part
from typing import Any

import pytest

from ragtrace.record.coercion import StreamedAnswer, read_answer
from ragtrace.types import Citation, Generation, TokenUsage


@dataclass
class AIMessageChunk:
    """LangChain's, as far as it matters here."""

    content: Any
    usage_metadata: Any = None


def joined(parts: list[Any]) -> StreamedAnswer:
    """What these parts make."""
    answer = StreamedAnswer()
    for part in parts:
        answer.add(part)
    return answer


def read(*parts: Any) -> Generation:
    """The generation in these parts."""
    return read_answer(joined(list(parts)).whole())


def chunk(text: str | None, **more: Any) -> Part:
    """A chunk of a chat completion."""
    finish = more.pop("finish_reason", None)
    return Part(choices=[Part(index=0, delta=Part(content=text), finish_reason=finish)], **more)


STREAMS: dict[str, list[Any]] = {
    "texts": ["So ", "it is."],
    "texts and nothing": ["So ", None, "it is.", None],
    "dataclasses": [AIMessageChunk("So "), AIMessageChunk("it is."), AIMessageChunk("")],
    "content blocks": [
        AIMessageChunk([{"type": "text", "text": "So "}]),
        AIMessageChunk([{"text": "it is."}, {"x": 1}]),
    ],
    "objects with a text": [Part(text="So "), Part(text="it is.")],
    "mappings": [{"content": "So "}, {"content": "it is."}],
    "mappings of another kind between": [{"context": ["a"]}, {"answer": "So "}, {"input": "q"}, {"answer": "it is."}],
    "messages with metadata": [(AIMessageChunk("So "), {"node": 1}), (AIMessageChunk("it is."), {"node": 1})],
    "chat chunks": [chunk("So "), chunk(None), chunk("it is."), Part(choices=[])],
    "chat chunks as mappings": [{"choices": [{"delta": {"content": text}}]} for text in ("So ", "it is.")],
    "completions": [{"choices": [{"text": text}]} for text in ("So ", "it is.")],
    "the first of several choices": [
        chunk("So "),
        Part(choices=[Part(index=1, delta=Part(content="Other"))]),
        chunk("it is."),
    ],
    "deltas beside the text so far": [
        Part(delta="So ", text="So "),
        Part(delta=None, text="So "),
        Part(delta="it is."),
    ],
    "events of a response": [
        Part(type="response.created", response=Part()),
        Part(type="response.output_text.delta", delta="So "),
        Part(type="response.output_text.delta", delta="it is."),
        Part(type="response.output_text.done", text="So it is."),
    ],
    "events of a message": [
        Part(type="message_start", message=Part(content=[], model="m")),
        Part(type="content_block_start", content_block=Part(type="text", text="")),
        Part(type="content_block_delta", delta=Part(type="text_delta", text="So ")),
        Part(type="text", text="So ", snapshot="So "),
        Part(type="content_block_delta", delta=Part(type="text_delta", text="it is.")),
        Part(type="content_block_stop", content_block=Part(text="So it is.")),
    ],
    "Ollama's": [{"message": {"content": "So "}}, {"message": {"content": "it is."}, "done": True}],
    "tokens, and the whole at the end": [
        {"token": {"text": "So "}, "generated_text": None},
        {"token": {"text": "it is."}, "generated_text": "So it is."},
    ],
    "texts, and the whole at the end": ["So ", "it is.", {"answer": "So it is."}],
}


@pytest.mark.parametrize("parts", STREAMS.values(), ids=STREAMS)
def test_the_pieces_are_joined(parts: list[Any]) -> None:
    """Once each, in their order, whatever carries them; what is no piece is no fault."""
    answer = joined(parts)
    assert read_answer(answer.whole()).answer == "So it is."
    assert (answer.unread, answer.is_read) == ([], True)


def test_what_comes_with_an_answer_is_taken_from_the_part_that_has_it() -> None:
    """Finish reason, model and usage of a chat stream; usage that is spread over two events."""
    usage = Part(prompt_tokens=7, completion_tokens=2)
    found = read(chunk("So", model="m"), chunk(None, finish_reason="stop"), Part(choices=[], usage=usage))
    assert (found.answer, found.model, found.finish_reason) == ("So", "m", "stop")
    assert found.usage == TokenUsage(input_tokens=7, output_tokens=2)
    found = read(
        Part(type="message_start", message=Part(content=[], model="m", usage=Part(input_tokens=7, output_tokens=1))),
        Part(type="content_block_delta", delta=Part(type="text_delta", text="So")),
        Part(type="message_delta", delta=Part(stop_reason="end_turn"), usage=Part(output_tokens=2)),
    )
    assert (found.answer, found.model, found.finish_reason) == ("So", "m", "end_turn")
    assert found.usage == TokenUsage(input_tokens=7, output_tokens=2)
    found = read(
        AIMessageChunk("So", {"input_tokens": 7, "output_tokens": 0}), AIMessageChunk("", {"output_tokens": 2})
    )
    assert found.usage == TokenUsage(input_tokens=7, output_tokens=2)


def test_citations_come_from_any_part_once() -> None:
    """Places stay places, so that the packed chunks can tell what they name."""
    parts = [{"content": "So", "citations": ["a"]}, {"content": ".", "citations": ["a", 2, {"chunk_id": "c"}]}]
    assert read_answer(joined(parts).whole(), ["a", "b"]).citations == (
        Citation(marker="a", chunk_id="a"),
        Citation(marker="[2]", chunk_id="b"),
        Citation(marker="c", chunk_id="c"),
    )


def test_what_cannot_be_told_is_unread() -> None:
    """By its type, once for each; with nothing else there is no answer."""
    answer = joined([5, "So", b"it", object()])
    assert (answer.unread, answer.is_read, answer.whole()) == (["int", "bytes", "object"], True, "So")
    assert not joined([b"So"]).is_read


def test_a_whole_response_at_the_end_is_the_answer_without_deltas() -> None:
    """Where the host passes only the last event."""
    whole = Part(output_text="So.", model="m")
    assert read(Part(type="response.completed", response=whole)).answer == "So."
