"""Lets spans that are still to end reach a tracer provider before the provider flushes or shuts down."""

from __future__ import annotations

import atexit
import functools
import inspect
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from opentelemetry.trace import TracerProvider

__all__ = ["precede"]

_DEADLINE: Final = 5.0  # seconds
_TIMEOUT: Final = "timeout_millis"

EndSpans = Callable[[float], object]

_waiting: Final[weakref.WeakKeyDictionary[TracerProvider, list[weakref.ref[Any]]]] = weakref.WeakKeyDictionary()


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
