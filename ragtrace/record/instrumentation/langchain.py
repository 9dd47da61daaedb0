"""LangChain and LangGraph: a global callback handler; what has no callbacks is wrapped: compressors, which are
rerankings, and searches of vector stores, which give the scores that retrievers drop and are retrievals of their own
where no retriever asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, ClassVar, Final, TypeAlias

import wrapt
from opentelemetry.context import attach, get_current

from ragtrace.record._recording import Recording, within
from ragtrace.record.coercion import read_prompt
from ragtrace.record.guard import guarded
from ragtrace.record.instrumentation.base import (
    Instrumentor,
    Patches,
    Run,
    Runs,
    begin_generation,
    begin_retrieval,
    begin_stage,
    covered,
    covering,
    end_retrieval,
    finish,
    read_question,
)

__all__ = ["LangChainInstrumentor"]

Scores: TypeAlias = dict[int, tuple[Any, float]]  # by the document's identity, with the document itself

_SEARCHES: Final = tuple(
    f"{prefix}{name}"
    for prefix in ("", "a")
    for name in (
        "similarity_search",
        "similarity_search_with_score",
        "similarity_search_with_relevance_scores",
        "similarity_search_by_vector",
        "similarity_search_with_score_by_vector",
        "max_marginal_relevance_search",
        "max_marginal_relevance_search_by_vector",
    )
)
_METADATA: Final = ("relevance_score", "score", "_score")
_scores: ContextVar[Scores | None] = ContextVar("ragtrace-langchain-scores", default=None)
_compressing: ContextVar[Any] = ContextVar("ragtrace-langchain-compressing", default=None)


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
        _wrap_all(self.patches, self.handler.runs)
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
                end_retrieval(run, _with_scores(documents))
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


def _wrap_all(patches: Patches, runs: Runs) -> None:
    """Wrap searches, compressors and retriever calls of all classes, present and to come."""
    compressor = import_module("langchain_core.documents.compressor").BaseDocumentCompressor
    _wrap_tree(patches, import_module("langchain_core.vectorstores").VectorStore, _SEARCHES, _search, _asearch)
    reranked = _Compressions(runs)
    names = ("compress_documents", "acompress_documents")
    _wrap_tree(patches, compressor, names, reranked.call, reranked.acall)
    retriever = import_module("langchain_core.retrievers").BaseRetriever
    _wrap_tree(patches, retriever, ("invoke", "ainvoke"), _collect, _acollect)


def _wrap_tree(patches: Patches, root: Any, names: tuple[str, ...], sync: Any, later: Any) -> None:
    def wrap(kind: type) -> None:
        for name in names:
            if name in vars(kind):
                patches.wrap_calls(kind, name, sync, later)

    def of_new_class(wrapped: Callable[..., None], instance: Any, args: Any, kwargs: Any) -> None:
        wrapped(*args, **kwargs)
        guarded("instrument.langchain")(wrap)(instance)

    found = [root]
    for kind in found:
        wrap(kind)
        found.extend(each for each in kind.__subclasses__() if each not in found)
    if "__init_subclass__" not in vars(root):
        patches.add(root, "__init_subclass__", classmethod(_inherited(root)))
    patches.wrap(root, "__init_subclass__", of_new_class)


def _inherited(root: Any) -> Callable[..., None]:
    def __init_subclass__(cls: Any, **kwargs: Any) -> None:
        super(root, cls).__init_subclass__(**kwargs)

    return __init_subclass__


def _with_scores(documents: Any, *, ranked: bool = False) -> list[Any]:
    """Documents with the scores that the store gave them, or that a reranker left in their metadata."""
    known = {} if ranked else _scores.get() or {}
    pairs = [(document, _score(document, known)) for document in documents]
    return _nearest_first([document if score is None else (document, score) for document, score in pairs])


def _score(document: Any, known: Scores) -> float | None:
    found = known.get(id(document))
    if found is not None and found[0] is document:
        return found[1]
    metadata = getattr(document, "metadata", None) or {}
    return next((float(metadata[key]) for key in _METADATA if isinstance(metadata.get(key), int | float)), None)


def _nearest_first(pairs: list[Any]) -> list[Any]:
    """Scores that rise down a list of best hits are distances: their negatives are the scores."""
    scores = [pair[1] for pair in pairs if isinstance(pair, tuple)]
    if len(scores) < 2 or scores[0] >= scores[-1] or scores != sorted(scores):
        return pairs
    return [(pair[0], -pair[1]) if isinstance(pair, tuple) else pair for pair in pairs]


@contextmanager
def _collecting() -> Iterator[Scores]:
    scores: Scores = {}
    token = _scores.set(scores)
    try:
        with within(covering(get_current())):
            yield scores
    finally:
        _scores.reset(token)


def _collect(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    with _collecting():
        return wrapped(*args, **kwargs)


async def _acollect(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    with _collecting():
        return await wrapped(*args, **kwargs)


def _search(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    scores = _scores.get()
    if scores is not None or covered():
        hits = wrapped(*args, **kwargs)
        _note(scores, hits)
        return hits
    recording = _begin_search(instance, args, kwargs)
    with _collecting():
        try:
            hits = wrapped(*args, **kwargs)
        except BaseException as error:
            _end(recording, error=error)
            raise
        _end(recording, hits)
        return hits


async def _asearch(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    scores = _scores.get()
    if scores is not None or covered():
        hits = await wrapped(*args, **kwargs)
        _note(scores, hits)
        return hits
    recording = _begin_search(instance, args, kwargs)
    with _collecting():
        try:
            hits = await wrapped(*args, **kwargs)
        except BaseException as error:
            _end(recording, error=error)
            raise
        _end(recording, hits)
        return hits


@guarded("instrument.langchain")
def _note(scores: Scores | None, hits: Any) -> None:
    if scores is not None:
        for hit in hits:
            if isinstance(hit, tuple) and len(hit) == 2:
                scores[id(hit[0])] = (hit[0], float(hit[1]))


@guarded("instrument.langchain")
def _begin_search(store: Any, args: Any, kwargs: Any) -> Recording | None:
    query = kwargs.get("query", args[0] if args else None)
    top_k = kwargs.get("k", args[1] if len(args) > 1 else None)
    inputs = {"query": query if isinstance(query, str) else None, "top_k": top_k}
    return begin_stage("retrieve", type(store).__name__, inputs)


@guarded("instrument.langchain")
def _end(recording: Recording | None, hits: Any = None, error: BaseException | None = None) -> None:
    if recording is None:
        return
    if error is not None:
        recording.fail(error)
        return
    _note(_scores.get(), hits)
    recording.end(_with_scores([hit[0] if isinstance(hit, tuple) else hit for hit in hits]))


class _Compressions:
    """Document compressors, in the request of the run that calls them."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def call(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if _compressing.get() is instance:  # its async half, in a thread
            return wrapped(*args, **kwargs)
        recording = self._begin(instance, args, kwargs)
        with within(covering()):
            try:
                documents = wrapped(*args, **kwargs)
            except BaseException as error:
                self._end(recording, error=error)
                raise
        self._end(recording, documents)
        return documents

    async def acall(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recording = self._begin(instance, args, kwargs)
        token = _compressing.set(instance)
        with within(covering()):
            try:
                documents = await wrapped(*args, **kwargs)
            except BaseException as error:
                self._end(recording, error=error)
                raise
            finally:
                _compressing.reset(token)
        self._end(recording, documents)
        return documents

    @guarded("instrument.langchain")
    def _begin(self, compressor: Any, args: Any, kwargs: Any) -> Recording | None:
        callbacks = kwargs.get("callbacks", args[2] if len(args) > 2 else None)
        run = self._runs.find(getattr(callbacks, "parent_run_id", None))
        documents = kwargs.get("documents", args[0] if args else None)
        request = run.request if run is not None else None
        return begin_stage("rerank", type(compressor).__name__, {"candidates": list(documents or ())}, request)

    @guarded("instrument.langchain")
    def _end(self, recording: Recording | None, documents: Any = None, error: BaseException | None = None) -> None:
        if recording is None:
            return
        if error is None:
            recording.end(_with_scores(documents, ranked=True))
        else:
            recording.fail(error)
