"""OpenAI's client: chat completions and responses are generations, sync, async and streamed; file searches and searches
of vector stores are retrievals.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any, Final

import wrapt

from ragtrace.record._recording import Recording
from ragtrace.record._streams import Passing
from ragtrace.record.coercion import read_prompt
from ragtrace.record.coercion.values import first
from ragtrace.record.guard import guarded
from ragtrace.record.instrumentation import INTEGRATIONS
from ragtrace.record.instrumentation.base import (
    Instrumentor,
    begin_generation,
    begin_stage,
    called_from,
    covered,
    read_question,
)
from ragtrace.record.stages import StageRecording

__all__ = ["OpenAIInstrumentor", "RecordedAsyncStream", "RecordedStream"]

_RAW: Final = "X-Stainless-Raw-Response"


class OpenAIInstrumentor(Instrumentor):
    """Calls of the client are stages of the current request, or requests of their own."""

    module = "openai"
    _instruments = ("openai >= 2.0, < 4",)

    def apply(self) -> None:
        """Wrap what creates an answer or searches."""
        chats = import_module("openai.resources.chat.completions")
        responses = import_module("openai.resources.responses")
        stores = import_module("openai.resources.vector_stores")
        for method in ("create", "parse"):
            self.patches.wrap(chats.Completions, method, _create)
            self.patches.wrap(chats.AsyncCompletions, method, _create_later)
            self.patches.wrap(responses.Responses, method, _create)
            self.patches.wrap(responses.AsyncResponses, method, _create_later)
        self.patches.wrap(stores.VectorStores, "search", _search)
        self.patches.wrap(stores.AsyncVectorStores, "search", _search_later)


def _is_inner() -> bool:
    """Whether a framework's own integration calls, which records the generation itself."""
    return covered() or called_from(2, *INTEGRATIONS, through="openai")


def _create(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    call = None if _is_inner() else _begin(kwargs)
    if call is None:
        return wrapped(*args, **kwargs)
    call.recording.enter()
    try:
        value = wrapped(*args, **kwargs)
    except BaseException as error:
        call.recording.fail(error)
        raise
    return call.answered(value, RecordedStream)


def _create_later(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    if _is_inner():  # looked at now: a task that awaits this has other callers
        return wrapped(*args, **kwargs)
    return _created(wrapped, args, kwargs)


async def _created(wrapped: Any, args: Any, kwargs: Any) -> Any:
    call = _begin(kwargs)
    if call is None:
        return await wrapped(*args, **kwargs)
    call.recording.enter()
    try:
        value = await wrapped(*args, **kwargs)
    except BaseException as error:
        call.recording.fail(error)
        raise
    return call.answered(value, RecordedAsyncStream)


@guarded("instrument.openai")
def _begin(kwargs: dict[str, Any]) -> _Call | None:
    model = kwargs.get("model")
    parts = [read_prompt(kwargs.get(key)) for key in ("instructions", "messages", "input")]
    prompt = "\n\n".join(part for part in parts if part)
    recording = begin_generation("openai", model if isinstance(model, str) else None, prompt or None)
    return None if recording is None else _Call(recording, kwargs)


class _Call:
    """One generation, from its arguments to its answer."""

    def __init__(self, recording: Recording, kwargs: dict[str, Any]) -> None:
        self.recording = recording
        self._kwargs = kwargs

    def answered(self, value: Any, stream: Any) -> Any:
        """What the host gets: the value, or a stream that is recorded as it passes."""
        raw = (self._kwargs.get("extra_headers") or {}).get(_RAW)
        if not raw and self._kwargs.get("stream") is True:
            self.recording.leave()
            return stream(value, self.end, self.recording)
        if raw == "true" and not self._kwargs.get("stream"):
            self._end_raw(value)
        elif raw:
            self.recording.finish()  # its body is the host's to read
        else:
            self.end(value)
        return value

    @guarded("instrument.openai")
    def _end_raw(self, value: Any) -> None:
        try:
            parsed = value.parse()  # kept by the response: the host's own call gives the same object
        except BaseException:
            self.recording.finish()
            raise
        self.end(parsed)

    @guarded("instrument.openai")
    def end(self, value: Any) -> None:
        """End with a completion or a response."""
        for item in first(value, "output") or ():
            if first(item, "type") == "file_search_call" and first(item, "results"):
                self._searched(item)
        self.recording.end(_answer(value))

    def _searched(self, item: Any) -> None:
        """What the service itself retrieved for this answer."""
        recording = self.recording
        if not isinstance(recording, StageRecording):
            return
        request = recording.request
        if request.query is None:
            request.update({"query": read_question(self._kwargs.get("input"))})
        queries = first(item, "queries") or [None]
        retrieval = begin_stage("retrieve", "file_search", {"query": queries[0]}, request)
        if retrieval is not None:
            retrieval.end([_hit(each, first(each, "text")) for each in item.results])


def _answer(value: Any) -> dict[str, Any]:
    choices = first(value, "choices")
    choice = choices[0] if choices else None
    message = first(choice, "message")
    return {
        "answer": (first(message, "content") if choice is not None else first(value, "output_text")) or "",
        "finish_reason": first(choice, "finish_reason") if choice is not None else first(value, "status"),
        "usage": first(value, "usage"),
        "model": first(value, "model"),
    }


def _hit(result: Any, text: Any) -> dict[str, Any]:
    """A result of a search. Several come out of one file, so that the text is what names the chunk."""
    return {
        "text": text,
        "score": first(result, "score"),
        "doc_id": first(result, "file_id"),
        "source": first(result, "filename"),
        "metadata": first(result, "attributes") or {},
    }


def _search(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    recording = None if _is_inner() else _begin_search(kwargs)
    if recording is None:
        return wrapped(*args, **kwargs)
    recording.enter()
    try:
        page = wrapped(*args, **kwargs)
    except BaseException as error:
        recording.fail(error)
        raise
    _end_search(recording, page)
    return page


def _search_later(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    pages = wrapped(*args, **kwargs)
    return pages if _is_inner() else _Pages(pages, kwargs)


class _Pages(wrapt.ObjectProxy):  # type: ignore[type-arg]  # no argument at run time
    """OpenAI's own paginator, whose first page is recorded when it is awaited."""

    def __init__(self, wrapped: Any, kwargs: Any) -> None:
        super().__init__(wrapped)
        self._self_kwargs = kwargs

    def __await__(self) -> Any:
        return self._self_first().__await__()

    async def _self_first(self) -> Any:
        recording = _begin_search(self._self_kwargs)
        try:
            page = await self.__wrapped__
        except BaseException as error:
            if recording is not None:
                recording.fail(error)
            raise
        if recording is not None:
            _end_search(recording, page)
        return page


@guarded("instrument.openai")
def _begin_search(kwargs: Any) -> Recording | None:
    query, top_k = kwargs.get("query"), kwargs.get("max_num_results")
    inputs = {"query": query if isinstance(query, str) else None, "top_k": top_k if isinstance(top_k, int) else None}
    return begin_stage("retrieve", "vector_store", inputs)


@guarded("instrument.openai")
def _end_search(recording: Recording, page: Any) -> None:
    recording.end([_hit(each, read_prompt([{"content": each.content}])) for each in page.data])


class _Answering(Passing):
    """Chat chunks or response events, as what an undivided answer would have been."""

    def __init__(self, recording: Recording, end: Callable[[Any], None]) -> None:
        def ended(parts: Any) -> None:
            if parts.response is None:
                recording.end(parts)
            else:
                end(parts.response)

        super().__init__(recording, ended)


class _Recorded(wrapt.ObjectProxy):  # type: ignore[type-arg]  # no argument at run time
    """OpenAI's own stream, whose parts are also joined."""

    def __init__(self, wrapped: Any, end: Callable[[Any], None], recording: Recording) -> None:
        super().__init__(wrapped)
        self._self_passing = _Answering(recording, end)

    def __del__(self) -> None:
        self._self_passing.end()


class RecordedStream(_Recorded):
    """A stream of the sync client."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            part = next(self.__wrapped__)
        except StopIteration:
            self._self_passing.end()
            raise
        except BaseException as error:
            self._self_passing.end(error)
            raise
        self._self_passing.take(part)
        return part

    def __enter__(self) -> Any:
        self.__wrapped__.__enter__()
        return self

    def __exit__(self, *about: Any) -> Any:
        self._self_passing.end()
        return self.__wrapped__.__exit__(*about)

    def close(self) -> None:
        """Close the connection; what has passed is the answer."""
        self._self_passing.end()
        self.__wrapped__.close()


class RecordedAsyncStream(_Recorded):
    """The same, async."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            part = await self.__wrapped__.__anext__()
        except StopAsyncIteration:
            self._self_passing.end()
            raise
        except BaseException as error:
            self._self_passing.end(error)
            raise
        self._self_passing.take(part)
        return part

    async def __aenter__(self) -> Any:
        await self.__wrapped__.__aenter__()
        return self

    async def __aexit__(self, *about: Any) -> Any:
        self._self_passing.end()
        return await self.__wrapped__.__aexit__(*about)

    async def close(self) -> None:
        """Close the connection; what has passed is the answer."""
        self._self_passing.end()
        await self.__wrapped__.close()
