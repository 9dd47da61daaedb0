"""Functions that return before their work is done: generators, async generators, coroutines."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import ragtrace
from ragtrace.record import close_overdue
from ragtrace.types import GenerateRun, RetrieveRun

PARTS = ("So ", "it ", "is.")
HIT = {"id": "a", "text": "the text of chunk a", "score": 0.5}


@ragtrace.generate(model="m")
def write(prompt: str, *, k: int = 3) -> Iterator[str]:
    """A streamed answer."""
    yield from PARTS[:k]


@ragtrace.generate(model="m")
async def write_later(prompt: str) -> AsyncIterator[str]:
    """The same, async."""
    for part in PARTS:
        await asyncio.sleep(0)
        yield part


@ragtrace.retrieve
def search(query: str) -> list[dict[str, Any]]:
    """One hit."""
    return [HIT]


async def read(stream: Any) -> list[Any]:
    """All that an async stream gives."""
    return [part async for part in stream]


def shape(record: Any) -> tuple[str, list[str]]:
    """The status of a record, and its stages."""
    return record.status, [type(run).__name__ for run in record.stages]


WHOLE = ("ok", ["RetrieveRun", "GenerateRun"])


def test_a_request_that_returns_its_stream_ends_with_it(recorded: Any) -> None:
    """One record and one trace; the time until the last part is the request's."""

    @ragtrace.request
    def ask(question: str) -> Iterator[str]:
        search(question)
        return write(question)

    stream = ask("q")
    assert inspect.isgenerator(stream)
    assert next(stream) == "So "
    assert recorded.records == []
    assert not ragtrace.current_request().recording
    assert list(stream) == ["it ", "is."]
    assert shape(recorded.record) == WHOLE
    assert recorded.run(GenerateRun).generation.answer == "So it is."
    assert recorded.record.ended_at >= recorded.run(GenerateRun).ended_at
    assert len({span.context.trace_id for span in recorded.spans.values()}) == 1


def test_an_async_request_that_returns_its_stream_ends_with_it(recorded: Any) -> None:
    """The same, awaited first; and from a plain function."""

    @ragtrace.request
    async def ask(question: str) -> AsyncIterator[str]:
        search(question)
        return write_later(question)

    @ragtrace.request
    def ask_at_once(question: str) -> AsyncIterator[str]:
        search(question)
        return write_later(question)

    async def run() -> None:
        stream = await ask("q")
        assert inspect.isasyncgen(stream)
        assert await read(stream) == list(PARTS)
        assert await read(ask_at_once("q")) == list(PARTS)

    asyncio.run(run())
    assert [shape(record) for record in recorded.records] == [WHOLE, WHOLE]


def test_a_returned_stream_that_is_left_early_ends_its_request(recorded: Any) -> None:
    """With what had passed; the stage before the request."""

    @ragtrace.request
    def ask(question: str) -> Iterator[str]:
        search(question)
        return write(question)

    stream = ask("q")
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert shape(recorded.record) == WHOLE
    assert recorded.run(GenerateRun).generation.answer == "So "


def test_a_stream_that_outlives_its_request_is_added_to_it(recorded: Any) -> None:
    """A response object takes it along: same request, same trace, and no record of its own."""

    @ragtrace.request
    def ask(question: str) -> Any:
        search(question)
        return SimpleNamespace(body=write(question))

    response = ask("q")
    assert list(response.body) == list(PARTS)
    (addendum,) = recorded.addenda
    assert (addendum.request_id, addendum.stages[0].generation.answer) == (recorded.record.request_id, "So it is.")
    assert len({span.context.trace_id for span in recorded.spans.values()}) == 1


@pytest.mark.parametrize("wanted", ["plain", "coroutine"])
def test_a_plain_function_that_returns_a_generator_is_a_stream(recorded: Any, wanted: str) -> None:
    """So do many clients: the content is that of the stream."""

    def answer(prompt: str) -> Iterator[str]:
        return (part for part in PARTS)

    async def answer_later(prompt: str) -> Iterator[str]:
        return answer(prompt)

    async def run() -> Any:
        return await ragtrace.generate(answer_later)("p")

    stream: Any = asyncio.run(run()) if wanted == "coroutine" else ragtrace.generate(answer)("p")
    assert inspect.isgenerator(stream)
    assert stream.__name__ == "<genexpr>"
    assert list(stream) == list(PARTS)
    assert recorded.run(GenerateRun).generation.answer == "So it is."


def test_the_generator_protocol_of_a_returned_generator_is_whole(recorded: Any) -> None:
    """send, throw, the returned value, close."""
    closed = []

    def talk() -> Any:
        try:
            got = yield "ready"
            try:
                yield got
            except KeyError:
                yield "caught"
            return "done"
        finally:
            closed.append(True)

    stream = ragtrace.request(lambda: talk())()
    assert [next(stream), stream.send("hello"), stream.throw(KeyError("x"))] == ["ready", "hello", "caught"]
    with pytest.raises(StopIteration) as stopped:
        next(stream)
    assert (stopped.value.value, recorded.record.status, closed) == ("done", "ok", [True])
    stream = ragtrace.request(lambda: talk())()
    next(stream)
    stream.close()
    assert closed == [True, True]


def test_the_async_generator_protocol_of_a_returned_generator_is_whole(recorded: Any) -> None:
    """asend, athrow, aclose."""
    closed = []

    async def talk() -> Any:
        try:
            got = yield "ready"
            try:
                yield got
            except KeyError:
                yield "caught"
        finally:
            closed.append(True)

    async def run() -> None:
        stream = ragtrace.request(lambda: talk())()
        assert await anext(stream) == "ready"
        assert await stream.asend("hello") == "hello"
        assert await stream.athrow(KeyError("x")) == "caught"
        await stream.aclose()

    asyncio.run(run())
    assert (recorded.record.status, closed) == ("ok", [True])


def test_a_plain_function_that_returns_a_coroutine_is_awaited(recorded: Any) -> None:
    """As under another decorator; stages inside of it are in the request, and its exception passes."""

    async def fetch(query: str) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        assert ragtrace.current_request().recording
        if query == "bad":
            raise ValueError("cut")
        return [HIT]

    retrieve = ragtrace.retrieve(functools.partial(lambda query: fetch(query)))
    waiting = retrieve("q")
    assert inspect.iscoroutine(waiting)
    assert asyncio.run(waiting) == [HIT]
    assert [run.chunk_id for run in recorded.run(RetrieveRun).candidates] == ["a"]
    with pytest.raises(ValueError, match="cut"):
        asyncio.run(retrieve("bad"))
    assert recorded.records[-1].status == "error"


def test_what_runs_already_and_what_is_no_generator_keeps_its_identity(recorded: Any) -> None:
    """A generator that the host has begun to read could not be stood in for; iterators of libraries are theirs."""
    begun = (part for part in PARTS)
    next(begun)
    for value in (begun, iter(PARTS), map(str, PARTS), asyncio.Event()):
        assert ragtrace.request(lambda value=value: value)() is value
    assert [record.status for record in recorded.records] == ["ok"] * 4
    assert ragtrace.generate(lambda prompt: begun)("p") is begun
    assert recorded.records[-1].stages[0].unread


def test_wrong_arguments_raise_at_the_call(recorded: Any) -> None:
    """As they do without the decorator, and as those of plain functions do."""
    for call in (lambda: write(), lambda: write("p", 1), lambda: write_later("p", k=1)):  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            call()
    assert [(record.status, record.error.type) for record in recorded.records] == [("error", "TypeError")] * 3


def test_a_decorated_generator_function_is_one_to_all_who_look(recorded: Any) -> None:
    """inspect, pickle, methods, stacked decorators."""

    class Host:
        @ragtrace.generate
        def stream(self, prompt: str) -> Iterator[str]:
            """Parts."""
            yield from PARTS

        @classmethod
        @ragtrace.generate
        async def later(cls, prompt: str) -> AsyncIterator[str]:
            yield cls.__name__

    assert inspect.isgeneratorfunction(write)
    assert inspect.isgeneratorfunction(Host().stream)
    assert inspect.isasyncgenfunction(Host.later)
    assert not inspect.isgeneratorfunction(Host.later)
    assert str(inspect.signature(write)) == "(prompt: 'str', *, k: 'int' = 3) -> 'Iterator[str]'"
    assert (write.__name__, Host.stream.__qualname__.rpartition(".")[2], Host.stream.__doc__) == (
        "write",
        "stream",
        "Parts.",
    )
    assert pickle.loads(pickle.dumps(write)) is write
    assert list(Host().stream("p")) == list(PARTS)
    assert asyncio.run(read(Host.later("p"))) == ["Host"]
    stacked: Any = ragtrace.request(ragtrace.generate(lambda question: (yield "x")))
    assert inspect.isgeneratorfunction(stacked)
    assert list(stacked("q")) == ["x"]
    assert shape(recorded.records[-1]) == ("ok", ["GenerateRun"])
    assert list(ragtrace.generate(functools.partial(write.__wrapped__, k=2))("p")) == ["So ", "it "]


def test_a_generator_function_that_never_ran_leaves_nothing(recorded: Any) -> None:
    """Its body has done nothing; its span ends."""
    with ragtrace.request(query="q"):
        write("p")
    write("p")
    gc.collect()
    assert shape(recorded.record) == ("ok", [])
    assert all(span.end_time for span in recorded.exporter.get_finished_spans())
    assert len(recorded.exporter.get_finished_spans()) == 4


def test_a_returned_generator_that_nobody_reads_is_unread(recorded: Any) -> None:
    """The function has run and its answer is not known: nobody is to be blamed for that."""
    ragtrace.generate(lambda prompt: (part for part in PARTS))("p")
    gc.collect()
    assert recorded.run(GenerateRun).unread


def test_a_stage_belongs_to_the_request_in_which_it_was_called(recorded: Any) -> None:
    """Not to the one in which it is read."""
    with ragtrace.request(query="one", request_id="one"):
        stream = write("p")
        with ragtrace.request(query="one"):
            next(stream)
        list(stream)
    with ragtrace.request(query="two", request_id="two"):
        stream = write("p")
    with ragtrace.request(query="three", request_id="three"):
        list(stream)
    assert [(record.request_id, len(record.stages)) for record in recorded.records] == [
        ("one", 1),
        ("two", 0),
        ("three", 0),
    ]
    assert [addendum.request_id for addendum in recorded.addenda] == ["two"]


def test_a_stage_in_the_cleanup_of_a_stream_stays_in_its_request(recorded: Any) -> None:
    """close() and aclose() run in its context."""

    @ragtrace.request
    def ask(question: str) -> Iterator[str]:
        try:
            yield "a"
        finally:
            search(question)

    @ragtrace.request
    async def ask_later(question: str) -> AsyncIterator[str]:
        try:
            yield "a"
        finally:
            search(question)

    async def run() -> None:
        stream = ask_later("q")
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]

    stream = ask("q")
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    asyncio.run(run())
    assert [shape(record) for record in recorded.records] == [("ok", ["RetrieveRun"])] * 2


def _break(stream: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="cut"):
        list(stream("p"))


def _break_later(stream: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="cut"):
        asyncio.run(read(stream("p")))


def test_a_stream_that_breaks_keeps_what_had_passed(recorded: Any) -> None:
    """And the error: of answers and of candidates."""

    @ragtrace.generate
    def answer(prompt: str) -> Iterator[str]:
        yield "So "
        raise ValueError("cut")

    @ragtrace.retrieve
    async def find(query: str) -> AsyncIterator[dict[str, Any]]:
        yield HIT
        raise ValueError("cut")

    _break(answer)
    _break_later(find)
    answered, found = recorded.records
    assert (answered.stages[0].generation.answer, answered.error.stage) == ("So ", "generate")
    assert ([run.chunk_id for run in found.stages[0].candidates], found.error.stage) == (["a"], "retrieve")
    assert not found.stages[0].unread


def test_a_stream_whose_end_is_cancelled_keeps_what_had_passed(recorded: Any) -> None:
    """The host's cleanup waits, and its task is cancelled."""

    @ragtrace.generate
    async def answer(prompt: str) -> AsyncIterator[str]:
        try:
            yield "So "
        finally:
            await asyncio.sleep(60)

    async def run() -> None:
        stream = answer("p")
        await anext(stream)
        closing = asyncio.ensure_future(stream.aclose())  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(run())
    assert recorded.run(GenerateRun).generation.answer == "So "
    assert recorded.record.error.type == "asyncio.exceptions.CancelledError"


@pytest.mark.parametrize("is_request_streamed", [False, True])
def test_a_client_that_goes_away_is_no_error_of_the_request(recorded: Any, is_request_streamed: bool) -> None:
    """The server cancels the task that awaits the next part: what had passed stands, and the cancellation."""

    @ragtrace.generate
    async def answer(prompt: str) -> AsyncIterator[str]:
        yield "So "
        await asyncio.Event().wait()

    @ragtrace.request
    async def ask(question: str) -> AsyncIterator[str]:
        async for part in answer(question):
            yield part

    async def run() -> None:
        passed = asyncio.Event()

        async def send() -> None:
            async for _ in ask("q") if is_request_streamed else answer("q"):
                passed.set()

        sending = asyncio.create_task(send())
        await passed.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

    asyncio.run(run())
    record, generation = recorded.record, recorded.run(GenerateRun)
    assert (record.status, record.error, record.flags) == ("ok", None, ())
    assert (generation.generation.answer, generation.error.type) == ("So ", "asyncio.exceptions.CancelledError")


def test_a_request_that_reads_its_stream_and_is_cancelled_names_the_stage(recorded: Any) -> None:
    """It is no stream itself, so that nobody has seen an answer: it fails."""

    @ragtrace.generate
    async def answer(prompt: str) -> AsyncIterator[str]:
        yield "So "
        raise asyncio.CancelledError

    @ragtrace.request
    async def ask(question: str) -> str:
        return "".join([part async for part in answer(question)])

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await ask("q")

    asyncio.run(run())
    assert (recorded.record.status, recorded.record.error.stage) == ("error", "generate")


def test_items_are_as_they_were_when_they_passed(recorded: Any) -> None:
    """Whatever the host makes of them afterwards, they are recorded as found, and recognized by the next stage."""

    @ragtrace.retrieve
    def find(query: str) -> Iterator[Any]:
        yield {"id": "a", "text": "the text of a", "score": 1.0}
        yield {"id": "b", "text": "the text of b", "score": 0.9, "metadata": {"pages": [1, 2]}}
        yield SimpleNamespace(id="c", text="the text of c", score=0.8)
        yield (SimpleNamespace(id="d", text="the text of d"), 0.7)

    with ragtrace.request(query="q"):
        hits = []
        for hit in find("q"):
            hits.append(hit)
            if isinstance(hit, dict):
                hit.get("metadata", {"pages": []})["pages"].append("changed")
                hit.update(text="changed", score=-1.0)
            else:
                (hit[0] if isinstance(hit, tuple) else hit).text = "changed"
        ragtrace.rerank(lambda query, hits: hits[::-1])("q", hits)
    found = recorded.run(RetrieveRun).candidates
    assert [(each.chunk_id, each.score, each.text) for each in found] == [
        (name, score, f"the text of {name}") for name, score in (("a", 1.0), ("b", 0.9), ("c", 0.8), ("d", 0.7))
    ]
    assert found[1].metadata == {"pages": [1, 2]}
    assert [(move.chunk_id, move.rank_before) for move in recorded.record.moves] == [
        ("d", 4),
        ("c", 3),
        ("b", 2),
        ("a", 1),
    ]


def test_pages_are_one_after_the_other(recorded: Any) -> None:
    """Their order is that of the search, and not the best of each page first."""

    @ragtrace.retrieve
    def find(query: str) -> Iterator[Any]:
        yield [{"id": "a", "text": "text a"}, {"id": "b", "text": "text b"}]
        yield []
        yield {"documents": [{"id": "c", "text": "text c"}]}

    list(find("q"))
    assert [each.chunk_id for each in recorded.run(RetrieveRun).candidates] == ["a", "b", "c"]
    assert not recorded.run(RetrieveRun).unread


def test_a_streamed_packing_of_chunks_messages_or_texts(recorded: Any) -> None:
    """Chunks as they passed; messages and texts are the prompt."""

    def packed(*parts: Any) -> Any:
        @ragtrace.pack
        def pack(hits: Any) -> Iterator[Any]:
            yield from parts

        with ragtrace.request(query="q"):
            for part in pack([HIT]):
                if isinstance(part, dict) and "id" in part:
                    part.update(id="changed")
        return recorded.records[-1].stages[0].packing

    chunks = [{"id": "a", "text": "the text", "tokens": 2, "tokens_full": 4}, {"id": "b", "text": "of chunk"}]
    assert [(each.chunk_id, each.tokens) for each in packed(*chunks).chunks] == [("a", 2), ("b", None)]
    chunks = [{"id": "a", "text": "the text"}, {"id": "b", "text": "of chunk"}]
    assert [each.chunk_id for each in packed(chunks, "Use them.").chunks] == ["a", "b"]
    with ragtrace.request(query="q"):
        search("q")
        messages = [{"role": "system", "content": "Use this:"}, {"role": "user", "content": HIT["text"]}]
        list(ragtrace.pack(lambda hits: (each for each in messages))([HIT]))
    assert [each.chunk_id for each in recorded.records[-1].stages[-1].packing.chunks] == ["a"]


def test_the_hosts_own_map_of_a_stream_gets_its_items(recorded: Any) -> None:
    """`returns` is asked once, at the end."""

    @ragtrace.generate(returns=lambda parts: "".join(part["piece"] for part in parts))
    def answer(prompt: str) -> Iterator[dict[str, str]]:
        for part in PARTS:
            yield {"piece": part}

    list(answer("p"))
    assert recorded.run(GenerateRun).generation.answer == "So it is."


def test_a_stream_takes_its_share_of_memory_and_no_more(configure: Any) -> None:
    """What is beyond it passes unrecorded and counted, and the stage is unread."""
    recorded = configure(queue_bytes=16 * 1000)

    @ragtrace.generate
    def endless(prompt: str) -> Iterator[str]:
        while True:
            yield "x" * 90

    stream = endless("p")
    assert {next(stream) for _ in range(100)} == {"x" * 90}
    stream.close()  # type: ignore[attr-defined]
    run = recorded.run(GenerateRun)
    assert run.unread
    assert 500 <= len(run.generation.answer) <= 1200
    assert recorded.faults == [("stream.generate", "too_long")]


def test_nothing_is_collected_for_a_request_that_was_closed(configure: Any) -> None:
    """The host still reads its stream; what had passed follows."""
    recorded = configure(request_ttl=60)

    @ragtrace.generate
    def endless(prompt: str) -> Iterator[str]:
        while True:
            yield "x"

    with ragtrace.request(query="q") as request:
        stream = endless("p")
    with ragtrace.request(query="q") as request:
        stream = endless("p")
        next(stream)
        request._recording.clock -= 61 * 10**9  # type: ignore[union-attr]
        close_overdue()
        for _ in range(1000):
            next(stream)
        stream.close()  # type: ignore[attr-defined]
    (addendum,) = recorded.addenda
    assert (addendum.request_id, addendum.stages[0].unread) == (request.request_id, True)
    assert len(addendum.stages[0].generation.answer) < 100
    assert recorded.faults == [("stream.generate", "expired")]


def test_citations_by_place_are_known_after_the_requests_end(recorded: Any) -> None:
    """The packing is remembered by the answer that streams."""

    def answer(prompt: str) -> Iterator[Any]:
        yield {"content": "So [1].", "citations": [1]}

    with ragtrace.request(query="q"):
        ragtrace.pack(lambda hits: [HIT])([HIT])
        stream = ragtrace.generate(answer)("p")
    list(stream)
    (addendum,) = recorded.addenda
    assert [each.chunk_id for each in addendum.stages[0].generation.citations] == ["a"]


def test_without_configure_the_hosts_own_generator_is_given(recorded: Any) -> None:
    """Nothing is between."""
    ragtrace.record.install(None)
    stream = (part for part in PARTS)
    assert ragtrace.generate(lambda prompt: stream)("p") is stream
    assert list(write("p")) == list(PARTS)
