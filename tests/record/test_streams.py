"""Decorated generators: they behave as before, and what streamed is recorded at the end."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest
from opentelemetry import context

import ragtrace
from ragtrace.types import GenerateRun, RetrieveRun


@ragtrace.generate(model="m")
def stream(prompt: str) -> Iterator[str]:
    """A streamed answer."""
    yield from ("So ", "it ", "is.")


@ragtrace.generate(model="m")
async def stream_later(prompt: str) -> AsyncIterator[str]:
    """The same, async."""
    for part in ("So ", "it ", "is."):
        await asyncio.sleep(0)
        yield part


def test_a_streamed_answer_is_joined(recorded: Any) -> None:
    """The consumer gets every part, the record the whole text."""
    assert inspect.isgeneratorfunction(stream)
    assert list(stream("p")) == ["So ", "it ", "is."]
    assert recorded.run(GenerateRun).generation.answer == "So it is."


def test_an_async_stream_is_joined(recorded: Any) -> None:
    """The same for async generators."""

    async def read() -> list[str]:
        return [part async for part in stream_later("p")]

    assert inspect.isasyncgenfunction(stream_later)
    assert asyncio.run(read()) == ["So ", "it ", "is."]
    assert recorded.run(GenerateRun).generation.answer == "So it is."


def test_nothing_is_attached_between_the_parts(recorded: Any) -> None:
    """The consumer's own spans do not become children of the stream's."""
    outside = context.get_current()
    parts = stream("p")
    next(parts)
    assert context.get_current() == outside
    assert not ragtrace.current_request().recording
    parts.close()  # type: ignore[attr-defined]


def test_a_stream_left_early_keeps_what_passed(recorded: Any) -> None:
    """Breaking off and dropping the generator ends the span."""
    for _ in stream("p"):
        break
    gc.collect()
    assert recorded.run(GenerateRun).generation.answer == "So "
    assert recorded.spans["chat m"].end_time is not None


def test_an_async_stream_closed_early_keeps_what_passed(recorded: Any) -> None:
    """The same for aclose()."""

    async def read() -> None:
        parts = stream_later("p")
        await anext(parts)
        await parts.aclose()  # type: ignore[attr-defined]

    asyncio.run(read())
    assert recorded.run(GenerateRun).generation.answer == "So "
    assert recorded.record.status == "ok"


def test_stages_inside_a_streaming_request_are_in_its_record(recorded: Any) -> None:
    """A generator that retrieves first and streams then is one request."""

    @ragtrace.request
    def ask(question: str) -> Iterator[str]:
        ragtrace.retrieve(lambda query: ["a text with words"])(question)
        yield from stream("p")

    assert "".join(ask("q")) == "So it is."
    assert [type(run) for run in recorded.record.stages] == [RetrieveRun, GenerateRun]


def test_send_throw_and_return_value_pass_through(recorded: Any) -> None:
    """The generator protocol is whole."""

    @ragtrace.request
    def talk() -> Generator[object, str, str]:
        got = yield "ready"
        try:
            yield got
        except KeyError:
            yield "caught"
        return "done"

    talker = talk()
    assert next(talker) == "ready"
    assert talker.send("hello") == "hello"
    assert talker.throw(KeyError("x")) == "caught"
    with pytest.raises(StopIteration) as stopped:
        next(talker)
    assert stopped.value.value == "done"
    assert recorded.record.status == "ok"


def test_an_exception_in_a_stream_passes_through(recorded: Any) -> None:
    """The same object, and the request is kept as failed."""
    error = ValueError("cut")

    @ragtrace.generate
    def broken(prompt: str) -> Iterator[str]:
        yield "So "
        raise error

    @ragtrace.generate
    async def broken_later(prompt: str) -> AsyncIterator[str]:
        yield "So "
        raise error

    async def read() -> None:
        async for _ in broken_later("p"):
            pass

    for run in (lambda: list(broken("p")), lambda: asyncio.run(read())):
        with pytest.raises(ValueError, match="cut") as caught:
            run()
        assert caught.value is error
    assert [record.status for record in recorded.records] == ["error", "error"]


def test_a_stream_of_objects_is_counted(recorded: Any) -> None:
    """What is no text cannot be joined into an answer: untouched for the host, a fault for us."""

    @ragtrace.generate
    def deltas(prompt: str) -> Iterator[object]:
        yield from (object(), object())

    assert len(list(deltas("p"))) == 2
    assert recorded.faults == [("coerce.generate", "object")]
