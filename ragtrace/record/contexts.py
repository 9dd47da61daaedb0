"""Leaves a context that was made current, quietly where that is impossible by then; tells whose block ends."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any, Final, Generic, TypeVar

from opentelemetry.context import Context, attach, detach

__all__ = ["Opened", "restore", "within"]

T = TypeVar("T")

_HERE: Final[ContextVar[None]] = ContextVar("ragtrace-here", default=None)


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
