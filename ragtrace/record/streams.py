"""Decorated generators and async generators: they stream as before; what passed is joined and recorded at their end.

The recording's context is attached only while the host's generator runs, never across a `yield`, so that nothing
leaks to the consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ragtrace.record.recording import Recording

if TYPE_CHECKING:
    from ragtrace.record.decorators import Call

__all__ = ["record_async_stream", "record_stream"]

_FOUND: Final = ("retrieve", "rerank")


def record_stream(call: Call, function: Callable[..., Any]) -> Callable[..., Any]:
    """Record calls of a generator function; `send`, `throw`, `close` and the returned value reach it unchanged."""

    def recorded(*args: Any, **kwargs: Any) -> Any:
        stream = function(*args, **kwargs)
        recording = call.start(args, kwargs)
        if recording is None:
            return (yield from stream)
        parts: list[Any] = []
        resume = partial(next, stream)
        try:
            while True:
                parts.append(_step(recording, resume))
                try:
                    sent = yield parts[-1]
                except GeneratorExit:
                    stream.close()
                    raise
                except BaseException as error:
                    resume = partial(stream.throw, error)
                else:
                    resume = partial(stream.send, sent)
        except StopIteration as stop:
            call.end(recording, _joined(parts, recording))
            return stop.value
        except GeneratorExit:
            call.end(recording, _joined(parts, recording))
            raise
        except BaseException as error:
            recording.fail(error)
            raise

    return recorded


def record_async_stream(call: Call, function: Callable[..., Any]) -> Callable[..., Any]:
    """Record calls of an async generator function; `asend`, `athrow` and `aclose` reach it unchanged."""

    async def recorded(*args: Any, **kwargs: Any) -> Any:
        stream = function(*args, **kwargs)
        recording = call.start(args, kwargs)
        parts: list[Any] = []
        resume = partial(anext, stream)
        try:
            while True:
                item = await _async_step(recording, resume)
                if recording is not None:
                    parts.append(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    await stream.aclose()
                    raise
                except BaseException as error:
                    resume = partial(stream.athrow, error)
                else:
                    resume = partial(stream.asend, sent)
        except (StopAsyncIteration, GeneratorExit) as end:
            if recording is not None:
                call.end(recording, _joined(parts, recording))
            if isinstance(end, GeneratorExit):
                raise
        except BaseException as error:
            if recording is not None:
                recording.fail(error)
            raise

    return recorded


def _step(recording: Recording, resume: Callable[[], Any]) -> Any:
    recording.enter()
    try:
        return resume()
    finally:
        recording.leave()


async def _async_step(recording: Recording | None, resume: Callable[[], Any]) -> Any:
    if recording is None:
        return await resume()
    recording.enter()
    try:
        return await resume()
    finally:
        recording.leave()


def _joined(parts: list[Any], recording: Recording) -> Any:
    """A streamed text as one text; any other stream, and texts that were found one by one, as the list of its items."""
    if parts and recording.operation not in _FOUND and all(isinstance(part, str) for part in parts):
        return "".join(parts)
    return parts
