"""LlamaIndex: a span handler and an event handler on its root dispatcher; nothing is wrapped but streamed answers,
which the host, or a thread or task of LlamaIndex's own, reads later.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from ragtrace.record._streams import Following, is_passed_through, pass_through
from ragtrace.record.coercion import read_prompt
from ragtrace.record.coercion.values import first, text
from ragtrace.record.guard import guarded
from ragtrace.record.instrumentation.base import (
    Instrumentor,
    Run,
    Runs,
    begin_generation,
    begin_retrieval,
    begin_stage,
    covering,
    end_retrieval,
    finish,
)

__all__ = ["LlamaIndexInstrumentor"]

_ASKED: Final = ("query", "aquery", "chat", "achat", "stream_chat", "astream_chat")
_METHODS: Final = {  # the method of a span, the class that it must belong to, what it is for the record
    **dict.fromkeys(_ASKED, (("BaseQueryEngine", "BaseChatEngine"), "request")),
    **dict.fromkeys(("retrieve", "aretrieve"), (("BaseRetriever",), "retrieve")),
    **dict.fromkeys(("_postprocess_nodes", "_apostprocess_nodes"), (("BaseNodePostprocessor",), "rerank")),
}
_LLM: Final = "BaseLLM"
_WRITERS: Final = ("write_response_to_history", "awrite_response_to_history")


class LlamaIndexInstrumentor(Instrumentor):
    """A query or chat engine's call is the request; retrievers, postprocessors and models are its stages."""

    module = "llama_index.core"
    _instruments = ("llama-index-core >= 0.14, < 1",)

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(self, "spans"):
            self.spans = _Spans()
            self._handlers: tuple[Any, Any] | None = None

    def apply(self) -> None:
        """Add both handlers to the root dispatcher."""
        if self._handlers is None:
            self._handlers = _span_handler(self.spans), _event_handler(self.spans)
        dispatcher = import_module("llama_index.core.instrumentation").get_dispatcher()
        span_handler, event_handler = self._handlers
        dispatcher.add_span_handler(span_handler)
        dispatcher.add_event_handler(event_handler)

    def withdraw(self) -> None:
        """Take both handlers from the root dispatcher."""
        if self._handlers is not None:
            dispatcher = import_module("llama_index.core.instrumentation").get_dispatcher()
            span_handler, event_handler = self._handlers
            dispatcher.span_handlers = [each for each in dispatcher.span_handlers if each is not span_handler]
            dispatcher.event_handlers = [each for each in dispatcher.event_handlers if each is not event_handler]


class _Spans:
    """Turns LlamaIndex's spans into requests and stages, its model events into generations."""

    def __init__(self) -> None:
        self.runs = Runs()
        self.generations = Runs()  # streams outlive their spans
        self.histories = _Histories()
        self.answers: dict[Any, Any] = {}  # the latest part of each stream

    @guarded("instrument.llama_index")
    def enter(self, id_: str, bound_args: Any, instance: Any, parent_id: Any) -> None:
        """A span begins, in the context of the call."""
        kind = _kind(id_, instance)
        above = self.runs.find(parent_id)
        if kind is None and above is None:
            return
        if above is not None and above.owner:
            self.histories.enter(id_, parent_id)
        arguments = bound_args.arguments
        name = type(instance).__name__
        run = self.runs.begin(id_, parent_id, name, arguments)
        if run is None or kind is None:
            return
        context = run.request.context
        if kind == "retrieve":
            question = next(iter(arguments.values()), None)
            query = question if isinstance(question, str) else text(first(question, "query_str"))
            begin_retrieval(run, name, {"query": query, "top_k": first(instance, "similarity_top_k")})
        elif kind == "rerank":
            run.stage = begin_stage("rerank", name, {"candidates": arguments.get("nodes")}, run.request)
        run.enter(context if kind == "request" else covering(context))

    @guarded("instrument.llama_index")
    def exit(self, id_: str, result: Any) -> None:
        """A span ends with a value, which may be a stream."""
        run = self.runs.find(id_)
        if run is None:
            return
        run.leave()
        if run.stage is not None and run.stage.operation == "retrieve":
            end_retrieval(run, result)
        elif run.stage is not None:
            run.stage.end(result)
        else:
            self._follow(result, run)
        if run.owner and self.histories.is_awaited(id_, result):
            return
        self.runs.pop(id_)
        if run.owner:
            self._close(run)
        self._read_to_its_end(id_)

    @guarded("instrument.llama_index")
    def drop(self, id_: str, error: BaseException | None) -> None:
        """A span ends with an exception."""
        run = self.runs.pop(id_)
        generation = self.generations.pop(id_)
        self.answers.pop(id_, None)
        if generation is not None:
            finish(generation, error)
        if run is not None:
            finish(run, error)
        self.histories.forget(id_)
        self._read_to_its_end(id_, error)

    def _read_to_its_end(self, id_: str, error: BaseException | None = None) -> None:
        """A chat's answer has been read by LlamaIndex's own thread or task: the chat ends with it."""
        chat = self.histories.leave(id_)
        run = self.runs.pop(chat) if chat is not None else None
        if run is not None and error is None:
            self._close(run)
        elif run is not None:
            finish(run, error)

    def _follow(self, result: Any, run: Run) -> None:
        """A streamed response calls its model when the host reads it: then, the request is current again."""
        stream, key = Run(run.request, False, run.parent), object()

        def end(error: BaseException | None = None) -> None:
            if self.generations.pop(key) is not None:
                finish(stream, error)

        parts = getattr(result, "__dict__", {}).get("response_gen")
        parts = _stepped(parts, stream, guarded("instrument.llama_index")(end))
        if parts is not None:
            self.generations.keep(key, stream)
            result.response_gen = parts

    def _close(self, run: Run) -> None:
        """End the request; one whose answer still streams ends with its stream."""
        streaming = [each for each in self.generations.all() if each.request is run.request]
        if streaming:
            min(streaming, key=lambda each: each.stage is not None).owner = True
        else:
            finish(run)

    @guarded("instrument.llama_index")
    def ask(self, span_id: Any, prompt: Any, model: Any) -> None:
        """A model is called."""
        run = self.runs.find(span_id)
        above = run
        while above is not None:  # a chat that is made of completions is one generation
            if any(each.stage is not None and each.parent is above for each in self.generations.all()):
                return
            above = above.parent
        if run is None:
            return
        found = {key: model.get(key) for key in ("model", "model_name") if model.get(key) not in (None, "unknown")}
        name = str(model.get("class_name") or "llm")
        stage = begin_generation(name, next(iter(found.values()), name), read_prompt(prompt), run.request)
        self.generations.keep(span_id, Run(run.request, False, run)).stage = stage

    def hear(self, span_id: Any, response: Any) -> None:
        """A part of a stream; each holds all of the text so far."""
        if self.generations.find(span_id) is not None:
            self.answers[span_id] = response

    @guarded("instrument.llama_index")
    def answer(self, span_id: Any, response: Any) -> None:
        """A model has answered."""
        generation = self.generations.pop(span_id)
        response = response if response is not None else self.answers.get(span_id)
        self.answers.pop(span_id, None)
        if generation is not None and generation.stage is not None:
            if response is None:
                generation.stage.finish()
            else:
                generation.stage.end(_answer(response))
            finish(generation)

    @guarded("instrument.llama_index")
    def fail(self, span_id: Any, error: BaseException) -> None:
        """A stream broke; one that is left early has been an answer until then."""
        if isinstance(error, GeneratorExit):
            self.answer(span_id, None)
        elif (generation := self.generations.pop(span_id)) is not None:
            self.answers.pop(span_id, None)
            finish(generation, error)


def _kind(id_: str, instance: Any) -> str | None:
    names = {each.__name__ for each in type(instance).__mro__}
    method = id_.partition("-")[0].rpartition(".")[2]
    owners, kind = _METHODS.get(method, ((), None))
    if kind is not None and names.intersection(owners):
        return kind
    return "generate" if _LLM in names and not method.startswith("_") else None


def _span_handler(spans: _Spans) -> Any:
    base: Any = import_module("llama_index.core.instrumentation.span_handlers").BaseSpanHandler

    class RagtraceSpanHandler(base):  # type: ignore[misc]  # known only when LlamaIndex is there
        """Hands spans on; keeps none."""

        def span_enter(self, id_: str, bound_args: Any, instance: Any = None, parent_id: Any = None, **_: Any) -> None:
            spans.enter(id_, bound_args, instance, parent_id)

        def span_exit(self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **_: Any) -> None:
            spans.exit(id_, result)

        def span_drop(self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **_: Any) -> None:
            spans.drop(id_, err)

        def new_span(self, *args: Any, **kwargs: Any) -> None:
            return None

        def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
            return None

        def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
            return None

    return RagtraceSpanHandler()


def _event_handler(spans: _Spans) -> Any:
    base: Any = import_module("llama_index.core.instrumentation.event_handlers").BaseEventHandler

    def handle(event: Any) -> None:
        kind = event.class_name()
        if kind == "LLMChatStartEvent":
            spans.ask(event.span_id, event.messages, event.model_dict)
        elif kind == "LLMCompletionStartEvent":
            spans.ask(event.span_id, event.prompt, event.model_dict)
        elif kind in ("LLMChatInProgressEvent", "LLMCompletionInProgressEvent"):
            spans.hear(event.span_id, event.response)
        elif kind in ("LLMChatEndEvent", "LLMCompletionEndEvent"):
            spans.answer(event.span_id, event.response)
        elif kind == "ExceptionEvent":
            spans.fail(event.span_id, event.exception)

    class RagtraceEventHandler(base):  # type: ignore[misc]  # known only when LlamaIndex is there
        """Hands the events of models on."""

        def handle(self, event: Any, **kwargs: Any) -> None:
            handle(event)

    return RagtraceEventHandler()


class _Histories:
    """Chats whose streamed answer is read by a thread or task that writes it into the history.

    The chat's span ends before or after that reader's; whichever is last ends the chat.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chats: dict[str, str] = {}  # the chat's span by its reader's
        self._waiting: set[str] = set()  # chats whose own span has ended
        self._read: set[str] = set()  # chats whose reader was faster

    def __len__(self) -> int:
        return len(self._chats) + len(self._waiting) + len(self._read)

    def enter(self, id_: str, chat: str) -> None:
        """A span begins inside of `chat`; it is noted when it is a reader's."""
        if id_.partition("-")[0].rpartition(".")[2] in _WRITERS:
            self._chats[id_] = chat

    def is_awaited(self, chat: str, result: Any) -> bool:
        """Whether the chat, whose own span has ended, ends later, with its reader."""
        reader = first(result, "write_response_to_history_thread", "awrite_response_to_history_task")
        with self._lock:
            if reader is None or chat in self._read:
                self._read.discard(chat)
                return False
            self._waiting.add(chat)
            return True

    def leave(self, id_: str) -> str | None:
        """The chat that ends with this span; None when it is no reader's, or the chat's own span is still open."""
        chat = self._chats.pop(id_, None)
        if chat is None:
            return None
        with self._lock:
            if chat in self._waiting:
                self._waiting.discard(chat)
                return chat
            self._read.add(chat)
        return None

    def forget(self, chat: str) -> None:
        """The chat broke off."""
        with self._lock:
            self._read.discard(chat)
            self._waiting.discard(chat)


class _StreamFollowing(Following):
    """The host reads a streamed response: then, the request is current again."""

    def __init__(self, stream: Run, end: Callable[..., None]) -> None:
        super().__init__(stream.request.context)
        self._end = end

    def end(self, error: BaseException | None = None) -> None:
        """It is read, or left."""
        self._end(error)

    def drop(self) -> None:
        """Nobody reads it."""
        self._end()


def _stepped(parts: Any, stream: Run, end: Callable[..., None]) -> Any:
    """A generator's parts, read in the request of `stream`; None for what is no generator, or is stepped already."""
    if not (inspect.isasyncgen(parts) or inspect.isgenerator(parts)) or is_passed_through(parts):
        return None
    followed = pass_through(parts, _StreamFollowing(stream, end))
    return None if followed is parts else followed


def _answer(response: Any) -> dict[str, Any]:
    """A chat or completion response as plain parts."""
    raw = getattr(response, "raw", None)
    choices = first(raw, "choices")
    message = getattr(response, "message", None)
    return {
        "answer": text(message.content if message is not None else response.text) or "",
        "finish_reason": first(choices[0] if isinstance(choices, list) and choices else raw, "finish_reason"),
        "usage": first(raw, "usage") or getattr(response, "additional_kwargs", None),
        "model": first(raw, "model"),
    }
