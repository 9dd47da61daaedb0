"""The recording of a request or a stage while it runs: its start, span, place in the context and error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from time import perf_counter_ns
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import NonRecordingSpan, Span, Tracer, format_span_id, set_span_in_context

from ragtrace.record._recorder import Recorder
from ragtrace.record._spans import Attributes, add_exception, mark_failed, set_attributes
from ragtrace.record.coercion import Unreadable
from ragtrace.record.coercion.values import Allowance
from ragtrace.record.guard import UNREADABLE_MESSAGE, attempt, guarded
from ragtrace.types import ErrorInfo

__all__ = ["Opened", "Parts", "Recording", "describe_error", "is_failure", "restore", "within"]

T = TypeVar("T")
V = TypeVar("V")

_MESSAGE: Final = 1000
_TOO_MANY: Final = "items beyond read_items, read_seconds or a quarter of queue_bytes are not read"
_CANDIDATES: Final = "return a list of texts, dicts, tuples (id, text, score) or documents"
_REMEDIES: Final[Mapping[str, str]] = {
    "retrieve": _CANDIDATES,
    "rerank": _CANDIDATES,
    "pack": "return the prompt as a text, or the chunks that it holds",
    "generate": "return the answer as a text, or a response that holds it",
}
_HERE: Final[ContextVar[None]] = ContextVar("ragtrace-here", default=None)


class Parts(Protocol):
    """Takes what a stage streams, part by part."""

    @property
    def weight(self) -> int:
        """Roughly how many bytes it holds."""

    def add(self, part: Any) -> None:
        """Take one part as it is now."""


def is_failure(error: BaseException) -> bool:
    """Whether an exception is a fault; a generator that is closed, Ctrl-C and a plain exit only leave what they end."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return not isinstance(error, GeneratorExit | KeyboardInterrupt)


def describe_error(error: BaseException, stage: str | None) -> ErrorInfo:
    """An exception as plain data; it holds on to no traceback."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    message = attempt(lambda error: str(error)[:_MESSAGE], error, UNREADABLE_MESSAGE)
    return ErrorInfo(type=name, message=message, stage=stage)


class Recording(ABC):
    """One request or stage that is being recorded.

    `context` is what is current while the host's code of it runs; it is attached and detached around every step of
    a stream, so that nothing leaks to the consumer. None: nothing of this recording has to be found there.

    On the host's thread a recording only takes what it is given; `described` reads it, in the background.
    """

    operation: ClassVar[str]

    # what most recordings never set stands here, so that starting one costs little
    context: Context | None = None
    span: Span | None = None  # while it is open
    error: ErrorInfo | None = None
    ended = False
    ended_at = 0
    refused = False
    is_partial = False  # more came out than was read
    given = False  # a value was accepted before the end
    raised: ErrorInfo | None = None  # an exception that its span tells of when it ends
    _token: Token[Context] | None = None
    _span_id: str | None = None  # of a span that has ended

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder = recorder
        self.name = name
        self.clock = perf_counter_ns()
        self.started_at = 0

    def start_span(self, tracer: Tracer, name: str, context: Context) -> None:
        """Begin the span, as a child of the one in `context`; a tracer that fails costs the span."""
        try:
            self.span = tracer.start_span(name, context, start_time=self.started_at)
            self.context = set_span_in_context(self.span, context)
        except BaseException as error:
            self.recorder.guard.caught(f"span.{self.operation}", error)

    def enter(self) -> None:
        """Make this the current span and request."""
        if self.context is not None:
            self._token = attach(self.context)

    def leave(self) -> None:
        """Make current what was before `enter`."""
        if self._token is not None:
            token, self._token = self._token, None
            restore(token, self.context)

    def now(self) -> int:
        """Wall-clock time that never runs backward within this recording."""
        return self.started_at + perf_counter_ns() - self.clock

    @property
    def span_id(self) -> str | None:
        """The span's id; None without a span that has one."""
        if self.span is None:
            return self._span_id
        context = self.span.get_span_context()
        return format_span_id(context.span_id) if context.is_valid else None

    def end(self, value: Any) -> None:
        """End with what the host's code returned."""
        self.ended_at = self.started_at + perf_counter_ns() - self.clock
        try:
            if not self.take_at_once(value):
                self._take(value)
        except BaseException as error:
            self.refuse(error)
        finally:
            self.finish()

    def accept(self, value: Any) -> None:
        """Take a value of the host's; what cannot be understood is counted."""
        self.refused = False
        self.given = True
        try:
            if not self.take_at_once(value):
                self._take(value)
        except BaseException as error:
            self.refuse(error)

    def _take(self, value: Any) -> None:
        with self.allowance() as allowance:
            self.take(value)
        if allowance.left_out:
            self.leave_out(allowance.left_out)

    def take_at_once(self, value: Any) -> bool:
        """Take a value of which nothing has to be read piece by piece, as most are; False for another one."""
        return False

    def read_some(self, read: Callable[[V], T], value: V) -> T:
        """What `read` makes of an input, of which no more is read than is allowed."""
        allowance = self.allowance()
        try:
            with allowance:
                return read(value)
        finally:
            if allowance.left_out:
                self.leave_out(allowance.left_out, "inputs")

    def allowance(self) -> Allowance:
        """How much of one value is read at once."""
        config = self.recorder.config
        return Allowance(config.read_items, config.read_seconds)

    def leave_out(self, count: int, what: str = "coerce") -> None:
        """Count items that were not read, since there are too many or they take too long."""
        self.is_partial = self.is_partial or what == "coerce"
        self.recorder.guard.count(f"{what}.{self.operation}", "too_many", _TOO_MANY, count=count)

    def refuse(self, error: BaseException, what: str = "coerce") -> None:
        """Count a value that cannot be understood, or a fault of ours; what stops the host's code passes."""
        self.refused = self.refused or what == "coerce"
        if isinstance(error, Unreadable):
            remedy = _REMEDIES.get(self.operation, "") if what == "coerce" and not error.has_remedy else ""
            more = f"; {remedy}, or say where it is by returns=" if remedy else ""
            self.recorder.guard.count(f"{what}.{self.operation}", error.kind, f"{error}{more}")
        else:
            self.recorder.guard.caught(f"{what}.{self.operation}", error)

    def fail(self, error: BaseException) -> None:
        """End because of an exception of the host's; one that is no failure leaves a result that nobody has read."""
        if not is_failure(error):
            self.refused = self.refused or not self.given
            self.finish()
            return
        self.ended_at = self.now()
        try:
            with guarded(f"record.{self.operation}", self.recorder.guard):
                self.note_error(error)
        finally:
            self.finish()

    def cut(self, error: BaseException) -> None:
        """End because what was streamed was cancelled, which is no failure of a request."""
        self.finish()

    def finish(self) -> None:
        """End; once only. The span ends when the recording has been read."""
        if self._token is not None:
            self.leave()
        if self.ended:
            return
        self.ended = True
        self.ended_at = self.ended_at or self.now()
        try:
            self.close()
        except BaseException as error:
            self.recorder.guard.caught(f"record.{self.operation}", error)

    def end_span(self, *, outlined: bool = False) -> None:
        """End the span, with its attributes, at the time at which the host's code ended; once.

        outlined: with those alone that are known without reading what was taken, which stays to be read.
        """
        span, guard = self.span, self.recorder.guard
        if span is None or type(span) is NonRecordingSpan:  # nobody records it
            return
        try:
            if span.is_recording():
                set_attributes(span, self.outlined() if outlined else self.described())
                if self.raised is not None:
                    add_exception(span, self.recorder.policy.error(self.raised), self.ended_at)
        except BaseException as error:
            guard.caught(f"record.{self.operation}", error)
        finally:
            try:
                self.forget_span()
                span.end(self.ended_at)
            except BaseException as error:  # of a span processor of the host's
                guard.caught(f"span.{self.operation}", error)

    def forget_span(self) -> None:
        """Its ids are all that is needed from now on: texts, at which no garbage collection has to look."""
        self._span_id, self.span = self.span_id, None

    def abandon(self) -> None:
        """End without a trace in the record: the host's code has never run."""
        if not self.ended:
            self.ended = True
            if self.span is not None:
                self.span.end()

    def streamed(self) -> Parts | None:
        """What takes the parts of a streamed value, and is then taken as the value; None: they are the host's own."""
        return None

    @property
    def is_expired(self) -> bool:
        """Whether it was open for too long, so that nothing more is collected for it."""
        return False

    @abstractmethod
    def take(self, value: Any) -> None:
        """Take what the host's code returned. Raises: Unreadable when it cannot be understood."""

    def note_error(self, error: BaseException) -> None:
        """Keep an exception of the host's that ended this."""
        if self.span is not None:
            is_told = self.recorder.policy.capture.error == "full"
            with guarded(f"span.{self.operation}", self.recorder.guard):  # its message may not be readable
                mark_failed(self.span, error, is_told=is_told)
            self.raised = None if is_told else describe_error(error, None)

    @abstractmethod
    def close(self) -> None:
        """Hand over what was recorded."""

    @abstractmethod
    def described(self) -> Attributes:
        """The attributes of the span."""

    @abstractmethod
    def outlined(self) -> Attributes:
        """Those of them that are known without reading what was taken."""


def restore(token: Token[Context], own: Context | None) -> None:
    """Make current what was before `attach(own)` gave this token.

    A task that is destroyed and a generator that another thread closes end in another context than they began in:
    there is nothing to restore, and OpenTelemetry's own `detach` would log an error. A copy of the context in which
    `own` is current is restored, too.
    """
    if type(token) is not Token:  # a host's own OpenTelemetry context
        detach(token)
        return
    variable = token.var
    try:
        variable.reset(token)
    except ValueError:
        if variable.get(None) is own:
            before = token.old_value
            variable.set(Context() if before is Token.MISSING else before)


class within:
    """Run a block in this context; in the present one without it."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context | None) -> None:
        self._context = context
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        self._token = None if self._context is None else attach(self._context)

    def __exit__(self, *about: object) -> None:
        if self._token is not None:
            restore(self._token, self._context)


class Opened(Generic[T]):
    """What the open blocks of one `with` object hold: several threads and tasks may share the object."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: list[tuple[T, Token[None]]] = []

    def push(self, value: T) -> None:
        """A block begins."""
        self._blocks.append((value, _HERE.set(None)))

    def pop(self) -> T:
        """A block ends: the innermost that began in this context; where none did, the last one."""
        blocks = self._blocks.copy()
        block = blocks[-1]
        if len(blocks) > 1:
            block = next(filter(_began_here, reversed(blocks)), block)
        self._blocks.remove(block)
        return block[0]


def _began_here(block: tuple[Any, Token[None]]) -> bool:
    """Whether the block began in this context, which alone takes its token, once."""
    try:
        _HERE.reset(block[1])
    except ValueError:
        return False
    return True
