"""Generators, async generators and coroutines of the host's: it gets its like, and what passes is recorded.

The recording's context is attached only while the host's code runs, never across a `yield`, so that nothing leaks to
the consumer. It is the context of the call, wherever the stream is read.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from inspect import CO_ITERABLE_COROUTINE
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final

from opentelemetry.context import Context, attach, get_current

from ragtrace.record._recording import Parts, Recording, is_failure, restore, within
from ragtrace.record.coercion import StreamedValues
from ragtrace.record.guard import is_cancellation

__all__ = ["LATER", "Following", "Passing", "is_passed_through", "pass_through"]

LATER: Final = frozenset({GeneratorType, AsyncGeneratorType, CoroutineType})  # a function that returns one is not done

_FOUND: Final = ("retrieve", "rerank")
_SHARE: Final = 16  # of the memory for requests on their way, one stream may take this part


_LOOKS: Final = 64  # items between two looks at whether the request is still open


def _nothing() -> None:
    """Nothing waits for the start."""


class Following:
    """What is done beside a stream: the context of its steps, what passes, its end. Nothing of it raises."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.started: Callable[[], object] = _nothing  # called when the host begins to read

    def take(self, item: Any) -> None:
        """An item passes."""

    def end(self, error: BaseException | None = None) -> None:
        """The stream is read to its end, left, or broken by `error`."""

    def cancel(self, error: BaseException) -> None:
        """The task that awaits the next part is cancelled; `end` follows."""

    def drop(self) -> None:
        """The host has thrown it away and never begun to read it."""

    def returned(self, value: Any) -> Any:
        """A coroutine has returned this; what the host gets."""
        self.end()
        return value


class Passing(Following):
    """Records what passes of one stream, and ends its recording with it.

    Args:
        end: ends the recording with what passed.
        returns: whether `end` wants the host's own items.
        has_run: whether the function that made the stream has done some of its work then.
    """

    def __init__(
        self, recording: Recording, end: Callable[[Any], None], *, returns: bool = False, has_run: bool = True
    ) -> None:
        if recording.context is None:  # the request of the call, which need not be current where the stream is read
            recording.context = get_current()
        super().__init__(recording.context)
        self._recording = recording
        self._end = end
        self._has_run = has_run
        self._count = 0
        self._is_open = True
        own = recording.streamed()
        self.parts: Parts | None = StreamedValues(are_found=recording.operation in _FOUND) if returns else own
        self._is_taking = self.parts is not None
        self._most = recording.recorder.config.queue_bytes // _SHARE

    def take(self, item: Any) -> None:
        """Keep an item as it is now, up to a bound."""
        self._count += 1
        parts = self.parts
        if parts is None or not self._is_taking:
            return
        try:
            if type(item) is str:
                parts.add(item)
            else:
                with self._recording.allowance() as allowance:
                    parts.add(item)
                if allowance.left_out:
                    self._recording.leave_out(allowance.left_out)
            if parts.weight > self._most or (not self._count % _LOOKS and self._recording.is_expired):
                self._stop(self._recording)
        except BaseException as error:
            self._recording.refuse(error)

    def _stop(self, recording: Recording) -> None:
        self._is_taking = False
        recording.refused = True
        kind = "expired" if recording.is_expired else "too_long"
        message = "what streams on is not recorded: its request was closed, or it takes more than its share of memory"
        recording.recorder.guard.count(f"stream.{recording.operation}", kind, message)

    def end(self, error: BaseException | None = None) -> None:
        """End the recording with what has passed."""
        if not self._is_open:
            return
        self._is_open = False
        recording, parts = self._recording, self.parts
        self.parts = None
        if error is not None and not self._count:
            recording.fail(error)
        elif error is not None and is_failure(error):
            self._break(recording, parts, error, recording.fail)
        elif parts is None:
            recording.finish()
        elif isinstance(parts, StreamedValues):
            self._end(parts.value())
        else:
            self._end(parts)

    def cancel(self, error: BaseException) -> None:
        """A client that went away, or a timeout: what had passed stands with the cancellation, and no request fails."""
        if self._is_open and self._count:
            self._is_open = False
            recording, parts = self._recording, self.parts
            self.parts = None
            self._break(recording, parts, error, recording.cut)

    def _break(
        self, recording: Recording, parts: Parts | None, error: BaseException, stop: Callable[[BaseException], None]
    ) -> None:
        """What had passed, and the exception."""
        try:
            if parts is not None and not isinstance(parts, StreamedValues):
                recording.take(parts)
        except BaseException as fault:
            recording.refuse(fault)
        finally:
            stop(error)

    def drop(self) -> None:
        """A generator function that never ran leaves nothing; a stream that was made is unread."""
        if not self._is_open:
            return
        self._is_open = False
        if self._has_run:
            self._recording.refused = True
            self._recording.finish()
        else:
            self._recording.abandon()

    def returned(self, value: Any) -> Any:
        """End with a coroutine's value; one that is a stream is followed further."""
        if type(value) in LATER:
            return pass_through(value, self)
        if self._is_open:
            self._is_open = False
            self._end(value)
        return value


def pass_through(stream: Any, following: Following) -> Any:
    """A generator, async generator or coroutine that does what `stream` does. One that runs already stays as it is."""
    kind = type(stream)
    if kind is GeneratorType and (stream.gi_suspended or stream.gi_running or stream.gi_frame is None):
        following.drop()
        return stream
    is_awaited = kind is CoroutineType or (kind is GeneratorType and stream.gi_code.co_flags & CO_ITERABLE_COROUTINE)
    make = _coroutine if is_awaited else _generator if kind is GeneratorType else _async_generator
    followed: Any = make(stream, following)
    followed.__name__, followed.__qualname__ = stream.__name__, stream.__qualname__
    unread = weakref.finalize(followed, following.drop)
    unread.atexit = False
    following.started = unread.detach
    return followed


def is_passed_through(stream: Any) -> bool:
    """Whether this is what `pass_through` gives."""
    code = getattr(stream, "gi_code", None) or getattr(stream, "ag_code", None)
    return code is not None and code in (_generator.__code__, _async_generator.__code__)


def _generator(stream: Any, following: Following) -> Any:
    following.started()
    context = following.context
    resume = partial(next, stream)
    try:
        while True:
            token = attach(context)
            try:
                item = resume()
            finally:
                restore(token, context)
            following.take(item)
            try:
                sent = yield item
            except GeneratorExit:
                with within(context):
                    stream.close()
                raise
            except BaseException as error:
                resume = partial(stream.throw, error)
            else:
                resume = partial(stream.send, sent)
    except StopIteration as stop:
        following.end()
        return stop.value
    except BaseException as error:
        following.end(error)
        raise


async def _async_generator(stream: Any, following: Following) -> Any:
    following.started()
    context = following.context
    resume = partial(anext, stream)
    try:
        while True:
            token = attach(context)
            try:
                item = await resume()
            except BaseException as error:
                if is_cancellation(error):
                    following.cancel(error)
                raise
            finally:
                restore(token, context)
            following.take(item)
            try:
                sent = yield item
            except GeneratorExit:
                with within(context):
                    await stream.aclose()
                raise
            except BaseException as error:
                resume = partial(stream.athrow, error)
            else:
                resume = partial(stream.asend, sent)
    except StopAsyncIteration:
        following.end()
    except BaseException as error:
        following.end(error)
        raise


async def _coroutine(coroutine: Any, following: Following) -> Any:
    following.started()
    try:
        with within(following.context):
            value = await coroutine
    except BaseException as error:
        following.end(error)
        raise
    return following.returned(value)
