"""OpenAI's streams, sync and async: what they were, with their parts joined for the record as they pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import wrapt

from ragtrace.record.coercion.values import first
from ragtrace.record.instrumentation.base import guarded
from ragtrace.record.recording import Recording

__all__ = ["RecordedAsyncStream", "RecordedStream"]


class Joined:
    """Joins the parts of a stream, chat chunks or response events, to what an undivided answer would have been."""

    def __init__(self, end: Callable[[Any], None], recording: Recording) -> None:
        self._end = end
        self._recording = recording
        self._texts: list[str] = []
        self._last: dict[str, Any] = {}
        self._whole: Any = None
        self._open = True

    @guarded("instrument.openai")
    def add(self, part: Any) -> None:
        """One chunk or event."""
        kind = first(part, "type")
        if kind is None:
            self._add_chunk(part)
        elif kind == "response.output_text.delta":
            self._texts.append(str(part.delta))
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._whole = part.response

    def _add_chunk(self, part: Any) -> None:
        for choice in (first(part, "choices") or ())[:1]:
            self._texts.append(first(first(choice, "delta"), "content") or "")
            self._last["finish_reason"] = first(choice, "finish_reason") or self._last.get("finish_reason")
        for name in ("usage", "model"):
            self._last[name] = first(part, name) or self._last.get(name)

    def end(self, error: BaseException | None = None) -> None:
        """The stream is read to its end, broken or left."""
        if not self._open:
            return
        self._open = False
        if error is not None:
            self._recording.fail(error)
        elif self._whole is not None:
            self._end(self._whole)
        else:
            self._recording.end({"answer": "".join(self._texts), **self._last})


class RecordedStream(wrapt.ObjectProxy):  # type: ignore[type-arg]  # no argument at run time
    """OpenAI's own stream, whose parts are also joined."""

    def __init__(self, wrapped: Any, end: Callable[[Any], None], recording: Recording) -> None:
        super().__init__(wrapped)
        self._self_joined = Joined(end, recording)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            part = next(self.__wrapped__)
        except StopIteration:
            self._self_joined.end()
            raise
        except BaseException as error:
            self._self_joined.end(error)
            raise
        self._self_joined.add(part)
        return part

    def __enter__(self) -> Any:
        self.__wrapped__.__enter__()
        return self

    def __exit__(self, *about: Any) -> Any:
        self._self_joined.end()
        return self.__wrapped__.__exit__(*about)

    def close(self) -> None:
        """Close the connection; what has passed is the answer."""
        self._self_joined.end()
        self.__wrapped__.close()

    def __del__(self) -> None:
        self._self_joined.end()


class RecordedAsyncStream(wrapt.ObjectProxy):  # type: ignore[type-arg]  # no argument at run time
    """The same, async."""

    def __init__(self, wrapped: Any, end: Callable[[Any], None], recording: Recording) -> None:
        super().__init__(wrapped)
        self._self_joined = Joined(end, recording)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            part = await self.__wrapped__.__anext__()
        except StopAsyncIteration:
            self._self_joined.end()
            raise
        except BaseException as error:
            self._self_joined.end(error)
            raise
        self._self_joined.add(part)
        return part

    async def __aenter__(self) -> Any:
        await self.__wrapped__.__aenter__()
        return self

    async def __aexit__(self, *about: Any) -> Any:
        self._self_joined.end()
        return await self.__wrapped__.__aexit__(*about)

    async def close(self) -> None:
        """Close the connection; what has passed is the answer."""
        self._self_joined.end()
        await self.__wrapped__.close()

    def __del__(self) -> None:
        self._self_joined.end()
