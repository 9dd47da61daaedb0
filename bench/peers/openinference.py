"""openinference-instrumentation: spans of its tracer, with the documents flattened into attributes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench.subjects import Exported, Hits, Subject, Work
from bench.subjects.work import QUESTION

TOOL: Final[Any] = import_module("openinference.instrumentation")


def subject(work: Work, folder: Path) -> Subject:
    """A chain span with a retriever, two chain steps and an LLM span."""
    exported = Exported()
    tracer: Any = TOOL.OITracer(exported.provider.get_tracer("bench"), TOOL.TraceConfig())
    return Subject("openinference", _pipeline(work, tracer), lambda: _kept(exported), flush=exported.flush)


def _pipeline(work: Work, tracer: Any) -> Callable[[Hits], object]:
    def run(hits: Hits) -> str:
        with tracer.start_as_current_span("request", openinference_span_kind="chain") as root:
            root.set_input(QUESTION)
            with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as span:
                found = work.search(QUESTION, hits)
                span.set_attributes(TOOL.get_retriever_attributes(documents=[_document(hit) for hit in found]))
            with tracer.start_as_current_span("rerank", openinference_span_kind="reranker"):
                reranked = work.rerank(QUESTION, found)
            with tracer.start_as_current_span("pack", openinference_span_kind="chain"):
                work.pack(reranked)
            with tracer.start_as_current_span("generate", openinference_span_kind="llm") as span:
                answer = work.generate(QUESTION)
                span.set_output(answer)
            return answer

    return run


def _document(hit: dict[str, Any]) -> dict[str, Any]:
    return {"id": hit["id"], "content": hit["text"], "score": hit["score"]}


def _kept(exported: Exported) -> int:
    return sum(name.endswith(".document.id") for name in exported.last)
