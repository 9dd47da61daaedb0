"""LangChain and LangGraph: a global callback handler; vector store searches and compressors, which have no callbacks,
are wrapped."""

from __future__ import annotations

from contextvars import ContextVar
from importlib import import_module
from typing import Any, ClassVar

import wrapt
from opentelemetry.context import attach

from ragtrace.record.coercion import read_prompt
from ragtrace.record.instrumentation import langchain_stores as stores
from ragtrace.record.instrumentation.base import Instrumentor, guarded
from ragtrace.record.instrumentation.questions import read_question
from ragtrace.record.instrumentation.runs import (
    Run,
    Runs,
    begin_generation,
    begin_retrieval,
    end_retrieval,
    finish,
)

__all__ = ["LangChainInstrumentor"]


class LangChainInstrumentor(Instrumentor):
    """A root run of any runnable or graph is the request; retrievers, compressors and models are its stages."""

    module = "langchain_core"
    _instruments = ("langchain-core >= 1.0, < 2",)

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(self, "handler"):
            self.handler: Any = None

    def apply(self) -> None:
        """Register the handler once, wrap what has no callbacks."""
        if self.handler is None:
            self.handler = _handler_class(import_module("langchain_core.callbacks").BaseCallbackHandler)(Runs())
            variable: ContextVar[Any] = ContextVar("ragtrace", default=self.handler)
            import_module("langchain_core.tracers.context").register_configure_hook(variable, inheritable=True)
        self.handler.is_on = True
        stores.wrap_all(self.patches, self.handler.runs)
        self.patches.wrap(import_module("langchain_core.runnables.config"), "_set_config_context", self._enter_request)
        wrapt.register_post_import_hook(self._graphs_arrived, "langgraph._internal._runnable")

    def withdraw(self) -> None:
        """A hook of LangChain's cannot be taken out again; the handler stops to listen."""
        if self.handler is not None:
            self.handler.is_on = False

    def _graphs_arrived(self, module: Any) -> None:
        if self.patches.is_on:
            self.patches.wrap(module, "_set_config_context", self._enter_request)

    def _enter_request(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """LangChain enters a copied context to run the host's code: there, the request becomes current."""
        value = wrapped(*args, **kwargs)
        self._attach(*args[:1])
        return value

    @guarded("instrument.langchain")
    def _attach(self, config: Any = None) -> None:
        run = self.handler.runs.find(getattr((config or {}).get("callbacks"), "parent_run_id", None))
        if run is not None and not run.request.ended:
            attach(run.request.context)  # the context is a copy that LangChain throws away


def _handler_class(base: Any) -> Any:
    class RagtraceHandler(base):  # type: ignore[misc]  # known only when LangChain is there
        """Turns LangChain's runs into requests and stages."""

        run_inline = True  # in the order and the context of the run, not in a thread beside it

        def __init__(self, runs: Runs) -> None:
            self.runs = runs
            self.is_on = True

        ignored: ClassVar[property] = property(lambda self: not self.is_on)
        ignore_chain = ignore_retriever = ignore_llm = ignore_chat_model = ignore_agent = ignored
        ignore_retry = ignore_custom_event = property(lambda self: True)

        @guarded("instrument.langchain")
        def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **kwargs: Any) -> None:
            self._begin(run_id, inputs, serialized, kwargs)

        @guarded("instrument.langchain")
        def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
            run = self.runs.pop(run_id)
            if run is None:
                return
            if run.owner and kwargs.get("inputs"):  # a streamed run learns its inputs as it goes
                _ask(run, kwargs["inputs"])
            finish(run)

        @guarded("instrument.langchain")
        def on_chain_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
            run = self.runs.pop(run_id)
            if run is not None:
                finish(run, error)

        @guarded("instrument.langchain")
        def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **kwargs: Any) -> None:
            self._begin(run_id, kwargs.pop("inputs", None) or input_str, serialized, kwargs)

        on_tool_error = on_retriever_error = on_llm_error = on_chain_error

        @guarded("instrument.langchain")
        def on_tool_end(self, output: Any, *, run_id: Any, **kwargs: Any) -> None:
            run = self.runs.pop(run_id)
            if run is not None:
                finish(run)

        @guarded("instrument.langchain")
        def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **kwargs: Any) -> None:
            run = self._begin(run_id, query, serialized, kwargs)
            if run is not None:
                begin_retrieval(run, _name(serialized, kwargs), {"query": query})

        @guarded("instrument.langchain")
        def on_retriever_end(self, documents: Any, *, run_id: Any, **kwargs: Any) -> None:
            run = self.runs.pop(run_id)
            if run is not None:
                end_retrieval(run, stores.with_scores(documents))
                finish(run)

        @guarded("instrument.langchain")
        def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **kwargs: Any) -> None:
            self._generate(run_id, messages[0] if messages else [], serialized, kwargs)

        @guarded("instrument.langchain")
        def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: Any, **kwargs: Any) -> None:
            self._generate(run_id, prompts[0] if prompts else "", serialized, kwargs)

        @guarded("instrument.langchain")
        def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
            run = self.runs.pop(run_id)
            if run is None or run.stage is None:
                return
            run.stage.end(_answer(response))
            run.stage = None
            finish(run)

        def _begin(self, run_id: Any, inputs: Any, serialized: Any, kwargs: Any) -> Run | None:
            return self.runs.begin(run_id, kwargs.get("parent_run_id"), _name(serialized, kwargs), inputs)

        def _generate(self, run_id: Any, prompt: Any, serialized: Any, kwargs: Any) -> None:
            run = self._begin(run_id, prompt, serialized, kwargs)
            if run is not None:
                parameters = kwargs.get("invocation_params") or {}
                model = (kwargs.get("metadata") or {}).get("ls_model_name") or parameters.get("model")
                name = _name(serialized, kwargs)
                run.stage = begin_generation(name, model, read_prompt(prompt), run.request)

    return RagtraceHandler


def _name(serialized: Any, kwargs: Any) -> str:
    given = kwargs.get("name") or (serialized or {}).get("name")
    return str(given or ((serialized or {}).get("id") or ["langchain"])[-1])


def _ask(run: Run, inputs: Any) -> None:
    """The question of a request, where a retriever's query stood in for it."""
    request, found = run.request, read_question(inputs)
    if found and found != request.query:
        request.rewritten = request.rewritten or request.query
        request.query = found


def _answer(response: Any) -> dict[str, Any]:
    """The first generation of a result as plain parts."""
    generation = response.generations[0][0]
    message = getattr(generation, "message", None)
    about = {
        **(getattr(generation, "generation_info", None) or {}),
        **(getattr(message, "response_metadata", None) or {}),
    }
    return {
        "answer": str(getattr(generation, "text", "") or ""),
        "finish_reason": about.get("finish_reason") or about.get("stop_reason"),
        "usage": getattr(message, "usage_metadata", None) or (response.llm_output or {}).get("token_usage"),
        "model": about.get("model_name") or about.get("model"),
    }
