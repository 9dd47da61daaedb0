"""Blocks and tasks that end elsewhere or otherwise than usual: another thread, a task that is destroyed, Ctrl-C."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import context

import ragtrace
from ragtrace.types import GenerateRun


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """OpenTelemetry logs what it cannot detach as an error; none may come of us."""
    yield
    assert [
        entry.message for entry in caplog.records if entry.levelno >= logging.ERROR and "etach" in entry.message
    ] == []


def test_a_block_in_an_async_generator_that_is_left_early(recorded: Any) -> None:
    """A streaming endpoint whose client goes away: no error; an answer that was never given is unread."""

    async def stream() -> AsyncIterator[str]:
        with ragtrace.request(query="q"), ragtrace.generate(model="m"):
            yield "a"
            yield "b"

    async def read() -> None:
        async for _ in stream():
            break
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(read())
    assert (recorded.record.status, recorded.record.flags) == ("ok", ())
    assert recorded.run(GenerateRun).unread


def test_an_answer_that_was_given_stays_when_the_block_is_left(recorded: Any) -> None:
    """It is read."""

    def stream() -> Iterator[str]:
        with ragtrace.generate(model="m") as run:
            run.answer("So.")
            yield "So."

    parts = stream()
    next(parts)
    parts.close()  # type: ignore[attr-defined]
    assert (recorded.run(GenerateRun).unread, recorded.run(GenerateRun).generation.answer) == (False, "So.")


def test_a_block_that_another_thread_closes(recorded: Any) -> None:
    """It ends, and nothing stays current in either thread."""
    outside = context.get_current()
    seen: list[context.Context] = []

    def stream() -> Iterator[int]:
        with ragtrace.request(query="q"), ragtrace.extract({}):
            yield 1

    def run() -> None:
        parts.close()  # type: ignore[attr-defined]
        seen.append(context.get_current())

    parts = stream()
    contextvars.copy_context().run(next, parts)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert recorded.record.status == "ok"
    assert context.get_current() == outside
    assert seen == [context.Context()]


def test_a_block_that_ends_in_a_copy_of_its_context(recorded: Any) -> None:
    """A task that a framework starts for the cleanup: what was before is current there again."""
    block = ragtrace.request(query="q")
    outside = context.get_current()

    def end() -> None:
        block.__exit__(None, None, None)
        assert context.get_current() == outside

    def run() -> None:
        block.__enter__()
        contextvars.copy_context().run(end)

    contextvars.copy_context().run(run)
    assert recorded.record.status == "ok"


def test_a_task_that_is_destroyed_while_it_waits(recorded: Any) -> None:
    """A decorated coroutine and an async generator in it end, without an error of theirs."""

    @ragtrace.generate
    async def stream(prompt: str) -> AsyncIterator[str]:
        yield "a"
        await asyncio.sleep(60)

    @ragtrace.request
    async def ask(question: str) -> None:
        async for _ in stream(question):
            pass

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending"
    task = loop.create_task(ask("q"))
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    del task
    gc.collect()
    assert (recorded.record.status, recorded.record.flags) == ("ok", ())


@pytest.mark.parametrize("error", [SystemExit(), SystemExit(0), KeyboardInterrupt()])
def test_an_exit_is_no_failure(recorded: Any, error: BaseException) -> None:
    """Of the application's own will, or Ctrl-C: not flagged, and the answer is not known."""

    @ragtrace.generate
    def write(prompt: str) -> str:
        raise error

    with pytest.raises(type(error)), ragtrace.request(query="q"):
        write("p")
    assert (recorded.record.status, recorded.record.flags) == ("ok", ())
    assert recorded.run(GenerateRun).unread
    with pytest.raises(type(error)), ragtrace.request(query="q") as request, ragtrace.extract(ragtrace.inject()):
        raise error
    assert request.request_id == recorded.records[-1].request_id
    assert recorded.records[-1].flags == ()


def test_an_exit_with_a_code_is_a_failure(recorded: Any) -> None:
    """And so it is flagged."""
    with pytest.raises(SystemExit), ragtrace.request(query="q"):
        raise SystemExit(2)
    assert (recorded.record.status, recorded.record.flags) == ("error", ("error",))


def test_threads_may_share_one_block_object(recorded: Any) -> None:
    """Each ends its own request, whatever the order."""
    block = ragtrace.request(query="q")
    turns = [threading.Event() for _ in range(3)]

    def run(number: int) -> None:
        with block as request:
            request.set(attributes={"number": number})
            entered.wait(30)
            assert turns[number].wait(30)
            assert request.recording
            seen.append(number)
        assert not request.recording
        turns[(number + 1) % 3].set()

    entered = threading.Barrier(4)
    seen: list[int] = []
    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    entered.wait(30)
    turns[0].set()
    for thread in threads:
        thread.join()
    assert seen == [0, 1, 2]
    assert [record.attributes for record in recorded.records] == [{"number": number} for number in range(3)]


def test_tasks_may_share_one_block_object(recorded: Any) -> None:
    """The same in one thread; and a carrier's block."""
    block = ragtrace.request(query="q")

    async def run(number: int) -> None:
        async with block as request:
            request.set(attributes={"number": number})
            for _ in range(4 - number if number else 8):
                await asyncio.sleep(0)
            assert request.recording

    async def run_all() -> None:
        await asyncio.gather(*map(run, range(4)))

    asyncio.run(run_all())
    assert [record.attributes["number"] for record in recorded.records] == [3, 2, 1, 0]


def test_tasks_may_share_one_carrier(recorded: Any) -> None:
    """Stages of each are handed over at the end of its own block."""
    carried = ragtrace.extract({"ragtrace": "id=r;service=s;sampled=1;probability=1.0"})

    async def run(number: int) -> None:
        with carried:
            ragtrace.retrieve(lambda query: [{"id": str(number), "text": "x"}])("q")
            for _ in range(4 - number):
                await asyncio.sleep(0)
            assert ragtrace.current_request().recording

    async def run_all() -> None:
        await asyncio.gather(*map(run, range(3)))

    asyncio.run(run_all())
    found = [[each.chunk_id for run in addendum.stages for each in run.candidates] for addendum in recorded.addenda]
    assert found == [["2"], ["1"], ["0"]]


def test_one_block_object_inside_of_itself(recorded: Any) -> None:
    """The inner block ends first."""
    block = ragtrace.retrieve(query="q")
    with ragtrace.request(query="q"), block as outer, block as inner:
        outer.candidates(["the outer text"])
        inner.candidates(["the inner text"])
    assert [run.candidates[0].text for run in recorded.record.stages] == ["the inner text", "the outer text"]
