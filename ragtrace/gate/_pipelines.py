"""Finds the application's own function by `module:function`, and calls it, whatever kind of function it is."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self, TypeVar

from ragtrace.errors import ConfigurationError
from ragtrace.object_loading import load_object

__all__ = ["Caller", "EventLoop", "load_pipeline"]

T = TypeVar("T")
Pipeline = Callable[[str], Any]

_ALLOWED: Final = "module:function, as in app.rag:answer, or module:factory() for a function that makes it"


def load_pipeline(name: str) -> Pipeline:
    """The function that `module:function` names; with `()` behind it, what that function returns.

    The module is looked for in the current folder too. Raises: ConfigurationError.
    """
    function = load_object(name, "pipeline", _ALLOWED)
    if not callable(function) or isinstance(function, type):
        raise ConfigurationError(
            f"pipeline {name!r} is {_kind(function)} and no function that takes a question; give {_ALLOWED}"
        )
    _check_arguments(name, function)
    return function  # type: ignore[no-any-return]


def _kind(found: Any) -> str:
    return f"class {found.__qualname__}" if isinstance(found, type) else f"of type {type(found).__qualname__}"


def _check_arguments(name: str, function: Pipeline) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some of C tell nothing
        return
    try:
        signature.bind("question")
    except TypeError as error:
        raise ConfigurationError(
            f"pipeline {name!r} takes {signature} ({error}); give a function that can be called with the question alone"
        ) from None


class EventLoop:
    """One event loop, in a thread of its own, for all that a pipeline awaits; it runs from its first use on."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """What `work` gives, in the context of the caller; it is cancelled when that takes longer than `timeout`."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="ragtrace-replay-loop", daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.done():  # it is the work's own
                raise
            future.cancel()
            raise _too_long(timeout) from None
        except KeyboardInterrupt:
            future.cancel()
            raise


class Caller:
    """Calls a pipeline with one question after the other. Each worker of a replay has one of its own.

    With a timeout, a function that is not async runs in a thread beside the caller's: nothing can stop it, so a thread
    in which it hangs is left behind.
    """

    def __init__(self, pipeline: Pipeline, loop: EventLoop, timeout: float | None = None) -> None:
        self._pipeline = pipeline
        self._loop = loop
        self._timeout = timeout
        self._is_async = _is_async(pipeline)
        self._thread: _Thread | None = None

    def __call__(self, question: str) -> None:
        """Ask, and read a stream to its end. Raises: what the pipeline raises; TimeoutError when it takes too long."""
        if self._timeout is None or self._is_async:
            self._ask(question, self._timeout)
        else:
            self._ask_beside(question, self._timeout)

    def _ask(self, question: str, timeout: float | None = None) -> None:
        value = self._pipeline(question)
        if inspect.isgenerator(value):
            deque(value, maxlen=0)
        elif inspect.isasyncgen(value) or inspect.isawaitable(value):
            self._loop.run(_read(value), timeout)

    def _ask_beside(self, question: str, timeout: float) -> None:
        self._thread = self._thread or _Thread()
        try:
            self._thread.run(functools.partial(self._ask, question), timeout)
        except queue.Empty:
            self._thread = None
            raise _too_long(timeout) from None


def _is_async(pipeline: Pipeline) -> bool:
    of_object = type(pipeline).__call__  # of an object that is called like a function
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        for each in (pipeline, of_object, inspect.unwrap(pipeline))
    )


async def _read(value: Any) -> None:
    """Wait for a value, and read a stream to its end."""
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        async for _ in value:
            pass
    elif inspect.isgenerator(value):
        deque(value, maxlen=0)


def _too_long(timeout: float | None) -> TimeoutError:
    return TimeoutError(f"no answer within {timeout:g} s")


class _Thread:
    """A thread that runs what it is given, in the context of whom it was given by."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], None], queue.SimpleQueue[BaseException | None]] | None]
        self._work = queue.SimpleQueue()
        threading.Thread(target=self._run, name="ragtrace-replay-call", daemon=True).start()

    def run(self, work: Callable[[], None], timeout: float) -> None:
        """Wait for the end of `work`. Raises: what it raises; queue.Empty when it goes on, and then ends the thread."""
        ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._work.put((functools.partial(contextvars.copy_context().run, work), ended))
        try:
            error = ended.get(timeout=timeout)
        except BaseException:
            self._work.put(None)  # once it is through
            raise
        if error is not None:
            raise error

    def _run(self) -> None:
        while (given := self._work.get()) is not None:
            work, ended = given
            try:
                work()
            except BaseException as error:
                ended.put(error)
            else:
                ended.put(None)
