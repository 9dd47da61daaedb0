"""The base of all instrumentors: the interface of `opentelemetry-instrument`, patches that can be undone."""

from __future__ import annotations

import inspect
import logging
import sys
from abc import abstractmethod
from collections.abc import Callable, Collection
from importlib import import_module
from types import FrameType
from typing import Any, ClassVar, Final

import wrapt
from opentelemetry.instrumentation.dependencies import DependencyConflictError
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # see its first line
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from ragtrace.errors import RagtraceError
from ragtrace.record._recorder import Recorder, active
from ragtrace.record.guard import guarded

__all__ = ["Instrumentor", "Patches", "called_from", "usable_recorder"]

_NOTHING: Final = object()
_LOG: Final = logging.getLogger("ragtrace")


def usable_recorder() -> Recorder | None:
    """The recorder in use; None without one, and under OpenTelemetry's `suppress_instrumentation`."""
    recorder = active()
    return recorder if recorder is not None and is_instrumentation_enabled() else None


def called_from(depth: int, *packages: str, through: str = "wrapt") -> bool:
    """Whether the caller `depth` frames up belongs to one of these packages (by prefix); `through` is passed over."""
    frame: FrameType | None = sys._getframe(depth + 1)
    name = ""
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name.partition(".")[0] not in (through, "wrapt"):
            break
        frame = frame.f_back
    return name.startswith(packages)


class Patches:
    """Wrapped functions and methods, with what stood there before.

    Every wrapper looks at `is_on` first: one that cannot be taken out, because somebody wrapped it again, is inert.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._undo: list[tuple[Any, str, Any, Any]] = []

    def wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """Put `wrapper(wrapped, instance, args, kwargs)` around `owner.name`; nothing when there is no such name."""
        original = vars(owner).get(name)
        if original is None or isinstance(original, wrapt.FunctionWrapper):
            return
        patched = wrapt.FunctionWrapper(original, wrapper, enabled=lambda: self.is_on)
        setattr(owner, name, patched)
        self._undo.append((owner, name, original, patched))

    def add(self, owner: Any, name: str, value: Any) -> None:
        """Put `value` where `owner` itself has nothing of this name."""
        setattr(owner, name, value)
        self._undo.append((owner, name, _NOTHING, vars(owner)[name]))

    def wrap_calls(self, owner: Any, name: str, sync: Callable[..., Any], later: Callable[..., Any]) -> None:
        """`wrap` with the wrapper that fits to a function or to a coroutine function."""
        original = inspect.unwrap(getattr(owner, name, None))  # type: ignore[arg-type]
        self.wrap(owner, name, later if inspect.iscoroutinefunction(original) else sync)

    def remove(self) -> None:
        """Put everything back that still stands where it was put."""
        self.is_on = False
        while self._undo:
            owner, name, original, patched = self._undo.pop()
            if vars(owner).get(name) is not patched:
                continue
            if original is _NOTHING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


class Instrumentor(BaseInstrumentor):  # type: ignore[misc]  # its methods are not annotated
    """One framework. Hooks are put in place when the host imports `module`, at once if it has."""

    module: ClassVar[str]
    _instruments: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        if not hasattr(self, "patches"):  # a singleton, whose __init__ runs at every call
            self.patches = Patches()

    def instrumentation_dependencies(self) -> Collection[str]:
        """The framework's versions that are supported."""
        return self._instruments

    def conflict(self) -> str | None:
        """What stands against it: a missing distribution, or a version that is not supported."""
        found = self._check_dependency_conflicts()
        return None if found is None else f"{found.required} is supported, {found.found or 'none'} is installed"

    def _instrument(self, *, configure: bool = True, **kwargs: Any) -> None:
        if configure:  # started by `opentelemetry-instrument`, which leaves the check and the settings to us
            conflict = self._check_dependency_conflicts()
            if conflict is not None:
                raise DependencyConflictError(conflict)
            _configure()
        self.patches.is_on = True
        wrapt.register_post_import_hook(self._arrived, self.module)

    def _uninstrument(self, **kwargs: Any) -> None:
        self.withdraw()
        self.patches.remove()

    def _arrived(self, module: Any) -> None:
        if not self.patches.is_on:
            return
        with guarded(f"instrument.{self.module}"):  # it may not be what it was; the host's import must not fail
            self.apply()

    @abstractmethod
    def apply(self) -> None:
        """Put hooks and patches in place; the framework is imported."""

    def withdraw(self) -> None:
        """Take the hooks back; patches are removed without it."""
        return


def _configure() -> None:
    """Settings from the environment, unless the host has configured ragtrace."""
    if active() is not None:
        return
    try:
        import_module("ragtrace").configure()  # upwards, late and by name: only for `opentelemetry-instrument`
    except RagtraceError as error:
        _LOG.error("nothing is recorded: %s", error)
