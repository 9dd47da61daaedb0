"""OpenLLMetry's calls of rerankers, which are written as prompts and completions."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.receive._spans import ReceivedSpan
from ragtrace.types import GenerateRun, RequestRecord, RerankRun
from tests.receive.spans import assembled, model, retriever, span

QUESTION = "What is the tariff?"
TEXTS = [f"The tariff of {year} is {year % 7} percent of the value." for year in range(2016, 2022)]


def reranker(kept: list[str], **given: Any) -> ReceivedSpan:
    """Cohere's reranker: the documents are messages of the prompt, and the query is the user's."""
    written: dict[str, Any] = {"llm.request.type": "rerank", "gen_ai.system": "Cohere"}
    written["gen_ai.request.model"] = "rerank-v3.5"
    for place, (role, text) in enumerate([*(("system", text) for text in TEXTS), ("user", QUESTION)]):
        written |= {f"gen_ai.prompt.{place}.role": role, f"gen_ai.prompt.{place}.content": text}
    for place, text in enumerate(kept):
        written |= {f"gen_ai.completion.{place}.role": "assistant", f"gen_ai.completion.{place}.content": text}
    return span(3, 1, attributes=written | given)


def record(reranked: ReceivedSpan) -> RequestRecord:
    """A request with this reranker."""
    prompt = f"{TEXTS[4]}\n{TEXTS[1]}\n{QUESTION}"
    return assembled([span(1, ended_at=9_000), retriever(2, 1, TEXTS), reranked, model(4, 1, prompt, "5 percent.")])


@pytest.mark.parametrize("end", ["", "\n{}"], ids=["places", "texts as well"])
def test_rerank(end: str) -> None:
    """A reranker's span is no generation: what it kept has ranks and scores, all else was dropped."""
    kept = [f"Doc {place}, Score: {score}" + end.format(TEXTS[place]) for place, score in ((4, 0.9), (1, 8e-05))]
    found = record(reranker(kept))
    (run,) = [run for run in found.stages if isinstance(run, RerankRun)]

    assert [(move.chunk_id, move.rank_before, move.rank_after, move.score) for move in run.moves[:3]] == [
        ("chunk-4", 5, 1, 0.9),
        ("chunk-1", 2, 2, 8e-05),
        ("chunk-0", 1, None, None),
    ]
    assert len(run.moves) == len(TEXTS)
    assert sum(isinstance(run, GenerateRun) for run in found.stages) == 1
    assert (found.versions["reranker"], found.query.original) == ("rerank-v3.5", QUESTION)


def test_rerank_without_content() -> None:
    """Nothing is known of what it kept."""
    given = {name: value for name, value in reranker([]).attributes.items() if "gen_ai.prompt" not in name}
    (run,) = [run for run in record(span(3, 1, attributes=given)).stages if isinstance(run, RerankRun)]

    assert (run.moves, run.unread) == ((), True)


def test_rerank_at_the_limit_of_attributes() -> None:
    """The type is dropped first; what the completions say shows what it was, and their own texts what was kept."""
    whole = reranker([f"Doc 0, Score: 0.9\n{TEXTS[0]}", "Doc 5, Score: 0.5", "Doc 1, Score: 0.4"]).attributes
    left = dict(list(whole.items())[-12:])
    (run,) = [run for run in record(span(3, 1, attributes=left, dropped=11)).stages if isinstance(run, RerankRun)]

    assert [(move.chunk_id, move.rank_after) for move in run.moves] == [("chunk-0", 1), ("chunk-5", 2)]


def test_tools_do_not_speak_for_the_request() -> None:
    """Under a root that says nothing, a tool's input and output are neither question nor answer."""
    given = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.input": '{"query": "weather"}',
        "traceloop.entity.output": '"tool said 42"',
    }
    spans = [span(1, ended_at=9_000), span(2, 1, attributes=given), retriever(3, 1, TEXTS)]

    assert assembled(spans).query.original == QUESTION
    assert assembled(spans).generation is None
