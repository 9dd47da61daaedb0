"""Tells exceptions apart, and where they come from, without keeping one of them or its frames alive."""

from __future__ import annotations

from types import CodeType, TracebackType
from typing import Final, TypeAlias

__all__ = ["Identity", "behind", "identity", "place_of"]

Identity: TypeAlias = tuple[int, CodeType | None, int]

_MOST: Final = 16  # exceptions behind one that are looked at


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
