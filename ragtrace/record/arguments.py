"""Finds a stage's inputs among a decorated function's arguments, by the map that the host gave or by name and type.

All that can be worked out from the signature is worked out once, when the function is decorated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ragtrace.errors import ConfigurationError
from ragtrace.record.guard import Guard

__all__ = ["Find", "Slot", "bind", "evaluate", "follow"]

Find: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], Any]

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Slot(NamedTuple):
    """One input of a stage: the parameter names it usually has, the type of the first argument that is taken else.

    `is_label`: a text that names no parameter is the value itself (`model="gpt-4o"`).
    """

    guesses: tuple[str, ...] = ()
    fallback: tuple[type, ...] = ()
    is_label: bool = False


class _Parameters:
    """A function's parameters with their places."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except Exception:  # it has none that can be told; a proxy or mock may raise whatever it is asked for
            parameters = []
        self.known = {
            found.name: (index, found) for index, found in enumerate(parameters) if found.kind not in _VARIADIC
        }
        self.takes_any = not parameters or any(found.kind is inspect.Parameter.VAR_KEYWORD for found in parameters)
        self.skip = 1 if parameters and parameters[0].name in ("self", "cls") else 0

    def find(self, name: str) -> Find:
        """How the argument called `name` is taken."""
        if name not in self.known:
            return lambda args, kwargs: kwargs.get(name)
        index, parameter = self.known[name]
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        if parameter.kind not in _POSITIONAL:
            return lambda args, kwargs: kwargs.get(name, default)
        return lambda args, kwargs: args[index] if index < len(args) else kwargs.get(name, default)


def bind(function: Callable[..., Any], slots: Mapping[str, Slot], given: Mapping[str, Any]) -> dict[str, Find]:
    """How each input is found among the arguments of `function`.

    Raises: ConfigurationError when the map names a parameter that `function` does not have.
    """
    parameters = _Parameters(function)
    finders: dict[str, Find | None] = {
        name: _mapped(name, given[name], slot, parameters, function) if name in given else _guessed(slot, parameters)
        for name, slot in slots.items()
    }
    return {name: find for name, find in finders.items() if find is not None}


def _mapped(name: str, where: Any, slot: Slot, parameters: _Parameters, function: Callable[..., Any]) -> Find:
    if callable(where):
        return lambda args, kwargs: where(*args, **kwargs)
    if not isinstance(where, str):
        return lambda args, kwargs: where
    head, _, rest = where.partition(".")
    if head in parameters.known or (parameters.takes_any and not slot.is_label):
        find, path = parameters.find(head), rest.split(".") if rest else []
        return (lambda args, kwargs: follow(find(args, kwargs), path)) if path else find
    if slot.is_label:
        return lambda args, kwargs: where
    called = getattr(function, "__qualname__", repr(function))
    raise ConfigurationError(
        f"{name}={where!r}: {called} has no parameter {head!r}; give one of {', '.join(parameters.known) or 'none'}, "
        "a dotted path that begins with one, or a function of the arguments"
    )


def _guessed(slot: Slot, parameters: _Parameters) -> Find | None:
    for guess in slot.guesses:
        if guess in parameters.known:
            return parameters.find(guess)
    if not slot.fallback:
        return None
    skip, wanted = parameters.skip, slot.fallback

    def find(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return next((value for value in (*args[skip:], *kwargs.values()) if isinstance(value, wanted)), None)

    return find


def follow(value: Any, path: Sequence[str]) -> Any:
    """The part of `value` at a dotted path of keys, attributes and positions. Raises: LookupError, AttributeError."""
    for step in path:
        if isinstance(value, Mapping):
            value = value[step]
        elif step.lstrip("-").isdigit() and isinstance(value, Sequence):
            value = value[int(step)]
        else:
            value = getattr(value, step)
    return value


def evaluate(
    finders: Mapping[str, Find], args: tuple[Any, ...], kwargs: dict[str, Any], guard: Guard, operation: str
) -> dict[str, Any]:
    """The inputs of one call. One that cannot be found is counted and left out; the others are kept."""
    inputs = {}
    for name, find in finders.items():
        try:
            inputs[name] = find(args, kwargs)
        except BaseException as error:
            guard.caught(f"arguments.{operation}", error)
    return inputs
