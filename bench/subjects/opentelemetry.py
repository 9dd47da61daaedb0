"""No recording at all, and OpenTelemetry's SDK without any tool on top of it."""

from __future__ import annotations

import json
from collections.abc import Callable

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler
from opentelemetry.trace import Tracer

from bench.subjects.work import QUESTION, Hits, Subject, Work

__all__ = ["Exported", "bare", "bare_unrecorded", "bare_with_json", "nothing"]


class Exported:
    """A tracer provider with a batch processor and an exporter that forgets all but the last flush."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self.provider = TracerProvider(sampler)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(BatchSpanProcessor(self._exporter, max_queue_size=100_000))
        self.last: dict[str, object] = {}  # attributes, by name and by "name of span"

    def another(self) -> InMemorySpanExporter:
        """The exporter, for a tool that makes its own processor."""
        return self._exporter

    def flush(self) -> None:
        """Export what waits, and keep the attributes of the last request."""
        self.provider.force_flush()
        self.forget()

    def forget(self) -> None:
        """Keep the attributes of the last request alone."""
        for span in self._exporter.get_finished_spans()[-5:]:
            for name, value in (span.attributes or {}).items():
                self.last[name] = self.last[f"{name} of {span.name}"] = value
        self._exporter.clear()

    def documents(self, attribute: str) -> int:
        """How many documents an attribute of the last request lists."""
        return len(json.loads(str(self.last.get(attribute, "[]"))))


def nothing(work: Work) -> Subject:
    """The stages alone."""

    def run(hits: Hits) -> str:
        work.pack(work.rerank(QUESTION, work.search(QUESTION, hits)))
        return work.generate(QUESTION)

    return Subject("nothing", run)


def bare(work: Work) -> Subject:
    """A root and four child spans without attributes."""
    exported = Exported()
    return Subject(
        "bare", _pipeline(work, exported.provider.get_tracer("bench"), with_json=False), flush=exported.flush
    )


def bare_unrecorded(work: Work) -> Subject:
    """The same where OpenTelemetry's own sampler says no: what any span costs a host."""
    exported = Exported(ParentBased(ALWAYS_OFF))
    return Subject(
        "bare, none recorded",
        _pipeline(work, exported.provider.get_tracer("bench"), with_json=False),
        flush=exported.flush,
    )


def bare_with_json(work: Work) -> Subject:
    """The same with the candidates as one JSON attribute."""
    exported = Exported()
    run = _pipeline(work, exported.provider.get_tracer("bench"), with_json=True)
    return Subject("bare + json", run, lambda: exported.documents("documents"), flush=exported.flush)


def _pipeline(work: Work, tracer: Tracer, *, with_json: bool) -> Callable[[Hits], object]:
    def run(hits: Hits) -> str:
        with tracer.start_as_current_span("request"):
            with tracer.start_as_current_span("retrieve") as span:
                found = work.search(QUESTION, hits)
                if with_json:
                    span.set_attribute("documents", json.dumps(found))
            with tracer.start_as_current_span("rerank"):
                reranked = work.rerank(QUESTION, found)
            with tracer.start_as_current_span("pack"):
                work.pack(reranked)
            with tracer.start_as_current_span("generate"):
                return work.generate(QUESTION)

    return run
