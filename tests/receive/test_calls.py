"""Paths with calls that failed, that were repeated, or that have no retriever before them."""

from __future__ import annotations

from ragtrace.receive._spans import ReceivedSpan, SpanEvent
from ragtrace.types import GenerateRun, PackRun, RerankRun, RetrieveRun
from tests.receive.spans import assembled, model, span
from tests.receive.test_assembly import PROMPT, TEXTS, request


def failed(number: int) -> ReceivedSpan:
    """A call of the model that ended with an error, and without an answer."""
    given = {name: value for name, value in model(number, 1, PROMPT, "").attributes.items() if "output" not in name}
    limit = SpanEvent("exception", 5, {"exception.type": "RateLimitError", "exception.message": "slow down"})
    return span(number, 1, attributes=given, status="error", message="slow down", events=(limit,))


def test_a_call_that_was_repeated() -> None:
    """The first one stays with its error; the answer and what was packed are those of the second."""
    root, found, _ = request()
    record = assembled([root, found, failed(3), model(4, 1, PROMPT, "4.5 percent.")])
    calls = [run for run in record.stages if isinstance(run, GenerateRun)]

    assert [None if run.error is None else run.error.type for run in calls] == ["RateLimitError", None]
    assert record.generation is not None
    assert record.generation.answer == "4.5 percent."
    assert record.packing is not None
    assert [each.chunk_id for each in record.packing.chunks] == ["chunk-0", "chunk-1"]
    assert record.status == "ok"


def test_every_call_failed() -> None:
    """There is no answer, though there was a prompt; the request says so itself."""
    root = span(1, ended_at=9_000, status="error", message="no answer", attributes={"openinference.span.kind": "CHAIN"})
    record = assembled([root, request()[1], failed(3), failed(4)])

    assert record.status == "error"
    assert record.generation is None or record.generation.answer is None
    assert record.packing is not None


def test_a_reranker_without_a_retriever() -> None:
    """What went into it is not taken for what was retrieved: nobody knows what was."""
    given = {"openinference.span.kind": "RERANKER", "reranker.query": "What is the tariff?"}
    for place, text in enumerate(TEXTS):
        given[f"reranker.input_documents.{place}.document.id"] = f"chunk-{place}"
        given[f"reranker.input_documents.{place}.document.content"] = text
    given["reranker.output_documents.0.document.id"] = "chunk-1"
    root, _, said = request()
    record = assembled([root, span(2, 1, attributes=given), said])
    (reranked,) = [run for run in record.stages if isinstance(run, RerankRun)]

    assert not any(isinstance(run, RetrieveRun | PackRun) for run in record.stages)
    assert record.candidates == ()
    assert [(each.chunk_id, each.rank_before, each.rank_after) for each in reranked.moves] == [
        ("chunk-1", 2, 1),
        ("chunk-0", 1, None),
    ]
