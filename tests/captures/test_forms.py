"""Decorated callables of every form and mode, and blocks: the whole evidence path is in the record."""

from __future__ import annotations

from typing import Any

import pytest

import ragtrace
from ragtrace.types import GenerateRun, PackRun, RequestRecord, RerankRun, RetrieveRun
from tests.captures.matrix import MODES
from tests.captures.pipelines import FORMS, Stages, drive, run, stages_of
from tests.frameworks.instrumented import Records, recording

TEXTS = {"a": "Alpha is the first letter.", "b": "Beta is the second letter.", "c": "Gamma is the third letter."}
HITS = [
    {"id": name, "text": text, "score": 1 - place / 4, "metadata": {"page": place}}
    for place, (name, text) in enumerate(TEXTS.items())
]
CUT = TEXTS["c"][:14]
PACKED = [{"id": "c", "text": CUT, "tokens": 3, "tokens_full": 5}, {"id": "b", "text": TEXTS["b"]}]
PROMPT = f"Use: {CUT} {TEXTS['b']}"
ANSWER = {"answer": "It is gamma.", "usage": {"prompt_tokens": 7, "completion_tokens": 3}, "finish_reason": "stop"}
QUESTION = "Which letter?"


def written(mode: str) -> Any:
    """What a generator returns, or yields part by part."""
    return ["It ", "is gamma."] if mode.endswith("stream") else ANSWER


def pipeline(form: str, mode: str) -> Stages:
    """A pipeline that turns the candidates around, drops one and cuts one."""
    return stages_of(
        form,
        mode,
        lambda query: HITS,
        lambda query, candidates: candidates[::-1],
        lambda candidates: PACKED,
        lambda prompt: written(mode),
    )


def of(kind: Any, record: RequestRecord) -> Any:
    """The only run of a stage."""
    (found,) = [each for each in record.stages if isinstance(each, kind)]
    return found


def check(record: RequestRecord, usage: bool) -> None:
    """Everything that the cells name is in the record, and nothing else."""
    assert (record.query.original, record.status, len(record.stages)) == (QUESTION, "ok", 4)
    candidates = of(RetrieveRun, record).candidates
    assert [(each.chunk_id, each.rank, each.score, each.text, each.metadata) for each in candidates] == [
        (hit["id"], rank, hit["score"], hit["text"], hit["metadata"]) for rank, hit in enumerate(HITS, 1)
    ]
    moves = [(each.chunk_id, each.rank_before, each.rank_after) for each in of(RerankRun, record).moves]
    assert moves == [("c", 3, 1), ("b", 2, 2), ("a", 1, 3)]
    packing = of(PackRun, record).packing
    assert [(each.chunk_id, each.truncated, each.position) for each in packing.chunks] == [
        ("c", True, 1),
        ("b", False, 2),
    ]
    assert (packing.chunks[0].tokens, packing.chunks[0].tokens_full, packing.budget_tokens) == (3, 5, 100)
    assert [each.chunk_id for each in packing.dropped] == ["a"]
    generation = of(GenerateRun, record).generation
    assert (generation.answer, generation.model) == ("It is gamma.", "m")
    assert "{chunk:b}" in generation.prompt_template
    assert TEXTS["b"] not in generation.prompt_template
    if usage:
        assert (generation.usage.input_tokens, generation.usage.output_tokens) == (7, 3)
        assert generation.finish_reason == "stop"


PATH = ("ids", "scores", "texts", "metadata", "moves", "packed", "truncated", "dropped", "answer")


def cases(*whats: str) -> list[Any]:
    """Every form in every mode, with its cells; streams name no tokens."""
    return [
        pytest.param(form, mode, id=f"{form}-{mode}", marks=pytest.mark.captures(*found, where=form, mode=mode))
        for form in FORMS
        for mode in MODES
        for found in [whats + (("usage",) if "answer" in whats and not mode.endswith("stream") else ())]
    ]


@pytest.mark.parametrize(("form", "mode"), cases(*PATH))
def test_a_pipeline_of_callables(form: str, mode: str) -> None:
    """Candidates, moves, packing and answer, whatever is decorated."""
    with recording() as records:
        drive(run(pipeline(form, mode), QUESTION), mode)
        check(records.one, usage=not mode.endswith("stream"))


@pytest.mark.parametrize(("form", "mode"), cases("error"))
def test_an_exception_of_a_callable(form: str, mode: str) -> None:
    """It arrives unchanged; the record says of what kind it is and where it comes from."""
    error = TimeoutError("the index is away")

    def broken(query: str) -> Any:
        raise error

    with recording() as records:
        with pytest.raises(TimeoutError) as caught:
            drive(
                run(pipeline(form, mode)._replace(search=stages_of(form, mode, *[broken] * 4).search), QUESTION), mode
            )
        assert caught.value is error
        check_error(records)


def check_error(records: Records) -> None:
    """The record of a retriever that was away."""
    record = records.one
    assert record.error is not None
    assert (record.status, record.error.type, record.error.stage) == ("error", "TimeoutError", "retrieve")
    assert record.error.message == "the index is away"


def blocks(error: Exception | None = None) -> None:
    """The same pipeline in `with` blocks."""
    with ragtrace.request(query=QUESTION):
        with ragtrace.retrieve(query=QUESTION) as retrieval:
            if error:
                raise error
            retrieval.candidates(HITS)
        with ragtrace.rerank(candidates=HITS) as reranking:
            reranking.candidates(HITS[::-1])
        with ragtrace.pack(candidates=HITS, budget=100) as packing:
            packing.packed(PACKED)
        with ragtrace.generate(model="m", prompt=PROMPT) as generation:
            generation.answer(ANSWER)


async def blocks_later(error: Exception | None = None) -> None:
    """In `async with` blocks."""
    async with ragtrace.request(query=QUESTION):
        async with ragtrace.retrieve(query=QUESTION) as retrieval:
            if error:
                raise error
            retrieval.candidates(HITS)
        async with ragtrace.rerank(candidates=HITS) as reranking:
            reranking.candidates(HITS[::-1])
        async with ragtrace.pack(candidates=HITS, budget=100) as packing:
            packing.packed(PACKED)
        async with ragtrace.generate(model="m", prompt=PROMPT) as generation:
            generation.answer(ANSWER)


@pytest.mark.captures(*PATH, "usage", where="`with` block", mode="sync")
def test_blocks() -> None:
    """Values are given to the handles."""
    with recording() as records:
        blocks()
        check(records.one, usage=True)


@pytest.mark.captures(*PATH, "usage", where="`with` block", mode="async")
def test_async_blocks() -> None:
    """The same in a coroutine."""
    with recording() as records:
        drive(blocks_later(), "async")
        check(records.one, usage=True)


@pytest.mark.captures("error", where="`with` block", mode=("sync", "async"))
def test_an_exception_in_a_block() -> None:
    """As of a callable."""
    for work in (blocks, lambda error: drive(blocks_later(error), "async")):
        with recording() as records:
            with pytest.raises(TimeoutError):
                work(TimeoutError("the index is away"))
            check_error(records)
