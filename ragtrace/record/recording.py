"""What a request and a stage have in common while they run: a start, a span, a place in the context, an error."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextvars import Token
from typing import Any, ClassVar, Final

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import INVALID_SPAN, Span, format_span_id, set_span_in_context

from ragtrace.record.coercion import Unreadable
from ragtrace.record.recorder import Recorder
from ragtrace.record.spans import Attributes, mark_failed
from ragtrace.types import ErrorInfo

__all__ = ["Recording", "describe_error"]

_MESSAGE: Final = 1000


def describe_error(error: BaseException, stage: str | None) -> ErrorInfo:
    """An exception as plain data; it holds on to no traceback."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)[:_MESSAGE]
    except Exception:
        message = "(its message cannot be read)"
    return ErrorInfo(type=name, message=message, stage=stage)


class Recording(ABC):
    """One request or stage that is being recorded.

    `context` is what is current while the host's code of it runs; it is attached and detached around every step of
    a stream, so that nothing leaks to the consumer.
    """

    __slots__ = ("_clock", "_token", "context", "ended", "ended_at", "error", "name", "recorder", "span", "started_at")

    operation: ClassVar[str]

    def __init__(self, recorder: Recorder, name: str, span_name: str, parent: Context | None = None) -> None:
        self.recorder = recorder
        self.name = name
        self.ended = False
        self.ended_at = 0
        self.error: ErrorInfo | None = None
        self.started_at = time.time_ns()
        self._clock = time.perf_counter_ns()
        self._token: Token[Context] | None = None
        context = get_current() if parent is None else parent
        self.span: Span | None = recorder.tracing.start(span_name, self.started_at, context)
        self.context = context if self.span is None else set_span_in_context(self.span, context)

    def enter(self) -> None:
        """Make this the current span and request."""
        self._token = attach(self.context)

    def leave(self) -> None:
        """Make current what was before `enter`."""
        if self._token is not None:
            token, self._token = self._token, None
            detach(token)

    def now(self) -> int:
        """Wall-clock time that never runs backward within this recording."""
        return self.started_at + time.perf_counter_ns() - self._clock

    @property
    def span_id(self) -> str | None:
        """The span's id; None without a span that has one."""
        context = (self.span or INVALID_SPAN).get_span_context()
        return format_span_id(context.span_id) if context.is_valid else None

    def end(self, value: Any) -> None:
        """End with what the host's code returned."""
        self.ended_at = self.now()
        try:
            self.accept(value)
        finally:
            self.finish()

    def accept(self, value: Any) -> None:
        """Read a value of the host's; what cannot be understood is counted."""
        try:
            self.take(value)
        except Unreadable as error:
            self.recorder.guard.count(f"coerce.{self.operation}", error.kind, str(error))
        except Exception as error:
            self.recorder.guard.caught(f"coerce.{self.operation}", error)

    def fail(self, error: BaseException) -> None:
        """End because of an exception of the host's."""
        self.ended_at = self.now()
        try:
            self.note_error(error)
        except Exception as fault:
            self.recorder.guard.caught(f"record.{self.operation}", fault)
        finally:
            self.finish()

    def finish(self) -> None:
        """End; once only."""
        self.leave()
        if self.ended:
            return
        self.ended = True
        self.ended_at = self.ended_at or self.now()
        try:
            attributes = self.close()
            if self.span is not None:
                self.span.set_attributes(attributes)
        except Exception as error:
            self.recorder.guard.caught(f"record.{self.operation}", error)
        finally:
            if self.span is not None:
                self.span.end(self.ended_at)

    @abstractmethod
    def take(self, value: Any) -> None:
        """Read what the host's code returned. Raises: Unreadable when it cannot be understood."""

    def note_error(self, error: BaseException) -> None:
        """Keep an exception of the host's that ended this."""
        if self.span is not None:
            mark_failed(self.span, error)

    @abstractmethod
    def close(self) -> Attributes:
        """Hand over what was recorded; gives the attributes of the span."""
