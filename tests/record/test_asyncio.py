"""Requests over asyncio: tasks, threads and groups of them stay in one record, also many at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ragtrace
from ragtrace.types import Fault, RerankRun, RetrieveRun


@ragtrace.retrieve
async def search(source: str, query: str) -> list[dict[str, Any]]:
    """A retriever that gives way to others in the middle."""
    await asyncio.sleep(0)
    return [{"id": f"{source}-{query}-{place}", "text": f"text {place} of {source}"} for place in range(3)]


@ragtrace.retrieve
def search_blocking(source: str, query: str) -> list[dict[str, Any]]:
    """A retriever for a thread."""
    return [{"id": f"{source}-{query}", "text": f"the text of {source}"}]


@ragtrace.rerank
def reorder(query: str, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A reranker."""
    return hits[::-1][:2]


@ragtrace.generate
async def write(query: str, hits: list[dict[str, Any]]) -> str:
    """A generator."""
    await asyncio.sleep(0)
    return f"answer to {query}"


@ragtrace.request
async def ask(question: str) -> str:
    """Three retrievers at once, one of them in a thread."""
    found = await asyncio.gather(
        search("a", question), search("b", question), asyncio.to_thread(search_blocking, "c", question)
    )
    hits = [hit for each in found for hit in each]
    return await write(question, await asyncio.to_thread(reorder, question, hits))


def test_tasks_and_threads_stay_in_one_record(recorded: Any) -> None:
    """gather and to_thread: one record, one trace, and the reranker knows whose chunks it got."""
    assert asyncio.run(ask("q")) == "answer to q"
    record = recorded.record
    assert [run.name for run in record.stages][3:] == ["reorder", "write"]
    assert {run.name for run in record.stages[:3]} == {"search", "search_blocking"}
    moves = recorded.run(RerankRun).moves
    assert [(move.chunk_id, move.rank_before, move.rank_after) for move in moves][:2] == [
        ("c-q", 7, 1),
        ("b-q-2", 6, 2),
    ]
    assert len(moves) == 7
    assert len({span.context.trace_id for span in recorded.exporter.get_finished_spans()}) == 1


def test_requests_at_the_same_time_do_not_mix(recorded: Any) -> None:
    """Each of fifty interleaved requests has its own stages and nobody else's."""

    async def everything() -> list[str]:
        return await asyncio.gather(*(ask(f"q{number}") for number in range(50)))

    assert asyncio.run(everything()) == [f"answer to q{number}" for number in range(50)]
    assert len(recorded.records) == 50
    for record in recorded.records:
        asked = record.query.original
        assert {part for run in record.stages if isinstance(run, RetrieveRun) for part in (run.query,)} == {asked}
        assert len(record.stages) == 5
        assert len(record.candidates) == 7
        assert all(asked in candidate.chunk_id.split("-") for candidate in record.candidates)


def test_a_task_group_that_fails_is_one_failed_request(recorded: Any) -> None:
    """The failing stage is named, and the cancelled one stands in the record with its cancellation."""

    @ragtrace.retrieve
    async def wait(query: str) -> list[str]:
        await asyncio.sleep(60)
        return []

    @ragtrace.retrieve
    async def explode(query: str) -> list[str]:
        raise KeyError("index")

    @ragtrace.request
    async def grouped(question: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait(question))
            await asyncio.sleep(0)
            group.create_task(explode(question))

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(grouped("q"))
    assert isinstance(raised.value.exceptions[0], KeyError)
    record = recorded.record
    assert record.flags == ("error",)
    errors = {run.name.rpartition(".")[2]: run.error.type for run in record.stages if run.error is not None}
    assert errors == {"explode": "KeyError", "wait": "asyncio.exceptions.CancelledError"}


def test_a_timeout_ends_the_stage_and_reaches_the_host(recorded: Any) -> None:
    """wait_for raises what it raised before, and the record says which stage did not answer."""

    @ragtrace.generate
    async def endless(prompt: str) -> str:
        await asyncio.Event().wait()
        return ""

    @ragtrace.request
    async def limited(question: str) -> str:
        try:
            return await asyncio.wait_for(endless(question), 0.01)
        except TimeoutError:
            return "late"

    assert asyncio.run(limited("q")) == "late"
    record = recorded.record
    (run,) = record.stages
    assert run.error is not None
    assert run.error.type == "asyncio.exceptions.CancelledError"
    assert record.status == "ok"


def test_a_task_that_outlives_its_request_follows_as_an_addendum(recorded: Any) -> None:
    """Fire and forget: a stage that began in the request and ended after it is added to its record."""
    ended = asyncio.Event()

    @ragtrace.retrieve
    async def prefetch(query: str) -> list[str]:
        await ended.wait()
        return ["late"]

    @ragtrace.request
    async def fire(question: str) -> asyncio.Task[list[str]]:
        task = asyncio.create_task(prefetch(question))
        await asyncio.sleep(0)
        return task

    async def main() -> list[str]:
        task = await fire("q")
        ended.set()
        return await task

    assert asyncio.run(main()) == ["late"]
    (addendum,) = recorded.addenda
    record = recorded.record
    assert addendum.request_id == record.request_id
    assert record.stages == ()
    (run,) = record.extended(addendum).stages
    assert isinstance(run, RetrieveRun)
    assert [candidate.chunk_id for candidate in run.candidates] == ["late"]
    span = next(span for name, span in recorded.spans.items() if name.startswith("retrieval"))
    assert span.parent.span_id == recorded.spans["request " + record_name(recorded)].context.span_id
    assert not [item for item in recorded.items if isinstance(item, Fault)]


def record_name(recorded: Any) -> str:
    """What the request's span is called, without its prefix."""
    (name,) = [name for name in recorded.spans if name.startswith("request ")]
    return str(name).removeprefix("request ")


def test_a_task_that_begins_after_its_request_has_one_of_its_own(recorded: Any) -> None:
    """A worker that a request happened to start is not that request, however long it works."""

    async def worker(queue: asyncio.Queue[str | None]) -> None:
        while (query := await queue.get()) is not None:
            await search("w", query)

    @ragtrace.request
    async def starts(question: str, queue: asyncio.Queue[str | None]) -> asyncio.Task[None]:
        task = asyncio.create_task(worker(queue))
        await search("s", question)
        return task

    async def main() -> None:
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        task = await starts("first", queue)
        for query in ("second", "third", None):
            queue.put_nowait(query)
        await task

    asyncio.run(main())
    assert [record.query.original for record in recorded.records] == ["first", "second", "third"]
    assert len({record.request_id for record in recorded.records}) == 3
