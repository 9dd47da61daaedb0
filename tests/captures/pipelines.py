"""Pipelines of every form and mode of Python's callables, and results of every type on their way through the stages."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, TypeVar

import ragtrace
from ragtrace.record.coercion import Chunk
from ragtrace.types import PackRun, RequestRecord, RerankRun, RetrieveRun
from tests.captures.matrix import MODES
from tests.frameworks.instrumented import recording

__all__ = ["FORMS", "Stages", "check_stages", "drive", "run", "settled", "stages_of"]

T = TypeVar("T")
Body = Callable[..., Any]

FORMS: Final = ("function", "method", "class method", "static method", "callable object", "partial")
_RECEIVERS: Final = {"method": "self, ", "class method": "cls, ", "callable object": "self, "}
_SOURCES: Final = {
    "sync": "def stage({parameters}):\n    return body({arguments})",
    "async": "async def stage({parameters}):\n    return body({arguments})",
    "stream": "def stage({parameters}):\n    yield from body({arguments})",
    "async stream": "async def stage({parameters}):\n    for part in body({arguments}):\n        yield part",
}


class Stages(NamedTuple):
    """The four stages, decorated."""

    search: Body
    rerank: Body
    pack: Body
    write: Body


def stages_of(form: str, mode: str, search: Body, rerank: Body, pack: Body, write: Body) -> Stages:
    """Decorated callables of this form and mode, which return what these functions do."""
    return Stages(
        _decorated(form, mode, ragtrace.retrieve, "query", search),
        _decorated(form, mode, ragtrace.rerank, "query, candidates", rerank),
        _decorated(form, mode, ragtrace.pack(budget=100), "candidates", pack),
        _decorated(form, mode, ragtrace.generate(model="m"), "prompt", write),
    )


def _decorated(form: str, mode: str, decorate: Any, arguments: str, body: Body) -> Body:
    space: dict[str, Any] = {"body": body}
    parameters = _RECEIVERS.get(form, "") + arguments
    exec(_SOURCES[mode].format(parameters=parameters, arguments=arguments), space)
    stage = space["stage"]
    if form == "callable object":
        found = decorate(type("Host", (), {"__call__": stage})())
    elif form == "partial":
        found = decorate(functools.partial(stage))
    elif form == "function":
        found = decorate(stage)
    else:
        around: Any = {"method": lambda each: each, "class method": classmethod, "static method": staticmethod}[form]
        found = type("Host", (), {"stage": decorate(around(stage))})().stage
    return found  # type: ignore[no-any-return]


async def settled(value: Any) -> Any:
    """A stage's value when it is there; the parts of a stream as a list."""
    if inspect.isasyncgen(value):
        return [part async for part in value]
    if inspect.isgenerator(value):
        return list(value)
    return await value if inspect.isawaitable(value) else value


async def run(stages: Stages, question: str) -> Any:
    """A request through all stages; a streamed prompt is made of the packed texts."""
    with ragtrace.request(query=question):
        ranked = await settled(stages.rerank(question, await settled(stages.search(question))))
        packed = await settled(stages.pack(ranked))
        return await settled(stages.write("Use: " + " ".join(chunk["text"] for chunk in packed)))


def drive(work: Coroutine[Any, Any, T], mode: str) -> T:
    """What `work` returns, in an event loop only where the mode has one."""
    if mode.startswith("async"):
        import asyncio

        return asyncio.run(work)
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits for something")


def check_stages(found: Any, expected: list[Chunk], modes: tuple[str, ...] = MODES, packed: bool = True) -> None:
    """Asserts that `found` is known as these chunks when stages return it, are given it and return it again.

    `packed` is false for what no packer returns; such a one returns ids instead.
    """
    for mode in modes:
        record = _handed_on(found, mode, None if packed else [chunk.identity for chunk in expected])
        assert record.stages[0].name == "stage"
        _check(record, expected, _is_listed(found))


def _handed_on(found: Any, mode: str, ids: list[str] | None) -> RequestRecord:
    def backwards(query: str, candidates: Any) -> Any:
        return candidates[::-1] if _is_listed(candidates) else candidates

    def best(candidates: Any) -> Any:
        if ids is not None:
            return [{"id": name} for name in ids]
        return candidates[:1] if _is_listed(candidates) else candidates

    stages = stages_of("function", mode, lambda query: found, backwards, best, lambda prompt: "")

    async def work() -> None:
        with ragtrace.request(query="q"):
            ranked = await settled(stages.rerank("q", await settled(stages.search("q"))))
            await settled(stages.pack(ranked))

    with recording() as records:
        drive(work(), mode)
        return records.one


def _is_listed(value: Any) -> bool:
    """Whether it is one list of chunks, which can be turned around and cut."""
    return isinstance(value, list) and not isinstance(value[0], list)


def _check(record: RequestRecord, expected: list[Chunk], listed: bool) -> None:
    retrieval, reranking, packing = record.stages
    assert isinstance(retrieval, RetrieveRun)
    assert isinstance(reranking, RerankRun)
    assert isinstance(packing, PackRun)
    assert [_plain(each) for each in retrieval.candidates] == [
        _plain(chunk.candidate(rank)) for rank, chunk in enumerate(expected, 1)
    ]
    before = [(chunk.identity, rank) for rank, chunk in enumerate(expected, 1)]
    order = before[::-1] if listed else before
    moves = [(move.chunk_id, move.rank_before, move.rank_after) for move in reranking.moves]
    assert moves == [(chunk_id, rank, place) for place, (chunk_id, rank) in enumerate(order, 1)]
    kept = [chunk_id for chunk_id, _ in (order[:1] if listed else order)]
    assert [chunk.chunk_id for chunk in packing.packing.chunks] == kept
    assert {chunk.chunk_id for chunk in packing.packing.dropped} == {chunk_id for chunk_id, _ in order} - set(kept)


def _plain(candidate: Any) -> tuple[Any, ...]:
    """Without the hash that the sink adds."""
    one = candidate
    return (one.chunk_id, one.rank, one.score, one.text, one.metadata, one.doc_id, one.source, one.modality)
