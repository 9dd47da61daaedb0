"""The object behind `ragtrace.retrieve(...)` and its sisters: a decorator and a context manager in one.

A decorated callable stays what it was: sync, async, generator, method. Nothing of ours changes its value or exception.
A stage's inputs are found among its arguments, by the map that the host gave or by name and type. All that can be
worked out from the signature is worked out once, when the callable is decorated.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType, TracebackType
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

from ragtrace.errors import ConfigurationError
from ragtrace.record._recorder import Recorder, active
from ragtrace.record._recording import Opened, Recording
from ragtrace.record._streams import LATER, Passing, pass_through
from ragtrace.record.guard import Guard, guarded, is_of_the_host

__all__ = ["Slot", "StageDecorator"]

F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H")

_Find: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], Any]

_NOWHERE: Final = 1 << 30  # the place of an input that is no positional argument
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class StageDecorator(ABC, Generic[H]):
    """Decorates a callable, or records the block of a `with` statement."""

    operation: ClassVar[str]
    slots: ClassVar[Mapping[str, Slot]]

    def __init__(self, given: Mapping[str, Any], *, name: Any, versions: Any, returns: Any = None) -> None:
        self.given = {key: value for key, value in given.items() if value is not None}
        self.versions = versions
        self.name = None if name is None else str(name)
        self.returns = returns
        self._open: Opened[Recording | None] = Opened()
        if not (returns is None or callable(returns) or isinstance(returns, str)):
            raise ConfigurationError(f"returns={returns!r}: give a dotted path into the value or a function of it")

    @abstractmethod
    def record(self, recorder: Recorder, name: str, inputs: Mapping[str, Any]) -> Recording:
        """Start a recording."""

    @abstractmethod
    def handle(self, recording: Recording | None) -> H:
        """What the host gets in a `with` block."""

    def __call__(self, function: F) -> F:
        """Decorate `function`. Raises: ConfigurationError when the argument map does not fit to it."""
        return decorate(self, function)

    def __enter__(self) -> H:
        recording = self._start()
        self._open.push(recording)
        if recording is not None:
            recording.enter()
        return self.handle(recording)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        recording = self._open.pop()
        if recording is None:
            return
        if error is None:
            recording.finish()
        else:
            recording.fail(error)

    async def __aenter__(self) -> H:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _start(self) -> Recording | None:
        recorder = active()
        if recorder is None:
            return None
        with guarded(f"record.{self.operation}", recorder.guard):
            return self.record(recorder, self.name or self.operation, self.given)
        return None


class _Call:
    """One decorated callable: how its inputs are found, and how a call of it is recorded."""

    __slots__ = ("_finders", "_inputs", "_instrument", "_name", "_record", "_returns", "has_parts")

    def __init__(self, instrument: StageDecorator[Any], function: Callable[..., Any]) -> None:
        self._instrument = instrument
        self._finders: Mapping[str, _Find] = _bind(function, instrument.slots, instrument.given)
        self._inputs = _taker_of(self._finders)
        self._record = instrument.record
        self._name: str = instrument.name or _called(function).rpartition("<locals>.")[2]
        self._returns = instrument.returns
        self.has_parts = instrument.returns is not None

    def start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recording | None:
        """The recording of one call, not yet entered; None when ragtrace is not in use or in trouble."""
        recorder = active()
        if recorder is None:
            return None
        try:
            try:
                inputs = self._inputs(args, kwargs)
            except BaseException as error:  # one cannot be found: the others are kept
                if is_of_the_host(error):
                    raise
                inputs = _evaluate(self._finders, args, kwargs, recorder.guard, self._instrument.operation)
            return self._record(recorder, self._name, inputs)
        except BaseException as error:
            recorder.guard.caught(f"record.{self._instrument.operation}", error)
            return None

    def end(self, recording: Recording, value: Any) -> None:
        """End the recording with what the callable returned."""
        if self._returns is not None:
            try:
                value = self._returns(value) if callable(self._returns) else _follow(value, self._returns.split("."))
            except BaseException as error:
                recording.refused = True  # what it returned is not known, which is not "nothing"
                recording.finish()
                recording.recorder.guard.caught(f"returns.{self._instrument.operation}", error)
                return
        recording.end(value)

    def follow(self, recording: Recording, stream: Any, *, has_run: bool = True) -> Any:
        """A generator, async generator or coroutine with which the recording ends; it is not current any longer."""
        recording.leave()
        try:
            end = functools.partial(self.end, recording)
            return pass_through(stream, Passing(recording, end, returns=self.has_parts, has_run=has_run))
        except BaseException as error:
            recording.finish()
            recording.recorder.guard.caught(f"record.{self._instrument.operation}", error)
            return stream


def decorate(instrument: StageDecorator[Any], function: F) -> F:
    """`function` with every call of it recorded."""
    given: Any = function
    if isinstance(given, classmethod | staticmethod):
        return type(given)(decorate(instrument, given.__func__))  # type: ignore[return-value]
    if not callable(given) or isinstance(given, type):
        raise ConfigurationError(
            f"ragtrace.{instrument.operation} cannot decorate {function!r}; give a function or method, a class's "
            "method in its body, or keyword arguments"
        )
    call = _Call(instrument, function)
    wrapper = _wrapper_of(function)(call, function)
    try:
        functools.update_wrapper(wrapper, function)
        if not isinstance(given, FunctionType | MethodType):
            _add_methods(wrapper, given)
    except Exception:  # a proxy or mock may raise whatever it is asked for
        wrapper.__wrapped__ = function  # type: ignore[attr-defined]
    return wrapper  # type: ignore[return-value]


def _called(function: Any) -> str:
    try:
        name = function.__qualname__
    except Exception:
        name = None
    return name if isinstance(name, str) else type(function).__qualname__


def _add_methods(wrapper: Any, given: Any) -> None:
    """Further methods of a callable object, such as `cache_clear` of `functools.lru_cache`."""
    for name in dir(type(given)):
        if not name.startswith("_") and name not in vars(wrapper) and callable(getattr(type(given), name)):
            setattr(wrapper, name, getattr(given, name))


def _wrapper_of(function: Callable[..., Any]) -> Callable[[_Call, Callable[..., Any]], Callable[..., Any]]:
    try:
        plain = _plain(function)
        if inspect.isasyncgenfunction(plain) or inspect.isgeneratorfunction(plain):
            return _GeneratorFunction
        return _async if inspect.iscoroutinefunction(plain) else _sync
    except Exception:  # a mock that claims to be a function
        return _sync


def _plain(function: Callable[..., Any]) -> Any:
    """The function that runs in the end."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


class _GeneratorFunction:
    """A generator function, also to `inspect`, that does what has to be done at the call: bind the arguments, and begin
    the recording in the request that calls."""

    __slots__ = ("__dict__", "__weakref__", "_plain", "_recorded")

    def __init__(self, call: _Call, function: Callable[..., Any]) -> None:
        plain = inspect.unwrap(_plain(function))
        self._recorded = _sync(call, function, has_run=False)
        self._plain = getattr(plain, "__func__", plain)
        self.__name__: str = self._plain.__name__
        self.__qualname__: str = self._plain.__name__

    @property
    def __code__(self) -> Any:
        return self._plain.__code__

    @property
    def __defaults__(self) -> Any:
        return self._plain.__defaults__

    @property
    def __kwdefaults__(self) -> Any:
        return self._plain.__kwdefaults__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._recorded(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by its name, as functions are


def _sync(call: _Call, function: Callable[..., Any], *, has_run: bool = True) -> Callable[..., Any]:
    start, has_parts = call.start, call.has_parts

    def recorded(*args: Any, **kwargs: Any) -> Any:
        recording = start(args, kwargs)
        if recording is None:
            return function(*args, **kwargs)
        if recording.context is not None:
            recording.enter()
        try:
            value = function(*args, **kwargs)
        except BaseException as error:
            recording.fail(error)
            raise
        if type(value) in LATER:
            return call.follow(recording, value, has_run=has_run)
        if has_parts:
            call.end(recording, value)
        else:
            recording.end(value)
        return value

    return recorded


def _async(call: _Call, function: Callable[..., Any]) -> Callable[..., Any]:
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        recording = call.start(args, kwargs)
        if recording is None:
            return await function(*args, **kwargs)
        recording.enter()
        try:
            value = await function(*args, **kwargs)
        except BaseException as error:
            recording.fail(error)
            raise
        if type(value) in LATER:
            return call.follow(recording, value)
        call.end(recording, value)
        return value

    return recorded


class Slot(NamedTuple):
    """One input of a stage: the parameter names it usually has, the type of the first argument that is taken else.

    `is_label`: a text that names no parameter is the value itself (`model="gpt-4o"`).
    """

    guesses: tuple[str, ...] = ()
    fallback: tuple[type, ...] = ()
    is_label: bool = False


@dataclass(frozen=True, slots=True)
class _Positional:
    """Takes the argument at a place, or by its name."""

    place: int
    name: str
    default: Any

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[self.place] if self.place < len(args) else kwargs.get(self.name, self.default)


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

    def find(self, name: str) -> _Find:
        """How the argument called `name` is taken."""
        if name not in self.known:
            return lambda args, kwargs: kwargs.get(name)
        index, parameter = self.known[name]
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        if parameter.kind not in _POSITIONAL:
            return lambda args, kwargs: kwargs.get(name, default)
        return _Positional(index, name, default)


def _bind(function: Callable[..., Any], slots: Mapping[str, Slot], given: Mapping[str, Any]) -> dict[str, _Find]:
    """How each input is found among the arguments of `function`.

    Raises: ConfigurationError when the map names a parameter that `function` does not have.
    """
    parameters = _Parameters(function)
    finders: dict[str, _Find | None] = {
        name: _mapped(name, given[name], slot, parameters, function) if name in given else _guessed(slot, parameters)
        for name, slot in slots.items()
    }
    return {name: find for name, find in finders.items() if find is not None}


def _mapped(name: str, where: Any, slot: Slot, parameters: _Parameters, function: Callable[..., Any]) -> _Find:
    if callable(where):
        return lambda args, kwargs: where(*args, **kwargs)
    if not isinstance(where, str):
        return lambda args, kwargs: where
    head, _, rest = where.partition(".")
    if head in parameters.known or (parameters.takes_any and not slot.is_label):
        find, path = parameters.find(head), rest.split(".") if rest else []
        return (lambda args, kwargs: _follow(find(args, kwargs), path)) if path else find
    if slot.is_label:
        return lambda args, kwargs: where
    called = getattr(function, "__qualname__", repr(function))
    raise ConfigurationError(
        f"{name}={where!r}: {called} has no parameter {head!r}; give one of {', '.join(parameters.known) or 'none'}, "
        "a dotted path that begins with one, or a function of the arguments"
    )


def _guessed(slot: Slot, parameters: _Parameters) -> _Find | None:
    for guess in slot.guesses:
        if guess in parameters.known:
            return parameters.find(guess)
    if not slot.fallback:
        return None
    skip, wanted = parameters.skip, slot.fallback

    def find(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return next((value for value in (*args[skip:], *kwargs.values()) if isinstance(value, wanted)), None)

    return find


def _follow(value: Any, path: Sequence[str]) -> Any:
    """The part of `value` at a dotted path of keys, attributes and positions. Raises: LookupError, AttributeError."""
    for step in path:
        if isinstance(value, Mapping):
            value = value[step]
        elif step.lstrip("-").isdigit() and isinstance(value, Sequence):
            value = value[int(step)]
        else:
            value = getattr(value, step)
    return value


def _taker_of(finders: Mapping[str, _Find]) -> _Find:
    """What takes all inputs of a call, decided once: of most functions one argument is read, where it mostly stands."""
    places = [find.place if isinstance(find, _Positional) else _NOWHERE for find in finders.values()]
    items = tuple(zip(finders, places, finders.values(), strict=True))
    if len(items) == 1:
        [(only, place, find_it)] = items
        return lambda args, kwargs: {only: args[place] if place < len(args) else find_it(args, kwargs)}

    def take(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        count = len(args)
        return {name: args[at] if at < count else find(args, kwargs) for name, at, find in items}

    return take


def _evaluate(
    finders: Mapping[str, _Find], args: tuple[Any, ...], kwargs: dict[str, Any], guard: Guard, operation: str
) -> dict[str, Any]:
    """The inputs of one call. One that cannot be found is counted and left out; the others are kept."""
    inputs = {}
    for name, find in finders.items():
        with guarded(f"arguments.{operation}", guard):
            inputs[name] = find(args, kwargs)
    return inputs
