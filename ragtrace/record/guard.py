"""The guard around everything of ragtrace that runs in the host's path: it swallows, logs once per kind and counts as
faults what goes wrong there, and lets through what is the host's way to stop. Exceptions are told apart, and where they
come from, without keeping one of them or its frames alive.
"""

from __future__ import annotations

import logging
import time
from _signal import getsignal  # type: ignore[import-not-found]  # that of `signal` takes a hundred times as long
from collections.abc import Callable
from functools import partial, wraps
from opcode import opmap
from signal import valid_signals
from threading import current_thread, main_thread
from types import CodeType, TracebackType
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from ragtrace.types import Fault

__all__ = [
    "UNREADABLE_MESSAGE",
    "Guard",
    "Identity",
    "attempt",
    "behind",
    "fault_now",
    "guarded",
    "identity",
    "is_cancellation",
    "is_of_the_host",
    "let_through",
    "place_of",
    "put_in_use",
]

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")
V = TypeVar("V")
Identity: TypeAlias = tuple[int, CodeType | None, int]

UNREADABLE_MESSAGE: Final = "(its message cannot be read)"

_LOG: Final = logging.getLogger("ragtrace")
_KINDS: Final = 256  # distinct (where, kind) that are logged
_LENGTH: Final = 300  # characters of an exception's message
_SIGNALS: Final = sorted(map(int, valid_signals()))
_FAULT_LENGTH: Final = 1000  # characters of a fault's message
_LOOPS: Final = frozenset({"asyncio", "eventlet", "gevent", "greenlet", "trio"})  # they cancel by such exceptions
_MOST: Final = 16  # exceptions behind one that are looked at


class Guard:
    """Turns ragtrace's own faults into counted `Fault`s. With `raise_errors`, exceptions are raised again.

    `kept` gives what may be kept of an exception's message, which may quote content.
    """

    def __init__(
        self,
        service: str,
        report: Callable[[Fault], None],
        *,
        raise_errors: bool = False,
        kept: Callable[[str], str] = lambda message: message,
    ) -> None:
        self._service = service
        self._report = report
        self._raise_errors = raise_errors
        self._kept = kept
        self._logged: set[tuple[str, str]] = set()

    def swallows(self, where: str, error: BaseException) -> bool:
        """Count an exception of ours in the host's path. False, and not counted, under `raise_errors`, and when it is
        the host's way to stop what runs."""
        if self._raise_errors or is_of_the_host(error):
            return False
        self.count(where, type(error).__name__, self._message(error))
        return True

    def caught(self, where: str, error: BaseException) -> None:
        """The same, and raise again what it does not swallow."""
        if not self.swallows(where, error):
            raise error

    def count(self, where: str, kind: str, message: str = "", *, count: int = 1) -> None:
        """Count something that went wrong or could not be understood. Never raises."""
        try:
            if (where, kind) not in self._logged and len(self._logged) < _KINDS:
                self._logged.add((where, kind))
                _LOG.warning("%s: %s %s (further ones are counted, not logged)", where, kind, message)
            self._report(fault_now(self._service, where, kind, message, count))
        except Exception:
            _LOG.exception("a fault could not be counted")

    def _message(self, error: BaseException) -> str:
        return attempt(lambda error: self._kept(str(error)[:_LENGTH]), error, UNREADABLE_MESSAGE)


_idle: Final = Guard("", lambda fault: None)  # without a recorder in use faults are logged, and nobody counts them
_in_use = _idle


def put_in_use(guard: Guard | None) -> None:
    """Make this the guard of what has none of its own; None: faults are only logged."""
    global _in_use
    _in_use = _idle if guard is None else guard


class guarded:
    """Around what of ours runs in the host's path: a block is left at a fault, a function returns None then.

        with guarded("feedback", recorder.guard):
            ...

        @guarded("instrument.openai")
        def hook(...): ...

    What runs several times in each stage has a `try` of its own, with `Guard.caught`: a block costs half a microsecond.

    Args:
        where: the part of ragtrace that a fault is counted under.
        guard: by default the one that is in use when the fault comes.
    """

    __slots__ = ("_guard", "_where")

    def __init__(self, where: str, guard: Guard | None = None) -> None:
        self._where = where
        self._guard = guard

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return error is not None and (self._guard or _in_use).swallows(self._where, error)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T | None]:
        """The decorated function."""

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T | None:
            with self:
                return function(*args, **kwargs)
            return None

        return run


def attempt(read: Callable[[V], T], value: V, otherwise: D) -> T | D:
    """What `read` makes of a host's object; `otherwise` where that raises when it is looked at. Not counted."""
    try:
        return read(value)
    except BaseException as error:
        let_through(error)
        return otherwise


def fault_now(service: str, where: str, kind: str, message: str = "", count: int = 1) -> Fault:
    """A fault of this service, now."""
    return Fault(
        service=service, where=where, kind=kind, message=message[:_FAULT_LENGTH], count=count, at=time.time_ns()
    )


def is_of_the_host(error: BaseException) -> bool:
    """Whether an exception that comes while we work is the host's way to stop or cancel what runs, and must reach it:
    a handler of a signal raised it, or an event loop cancels what runs.

    All others come of what we do, whatever they derive from: a panic of a Rust extension is no `Exception`, and a
    property that calls `sys.exit()` ends nobody's process because we looked at it.
    """
    return is_cancellation(error) or _is_of_a_signal(error)


def let_through(error: BaseException) -> None:
    """Raise an exception again where it is the host's way to stop. Called first where one of a host's object is
    swallowed."""
    if is_of_the_host(error):
        raise error


def _is_of_a_signal(error: BaseException) -> bool:
    """A handler in Python stands in the traceback, whatever it raises. Python's own handler of Ctrl-C does not: what it
    interrupts raised nothing, where an object that raises KeyboardInterrupt itself has a `raise` there."""
    innermost = error.__traceback__
    codes = set()  # of what we have called
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
        codes.add(innermost.tb_frame.f_code)
    if codes and current_thread() is main_thread() and not codes.isdisjoint(_handlers()):
        return True
    return isinstance(error, KeyboardInterrupt) and innermost is not None and not _raises(innermost)


def _handlers() -> set[CodeType]:
    """The code of the functions that handle signals now."""
    found: set[CodeType] = set()
    for number in _SIGNALS:
        handler: Any = getsignal(number)
        while isinstance(handler, partial):
            handler = handler.func
        if callable(handler):
            code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
            found |= {code} if isinstance(code, CodeType) else set()
    return found


def _raises(trace: TracebackType) -> bool:
    """Whether it is a `raise` at which a frame was left."""
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == opmap["RAISE_VARARGS"]


def is_cancellation(error: BaseException) -> bool:
    """Whether an event loop cancels what runs by this exception."""
    return not isinstance(error, Exception) and type(error).__module__.partition(".")[0] in _LOOPS


def identity(error: BaseException) -> Identity:
    """The address of an exception and where it was raised: one that was handled leaves its address to a later one."""
    origin = _origin(error)
    return (id(error), None, 0) if origin is None else (id(error), origin.tb_frame.f_code, origin.tb_lasti)


def behind(error: BaseException) -> list[BaseException]:
    """An exception and those that it was raised from, while handling, or for several of."""
    found = [error]
    for each in found:
        further = list(each.exceptions) if isinstance(each, BaseExceptionGroup) else []
        cause = each.__cause__ if each.__cause__ is not None or each.__suppress_context__ else each.__context__
        further += [] if cause is None else [cause]
        for one in further[: max(0, _MOST - len(found))]:
            if not any(one is known for known in found):
                found.append(one)
    return found


def place_of(error: BaseException) -> str:
    """Where an exception was raised: all that is told of one whose message may quote content."""
    origin = _origin(error)
    if origin is None:
        return ""
    code = origin.tb_frame.f_code
    return f"in {code.co_qualname}, line {origin.tb_lineno} of {code.co_filename}"


def _origin(error: BaseException) -> TracebackType | None:
    origin = error.__traceback__
    while origin is not None and origin.tb_next is not None:
        origin = origin.tb_next
    return origin
