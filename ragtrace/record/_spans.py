"""Spans: the tracer of the host's provider, exceptions on spans, how many attributes a span takes, and spans that are
still to end when the provider flushes or shuts down.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import logging
import time
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import Span, Status, StatusCode, Tracer, TracerProvider

from ragtrace.record import conventions as names
from ragtrace.record.guard import let_through
from ragtrace.types import ErrorInfo

__all__ = ["Attributes", "Tracing", "add_exception", "mark_failed", "precede", "room", "set_attributes"]

Attributes: TypeAlias = dict[str, Any]

_LOG: Final = logging.getLogger("ragtrace")
_DEFAULT_LIMIT: Final = 128  # OpenTelemetry's own
_NO_LIMIT: Final = 1 << 20
_ATOMS: Final = frozenset({str, bool, int, float})
_DEADLINE: Final = 5.0  # seconds
_TIMEOUT: Final = "timeout_millis"
EndSpans = Callable[[float], object]
_waiting: Final[weakref.WeakKeyDictionary[TracerProvider, list[weakref.ref[Any]]]] = weakref.WeakKeyDictionary()


class Tracing:
    """Finds the tracer of `provider`, else of the host's global provider; none when the host has none.

    Spans end in the background. So that none is missing when the host flushes its provider or shuts it down, those
    two wait for `end_spans` first.
    """

    def __init__(
        self, provider: TracerProvider | None = None, end_spans: Callable[[float], object] | None = None
    ) -> None:
        self.given = provider
        self._end_spans = end_spans
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def tracer(self) -> Tracer | None:
        """The tracer to start spans with."""
        provider = self.given or trace.get_tracer_provider()
        if provider is not self._provider:
            self._provider = provider
            self._tracer = None if isinstance(provider, trace.ProxyTracerProvider) else _tracer_of(provider)
            if self._tracer is not None and self._end_spans is not None:
                precede(provider, self._end_spans)
        return self._tracer


def _tracer_of(provider: TracerProvider) -> Tracer | None:
    try:
        return provider.get_tracer(names.TRACER)
    except BaseException as error:
        let_through(error)
        _LOG.exception("the tracer provider gives no tracer; requests are recorded without spans")
        return None


def mark_failed(span: Span, error: BaseException, *, is_told: bool = True) -> None:
    """Set the error status; with `is_told`, write the exception with its message and traceback on the span."""
    if is_told:
        span.record_exception(error, escaped=True)
    span.set_status(Status(StatusCode.ERROR, type(error).__name__))


def add_exception(span: Span, error: ErrorInfo, at: int) -> None:
    """Write an exception as far as it may be told: its type, and what is kept of its message."""
    attributes: Attributes = {names.EXCEPTION_TYPE: error.type}
    if error.message:
        attributes[names.EXCEPTION_MESSAGE] = error.message
    span.add_event(names.EXCEPTION_EVENT, attributes, at)


def room(span: Span | None) -> int:
    """How many further attributes a span takes before it drops its oldest ones."""
    limit = getattr(getattr(span, "_limits", None), "max_span_attributes", _DEFAULT_LIMIT)
    held = getattr(span, "attributes", None)
    return (_NO_LIMIT if limit is None else int(limit)) - (0 if held is None else len(held))


def set_attributes(span: Span, attributes: Attributes) -> None:
    """`span.set_attributes` of a span that is open: the SDK looks at each element of an array in Python, which takes
    more of a request's time than all else of its spans' attributes.

    Where nothing of that name is there yet, nothing is limited, and all are texts, numbers and arrays of one of these,
    there is nothing that it would change: they are put where it puts them. Else, and where it keeps them in another
    way, it does that itself.
    """
    held: Any = getattr(span, "_attributes", None)
    if type(held) is BoundedAttributes and held.max_value_len is None:
        kept, lock = getattr(held, "_dict", None), getattr(held, "_lock", None)
        cleaned = {name: _cleaned(value) for name, value in attributes.items()}
        if type(kept) is dict and lock is not None and None not in cleaned.values():
            with lock:
                has_room = held.maxlen is None or len(kept) + len(cleaned) <= held.maxlen
                if has_room and kept.keys().isdisjoint(cleaned):
                    kept.update(cleaned)
                    return
    span.set_attributes(attributes)


def _cleaned(value: Any) -> Any:
    """A value as the SDK keeps it; None where it has to look at it."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is not list and kind is not tuple:
        return None
    kinds = {*map(type, value)}
    return tuple(value) if len(kinds) <= 1 and kinds <= _ATOMS else None


def precede(provider: TracerProvider, end_spans: EndSpans) -> None:
    """Call `end_spans` (a bound method, held weakly) before each `force_flush` and `shutdown` of `provider`.

    It gets at most half of the time that the host gives a flush; the provider gets what is left.

    The SDK shuts its providers down by `atexit` handlers, which run last in, first out; so another one is registered
    when a provider is first seen, which runs before the provider's.
    """
    reference: weakref.ref[Any] = (weakref.WeakMethod if hasattr(end_spans, "__self__") else weakref.ref)(end_spans)
    try:
        known = _waiting.setdefault(provider, [])
        if not known:
            for name in ("force_flush", "shutdown"):
                _wrap(provider, name, known)
            atexit.register(_run, known, _DEADLINE)
        known[:] = [other for other in known if other() is not None and other() != end_spans]
        known.append(reference)
    except (AttributeError, TypeError):
        return  # a provider of another kind, which lets nobody add to it: it gets the spans as they end


def _wrap(provider: TracerProvider, name: str, waiting: list[weakref.ref[Any]]) -> None:
    given = getattr(provider, name, None)
    if given is None:
        return

    @functools.wraps(given)
    def preceded(*args: Any, **kwargs: Any) -> Any:
        limit = _limit(given, args, kwargs)
        if limit is None:
            _run(waiting, _DEADLINE)
            return given(*args, **kwargs)
        began = time.monotonic()
        _run(waiting, min(_DEADLINE, limit / 2000))
        left = max(0, limit - round((time.monotonic() - began) * 1000))
        return given(left, *args[1:], **kwargs) if args else given(**{**kwargs, _TIMEOUT: left})

    setattr(provider, name, preceded)


def _limit(given: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
    """The milliseconds that the host gives; None where it gives none, or in another way than the SDK's."""
    try:
        is_first = next(iter(inspect.signature(given).parameters), None) == _TIMEOUT
    except (TypeError, ValueError):
        return None
    limit = args[0] if args and is_first else kwargs.get(_TIMEOUT)
    return limit if isinstance(limit, int | float) and not (args and not is_first) else None


def _run(waiting: list[weakref.ref[Any]], seconds: float) -> None:
    """Let all end their spans within `seconds` in all."""
    until = time.monotonic() + seconds
    for reference in tuple(waiting):
        end_spans = reference()
        if end_spans is not None:
            end_spans(max(0.0, until - time.monotonic()))
