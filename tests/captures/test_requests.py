"""How stages, requests, tasks and streams lie inside of each other, in every mode."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import ragtrace
from ragtrace.types import GenerateRun, RerankRun, RetrieveRun, StageRun
from tests.captures.matrix import MODES
from tests.captures.pipelines import Stages, drive, settled, stages_of
from tests.frameworks.instrumented import Records, recording

LETTERS = {name: f"{name} is a letter of the Greek alphabet" for name in ("alpha", "beta", "gamma", "delta")}


def hit(name: str, **parts: Any) -> dict[str, Any]:
    """A chunk."""
    return {"id": name, "text": LETTERS[name], "score": 0.5, **parts}


def pipeline(mode: str, *found: Any) -> Stages:
    """Stages whose retriever finds these chunks, and whose reranker turns them around."""
    parts = ["It ", "is."] if mode.endswith("stream") else "It is."
    hits = list(found) or [hit("alpha"), hit("beta")]
    return stages_of(
        "function", mode, lambda query: hits, lambda query, candidates: candidates[::-1], lambda candidates: candidates,
        lambda prompt: parts,
    )  # fmt: skip


def ids(run: StageRun) -> list[str]:
    """What a retriever found."""
    assert isinstance(run, RetrieveRun)
    return [each.chunk_id for each in run.candidates]


def every_mode(where: str, modes: tuple[str, ...] = MODES) -> pytest.MarkDecorator:
    """The test in each mode."""
    marked = [pytest.param(mode, marks=pytest.mark.captures("record", where=where, mode=mode)) for mode in modes]
    return pytest.mark.parametrize("mode", marked)


@pytest.fixture
def records() -> Any:
    """A recorder in use."""
    with recording() as found:
        yield found


@every_mode("a stage without a request")
def test_a_stage_without_a_request(records: Records, mode: str) -> None:
    """A request opens by itself, and ends with the stage."""
    drive(settled(pipeline(mode).search("alone")), mode)
    assert (records.one.query.original, records.stages()) == ("alone", ["retrieve"])
    assert ids(records.one.stages[0]) == ["alpha", "beta"]
    assert not ragtrace.current_request().recording


@every_mode("several retrievers, merged")
def test_several_retrievers(records: Records, mode: str) -> None:
    """Each run is kept; the candidates are the union, with their modalities, and what is reranked."""
    first, second = pipeline(mode), pipeline(mode, hit("beta"), hit("gamma", modality="image"))

    async def ask() -> None:
        with ragtrace.request(query="q"):
            found = [*await settled(first.search("q one")), *await settled(second.search("q two"))]
            await settled(first.rerank("q", found))

    drive(ask(), mode)
    record = records.one
    assert [ids(run) for run in record.stages[:2]] == [["alpha", "beta"], ["beta", "gamma"]]
    assert {each.chunk_id: each.modality for each in record.candidates} == {
        "alpha": "text",
        "beta": "text",
        "gamma": "image",
    }
    reranking = record.stages[2]
    assert isinstance(reranking, RerankRun)
    assert [(each.chunk_id, each.rank_before, each.rank_after) for each in reranking.moves] == [
        ("gamma", 4, 1),
        ("beta", 2, 2),
        ("alpha", 1, 4),
    ]


@every_mode("the same stage again")
def test_a_loop(records: Records, mode: str) -> None:
    """An agent that searches and writes in turn: runs of their own, in their order."""
    stages = pipeline(mode)

    async def ask() -> None:
        with ragtrace.request(query="q"):
            for number in range(3):
                await settled(stages.search(f"q {number}"))
                await settled(stages.write("p"))

    drive(ask(), mode)
    assert records.stages() == ["retrieve", "generate"] * 3
    queries = [run.query for run in records.one.stages if isinstance(run, RetrieveRun)]
    answers = [run.generation.answer for run in records.one.stages if isinstance(run, GenerateRun)]
    assert (queries, answers) == (["q 0", "q 1", "q 2"], ["It is."] * 3)


class Inside:
    """Retrievers that ask a retriever, in each mode."""

    def __init__(self, mode: str) -> None:
        self.inner = pipeline(mode).search
        self.ask = {
            "sync": self.plain,
            "async": self.later,
            "stream": self.streamed,
            "async stream": self.streamed_later,
        }[mode]

    @ragtrace.retrieve
    def plain(self, query: str) -> Any:
        """Sync."""
        return self.inner(query + "?")[::-1]

    @ragtrace.retrieve
    async def later(self, query: str) -> Any:
        """Async."""
        return (await self.inner(query + "?"))[::-1]

    @ragtrace.retrieve
    def streamed(self, query: str) -> Any:
        """A generator."""
        yield from list(self.inner(query + "?"))[::-1]

    @ragtrace.retrieve
    async def streamed_later(self, query: str) -> Any:
        """An async generator."""
        for part in [part async for part in self.inner(query + "?")][::-1]:
            yield part


@every_mode("a stage inside a stage")
def test_a_stage_inside_a_stage(records: Records, mode: str) -> None:
    """Class-based retrievers over retrievers: both runs are kept, the inner one first."""
    drive(settled(Inside(mode).ask("q")), mode)
    assert [(run.query, ids(run)) for run in records.one.stages if isinstance(run, RetrieveRun)] == [
        ("q?", ["alpha", "beta"]),
        ("q", ["beta", "alpha"]),
    ]


@every_mode("a request inside a request")
def test_a_request_inside_a_request(records: Records, mode: str) -> None:
    """One record, the outer question, and what the inner one adds."""
    stages = pipeline(mode)

    async def ask() -> None:
        with ragtrace.request(query="outer"), ragtrace.request(query="inner", segment="deep", flag="vip"):
            await settled(stages.search("inner"))

    drive(ask(), mode)
    record = records.one
    assert (record.query.original, record.segment, record.flags) == ("outer", "deep", ("vip",))
    assert records.stages() == ["retrieve"]


@every_mode("requests at once")
def test_requests_at_once(records: Records, mode: str) -> None:
    """Threads, tasks and streams that are read in turn: each record has its own stages."""

    def request(name: str) -> Any:
        return pipeline(mode, hit(name)).search(name)

    async def tasks() -> None:
        await asyncio.gather(*(request(name) for name in LETTERS))

    async def in_turn() -> None:
        streams = [request(name) for name in LETTERS]
        for _ in range(2):
            for stream in streams:
                await anext(stream, None)

    if mode == "sync":
        with ThreadPoolExecutor() as pool:
            list(pool.map(request, LETTERS))
    elif mode == "stream":
        streams = [request(name) for name in LETTERS]
        for _ in range(2):
            for stream in streams:
                next(stream, None)
    else:
        asyncio.run(tasks() if mode == "async" else in_turn())
    assert {record.query.original: [each.chunk_id for each in record.candidates] for record in records.all} == {
        name: [name] for name in LETTERS
    }


@every_mode("a stream that is left early", MODES[2:])
def test_a_stream_that_is_left_early(records: Records, mode: str) -> None:
    """What had passed until then is recorded, and the request is well."""
    parts = pipeline(mode).write("p")

    async def read() -> None:
        assert await anext(parts) == "It "
        await parts.aclose()

    if mode == "stream":
        assert next(parts) == "It "
        del parts
        gc.collect()
    else:
        asyncio.run(read())
    assert (records.generation().answer, records.one.status) == ("It ", "ok")


@every_mode("a request that returns its stream", MODES[2:])
def test_a_request_that_returns_its_stream(records: Records, mode: str) -> None:
    """It ends with the stream: one record, one trace, the whole answer."""
    stages = pipeline(mode)

    @ragtrace.request
    def ask(question: str) -> Any:
        return stages.write(question)

    assert drive(settled(ask("q")), mode) == ["It ", "is."]
    assert (records.one.query.original, records.stages(), records.generation().answer) == ("q", ["generate"], "It is.")


@every_mode("an exception that the host handles")
def test_an_exception_that_the_host_handles(records: Records, mode: str) -> None:
    """A fallback retriever is a healthy request with one failed run."""

    def broken(query: str) -> Any:
        raise KeyError(query)

    failing = stages_of("function", mode, *[broken] * 4)

    async def ask() -> None:
        with ragtrace.request(query="q"):
            with pytest.raises(KeyError):
                await settled(failing.search("q"))
            await settled(pipeline(mode).search("q"))

    drive(ask(), mode)
    first, second = records.one.stages
    assert first.error is not None
    assert (records.one.status, first.error.type, second.error) == ("ok", "KeyError", None)
    assert [each.chunk_id for each in records.one.candidates] == ["alpha", "beta"]


@every_mode("objects that the host changes afterwards")
def test_objects_that_the_host_changes(records: Records, mode: str) -> None:
    """What the stage returned is what is recorded."""
    found = [SimpleNamespace(**hit(name, metadata={"tags": [name]})) for name in ("alpha", "beta")]

    async def ask() -> None:
        with ragtrace.request(query="q"):
            hits = await settled(pipeline(mode, *found).search("q"))
            for each in hits:
                each.metadata["tags"].append("changed")
                each.id = each.text = each.score = "changed"
            hits.clear()

    drive(ask(), mode)
    assert [(each.chunk_id, each.text, each.score, each.metadata) for each in records.one.candidates] == [
        (name, LETTERS[name], 0.5, {"tags": [name]}) for name in ("alpha", "beta")
    ]
