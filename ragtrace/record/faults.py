"""What goes wrong inside ragtrace: faults, and which exceptions are none of ours but the host's way to stop."""

from __future__ import annotations

import time
from _signal import getsignal  # type: ignore[import-not-found]  # that of `signal` takes a hundred times as long
from functools import partial
from opcode import opmap
from signal import valid_signals
from threading import current_thread, main_thread
from types import CodeType, TracebackType
from typing import Any, Final

from ragtrace.types import Fault

__all__ = ["fault_now", "is_cancellation", "is_of_the_host", "let_through"]

_SIGNALS: Final = sorted(map(int, valid_signals()))
_LENGTH: Final = 1000  # characters of a message
_LOOPS: Final = frozenset({"asyncio", "eventlet", "gevent", "greenlet", "trio"})  # they cancel by such exceptions


def fault_now(service: str, where: str, kind: str, message: str = "", count: int = 1) -> Fault:
    """A fault of this service, now."""
    return Fault(service=service, where=where, kind=kind, message=message[:_LENGTH], count=count, at=time.time_ns())


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
