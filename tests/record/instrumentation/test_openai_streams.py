"""OpenAI's streams stood in for by plain iterators: how they end, and what is kept then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace as Part
from typing import Any

import pytest

from ragtrace.record.instrumentation.base import begin_generation
from ragtrace.record.instrumentation.openai import RecordedAsyncStream, RecordedStream
from ragtrace.types import GenerateRun

CHUNK = Part(model="m", choices=[Part(index=0, delta=Part(content="So "), finish_reason=None)])


def stream_of(parts: Any, kind: Any = RecordedStream) -> Any:
    """A recorded stream over these parts."""
    recording = begin_generation("openai", "m", "p")
    assert recording is not None
    return kind(parts, recording.end, recording)


def test_a_stream_that_breaks_keeps_what_had_passed(recorded: Any) -> None:
    """With its error."""

    def parts() -> Iterator[Any]:
        yield CHUNK
        raise ConnectionError("cut")

    with pytest.raises(ConnectionError):
        list(stream_of(parts()))
    assert recorded.run(GenerateRun).generation.answer == "So "
    assert (recorded.record.status, recorded.record.error.stage) == ("error", "generate")


def test_an_async_stream_that_breaks_keeps_what_had_passed(recorded: Any) -> None:
    """The same."""

    async def parts() -> AsyncIterator[Any]:
        yield CHUNK
        raise ConnectionError("cut")

    async def read() -> None:
        async for _ in stream_of(parts(), RecordedAsyncStream):
            pass

    with pytest.raises(ConnectionError):
        asyncio.run(read())
    assert recorded.run(GenerateRun).generation.answer == "So "
    assert recorded.record.status == "error"


def test_a_response_is_the_answer_and_ends_once(recorded: Any) -> None:
    """The last event holds all of it; closing the stream adds nothing."""
    events = [
        Part(type="response.output_text.delta", delta="So."),
        Part(type="response.completed", response=Part(output_text="So.", model="m")),
    ]
    stream = stream_of(iter(events))
    assert list(stream) == events
    del stream
    assert recorded.run(GenerateRun).generation.answer == "So."
