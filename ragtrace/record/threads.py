"""Lets the work that a request hands to a thread pool stay in that request.

`ThreadPoolExecutor` does not pass the context on to its threads, and so neither does `loop.run_in_executor`. While this
is in use, `submit` attaches the OpenTelemetry context of a running request around the work in the thread. Nothing is
added to what is submitted outside of a request, and no other context variable is touched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context, attach, detach, get_current

from ragtrace.record.recorder import active
from ragtrace.record.requests import current_recording

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["follow", "unfollow"]

_Submit = Callable[..., "Future[Any]"]

_ours: _Submit | None = None
_is_on = False


def follow() -> None:
    """Put it in use; a second time changes nothing."""
    from concurrent.futures import ThreadPoolExecutor

    global _ours, _is_on
    _is_on = True
    submit = ThreadPoolExecutor.submit
    if _ours is None or not _is_among(_ours, submit):
        _ours = _following(submit)
        ThreadPoolExecutor.submit = _ours  # type: ignore[method-assign]


def unfollow() -> None:
    """Put it out of use. Where somebody else has wrapped `submit` since, ours stays below and does nothing."""
    global _ours, _is_on
    _is_on = False
    if _ours is None:
        return
    from concurrent.futures import ThreadPoolExecutor

    if ThreadPoolExecutor.submit is _ours:
        ThreadPoolExecutor.submit = _ours.__wrapped__  # type: ignore[attr-defined,method-assign]
        _ours = None


def _is_among(ours: _Submit, submit: Any) -> bool:
    """Whether `submit` is ours, or one that calls ours."""
    while submit is not None and submit is not ours:
        submit = getattr(submit, "__wrapped__", None)
    return submit is ours


def _following(given: _Submit) -> _Submit:
    @functools.wraps(given)
    def submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        recorder = active() if _is_on else None
        if recorder is None or current_recording(recorder) is None:
            return given(self, fn, *args, **kwargs)
        return given(self, _within, get_current(), fn, *args, **kwargs)

    return submit


def _within(context: Context, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    token = attach(context)
    try:
        return fn(*args, **kwargs)
    finally:
        detach(token)
