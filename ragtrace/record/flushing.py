"""Lets what is still to come reach a tracer provider before the provider flushes or shuts down."""

from __future__ import annotations

import atexit
import functools
import weakref
from collections.abc import Callable
from typing import Any, Final

from opentelemetry.trace import TracerProvider

__all__ = ["precede"]

_DEADLINE: Final = 5.0  # seconds

Flush = Callable[[float], object]

_flushes: Final[weakref.WeakKeyDictionary[TracerProvider, list[weakref.ref[Any]]]] = weakref.WeakKeyDictionary()


def precede(provider: TracerProvider, flush: Flush) -> None:
    """Call `flush` (a bound method, held weakly) before each `force_flush` and `shutdown` of `provider`.

    The SDK shuts its providers down by `atexit` handlers, which run last in, first out; so another one is registered
    when a provider is first seen, which runs before the provider's.
    """
    reference: weakref.ref[Any] = (weakref.WeakMethod if hasattr(flush, "__self__") else weakref.ref)(flush)
    try:
        known = _flushes.setdefault(provider, [])
        if not known:
            for name in ("force_flush", "shutdown"):
                _wrap(provider, name, known)
            atexit.register(_run, known)
        known[:] = [other for other in known if other() is not None and other() != flush]
        known.append(reference)
    except (AttributeError, TypeError):
        return  # a provider of another kind, which lets nobody add to it: it gets the spans as they end


def _wrap(provider: TracerProvider, name: str, flushes: list[weakref.ref[Any]]) -> None:
    given = getattr(provider, name, None)
    if given is None:
        return

    @functools.wraps(given)
    def preceded(*args: Any, **kwargs: Any) -> Any:
        _run(flushes)
        return given(*args, **kwargs)

    setattr(provider, name, preceded)


def _run(flushes: list[weakref.ref[Any]]) -> None:
    for reference in tuple(flushes):
        flush = reference()
        if flush is not None:
            flush(_DEADLINE)
