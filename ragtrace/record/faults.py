"""Makes faults: what went wrong inside ragtrace, here and now."""

from __future__ import annotations

import time
from typing import Final

from ragtrace.types import Fault

__all__ = ["fault_now", "is_cancellation", "is_of_the_host"]

_LENGTH: Final = 1000  # characters of a message
_OUTSIDE: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
_LOOPS: Final = frozenset({"asyncio", "eventlet", "gevent", "greenlet", "trio"})  # they cancel by such exceptions


def fault_now(service: str, where: str, kind: str, message: str = "", count: int = 1) -> Fault:
    """A fault of this service, now."""
    return Fault(service=service, where=where, kind=kind, message=message[:_LENGTH], count=count, at=time.time_ns())


def is_of_the_host(error: BaseException) -> bool:
    """Whether an exception that comes while we work is the host's way to stop or cancel what runs, and must reach it.

    All others come of what we do, whatever they derive from: a panic of a Rust extension is no `Exception`.
    """
    return isinstance(error, _OUTSIDE) or is_cancellation(error)


def is_cancellation(error: BaseException) -> bool:
    """Whether an event loop cancels what runs by this exception."""
    return not isinstance(error, Exception) and type(error).__module__.partition(".")[0] in _LOOPS
