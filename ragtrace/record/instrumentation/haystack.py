"""Haystack: a tracer in front of the one that was there, which reads the components' inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any, Final

from ragtrace.record._recording import Recording, within
from ragtrace.record.coercion import read_prompt
from ragtrace.record.guard import guarded
from ragtrace.record.instrumentation.base import (
    Instrumentor,
    begin_generation,
    begin_stage,
    close_request,
    covering,
    open_request,
    read_question,
    usable_recorder,
)
from ragtrace.record.requests import RequestRecording, current_recording

__all__ = ["HaystackInstrumentor"]

_RUNS: Final = ("haystack.pipeline.run", "haystack.agent.run", "haystack.async_pipeline.run")
_QUERIES: Final = ("query", "queries", "query_embedding", "query_sparse_embedding", "query_embeddings")
_OUTPUTS: Final = ("documents", "prompt", "replies")  # an output with this name says what a component is


class HaystackInstrumentor(Instrumentor):
    """A pipeline's run is the request; components are its stages by what goes in and comes out."""

    module = "haystack"
    _instruments = ("haystack-ai >= 3.0, < 4",)

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(self, "tracer"):
            self.tracer: Any = None

    def apply(self) -> None:
        """Stand in front of the tracer in use, whichever that is."""
        tracing = import_module("haystack.tracing")
        self.tracer = _tracer_class(tracing)(tracing.tracer.actual_tracer)
        tracing.enable_tracing(self.tracer)

    def withdraw(self) -> None:
        """Give the former tracer its place back; where another one was put in front, ours only hands on."""
        if self.tracer is not None:
            tracing = import_module("haystack.tracing")
            if tracing.tracer.actual_tracer is self.tracer:
                tracing.tracer.actual_tracer = self.tracer.former
            self.tracer.is_on = False


class Traced:
    """One operation of Haystack's: the request it belongs to, and its stage from the inputs to the outputs."""

    def __init__(self, operation: str, tags: Mapping[str, Any], above: Any) -> None:
        recorder = usable_recorder()
        self.tags = tags
        self.is_run = operation in _RUNS
        self.request: RequestRecording | None = None
        self.owner = False
        self.stage: Recording | None = None
        self._given: Mapping[str, Any] = {}
        if recorder is None:
            return
        over = above.traced.request if isinstance(getattr(above, "traced", None), Traced) else None
        self.request = over if over is not None and not over.ended else current_recording(recorder)
        if self.request is None and self.is_run:
            name = operation.removeprefix("haystack.").removesuffix(".run")
            self.request = open_request(name, tags.get("haystack.pipeline.input_data"))
            self.owner = True

    def context(self) -> Any:
        """What is current while the operation runs; nothing where it yields to the host on its way."""
        if self.request is None or self.tags.get("haystack.pipeline.execution_mode") == "async":
            return nullcontext()
        return within(self.request.context if self.is_run else covering(self.request.context))

    @guarded("instrument.haystack")
    def note(self, key: str, value: Any) -> None:
        """Inputs and outputs of components, agents and their models."""
        if self.request is None or not isinstance(value, Mapping):
            return
        if key == "haystack.agent.input" and self.request.query is None:
            self.request.update({"query": read_question(value)})
        elif key in ("haystack.component.input", "haystack.agent.step.llm.input"):
            self._begin(value, self.request)
        elif key in ("haystack.component.output", "haystack.agent.step.llm.output"):
            self._end(value)

    @guarded("instrument.haystack")
    def close(self, error: BaseException | None = None) -> None:
        """The operation is over."""
        if self.stage is not None and not self.stage.ended:
            if error is None:
                self.stage.finish()
            else:
                self.stage.fail(error.__cause__ or error)
        if self.owner and self.request is not None:
            close_request(self.request, None if error is None else error.__cause__ or error)

    def _begin(self, given: Mapping[str, Any], request: RequestRecording) -> None:
        self._given = given
        name = str(self.tags.get("haystack.component.name", "llm"))
        kind = self._kind(given, request)
        documents = given.get("documents")
        if kind == "generate":
            prompt = read_prompt(given.get("prompt") or given.get("messages"))
            self.stage = begin_generation(name, None, prompt, request)
        elif kind == "retrieve":
            query = given.get("query") or request.query
            self.stage = begin_stage("retrieve", name, {"query": query, "top_k": given.get("top_k")}, request)
        elif kind is not None:
            candidates = _flat(documents) if isinstance(documents, list | tuple) else None
            self.stage = begin_stage(kind, name, {"candidates": candidates}, request)

    def _kind(self, given: Mapping[str, Any], request: RequestRecording) -> str | None:
        outputs = self.tags.get("haystack.component.output_spec") or {"replies": None}
        made = next((each for each in _OUTPUTS if each in outputs), None)
        if made == "replies":
            return "generate"
        if made == "documents" and "documents" not in given:
            return "retrieve" if any(given.get(each) is not None for each in _QUERIES) else None
        if not any(True for _ in request.candidates()):
            return None  # nothing has been retrieved yet: an indexing pipeline, or a prompt that plans the search
        return {"documents": "rerank", "prompt": "pack"}.get(made or "")

    def _end(self, made: Mapping[str, Any]) -> None:
        stage = self.stage
        if stage is None:
            text = self._given.get("text")  # a text embedder is given what the retriever is asked for
            if "embedding" in made and isinstance(text, str) and self.request is not None:
                self.request.update({"query": self.request.query or text})
        elif stage.operation == "generate":
            stage.end(_answer(made))
        elif stage.operation == "pack":
            stage.end(read_prompt(made.get("prompt")) or "")
        else:
            stage.end(list(made.get("documents") or ()))


def _flat(documents: Any) -> list[Any]:
    """Documents, also those of a joiner's several inputs."""
    return [each for item in documents for each in (item if isinstance(item, list | tuple) else [item])]


def _answer(made: Mapping[str, Any]) -> dict[str, Any]:
    """The first reply as plain parts."""
    reply = next(iter(made.get("replies") or ()), "")
    metas = made.get("meta")
    meta = getattr(reply, "meta", None) or (metas[0] if isinstance(metas, list) and metas else {})
    return {
        "answer": reply if isinstance(reply, str) else getattr(reply, "text", None) or "",
        "finish_reason": meta.get("finish_reason"),
        "usage": meta.get("usage"),
        "model": meta.get("model"),
    }


def _tracer_class(tracing: Any) -> Any:
    span_base: Any = tracing.Span
    tracer_base: Any = tracing.Tracer

    class RagtraceSpan(span_base):  # type: ignore[misc]  # known only when Haystack is there
        """The former tracer's span, with ours beside it."""

        def __init__(self, former: Any, traced: Traced) -> None:
            self.former = former
            self.traced = traced

        def set_tag(self, key: str, value: Any) -> None:
            self.former.set_tag(key, value)

        def set_content_tag(self, key: str, value: Any) -> None:
            self.former.set_content_tag(key, value)
            self.traced.note(key, value)

        def raw_span(self) -> Any:
            return self.former.raw_span()

        def get_correlation_data_for_logs(self) -> dict[str, Any]:
            found: dict[str, Any] = self.former.get_correlation_data_for_logs()
            return found

    class RagtraceTracer(tracer_base):  # type: ignore[misc]  # known only when Haystack is there
        """The former tracer, with ours beside it."""

        def __init__(self, former: Any) -> None:
            self.former = former
            self.is_on = True

        @contextmanager
        def trace(
            self, operation_name: str, tags: dict[str, Any] | None = None, parent_span: Any = None
        ) -> Iterator[Any]:
            over = getattr(parent_span, "former", parent_span)
            with self.former.trace(operation_name, tags=tags, parent_span=over) as span:
                traced = guarded("instrument.haystack")(Traced)(operation_name, tags or {}, parent_span)
                if traced is None or not self.is_on:
                    yield span
                    return
                try:
                    with traced.context():
                        yield RagtraceSpan(span, traced)
                except BaseException as error:
                    traced.close(error)
                    raise
                traced.close()

        def current_span(self) -> Any:
            return self.former.current_span()

    return RagtraceTracer
