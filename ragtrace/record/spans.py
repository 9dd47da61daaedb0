"""Spans: the tracer of the host's provider, exceptions on spans, and how many attributes a span takes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode, Tracer, TracerProvider

from ragtrace.record import conventions as names
from ragtrace.record.faults import let_through
from ragtrace.record.flushing import precede
from ragtrace.types import ErrorInfo

__all__ = ["Attributes", "Tracing", "add_exception", "mark_failed", "room"]

Attributes: TypeAlias = dict[str, Any]

_LOG: Final = logging.getLogger("ragtrace")
_DEFAULT_LIMIT: Final = 128  # OpenTelemetry's own
_NO_LIMIT: Final = 1 << 20


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
