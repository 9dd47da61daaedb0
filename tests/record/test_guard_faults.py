"""What raises while we read a host's objects: swallowed whatever it derives from, but the host's own way to stop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan

import ragtrace
from ragtrace.config import load
from ragtrace.record import Recorder, install
from ragtrace.record.guard import fault_now
from tests.record.conftest import Recorded


class Panic(BaseException):
    """As a Rust extension's: no Exception."""


def _raise(error: type[BaseException]) -> Callable[[], object]:
    """What raises this."""

    def run() -> object:
        raise error("x")

    return run


def hits(happens: Callable[[], object]) -> list[Any]:
    """An item whose text does this when it is looked at."""

    class Hit:
        id = "a"

        @property
        def text(self) -> str:
            """Do it."""
            happens()
            return "text"

    return [Hit()]


def test_a_panic_of_the_hosts_object_does_not_reach_the_host(configure: Any) -> None:
    """Its call returns what it returned; the fault is counted."""
    recorded = configure(raise_errors=False)
    found = hits(_raise(Panic))
    with ragtrace.request(query="q"):
        assert ragtrace.retrieve(lambda query: found)("q") is found
        assert ragtrace.rerank(lambda hits: "ab")(found) == "ab"
    assert ("coerce.retrieve", "Hit") in recorded.faults
    assert recorded.record.status == "ok"


def test_nor_does_one_of_arguments_parts_and_streams(configure: Any) -> None:
    """Wherever a property of the host's is read."""
    recorded = configure(raise_errors=False)
    found = hits(_raise(Panic))
    assert ragtrace.request(query="hit.text")(lambda hit: "answer")(found[0]) == "answer"
    assert ragtrace.retrieve(returns="text")(lambda query: found[0])("q") is found[0]

    @ragtrace.retrieve
    def stream(query: str) -> Any:
        yield from found

    assert list(stream("q")) == found
    assert set(recorded.faults) == {
        ("arguments.request", "Panic"),
        ("returns.retrieve", "Panic"),
        ("coerce.retrieve", "Hit"),
    }
    assert len(recorded.records) == 3


EXITS: dict[str, Callable[[], object]] = {
    "SystemExit": sys.exit,
    "KeyboardInterrupt": _raise(KeyboardInterrupt),
    "GeneratorExit": _raise(GeneratorExit),
    "Panic": _raise(Panic),
}


@pytest.mark.parametrize("name", EXITS)
def test_an_object_that_exits_costs_the_host_nothing(configure: Any, name: str) -> None:
    """Whatever an attribute raises while we look at it, or calls: each stage returns what it returned, and the other
    items are recorded."""
    recorded = configure(raise_errors=False)
    found = [{"id": "b", "text": "said"}, *hits(EXITS[name])]
    with ragtrace.request(query="q"):
        assert ragtrace.retrieve(lambda query: found)("q") is found
        assert ragtrace.rerank(lambda hits: hits)(found) is found
        assert ragtrace.pack(lambda hits: found)(found) is found
        assert ragtrace.generate(lambda prompt: {"answer": "a", "citations": found})("p")["answer"] == "a"
    assert [chunk.chunk_id for chunk in recorded.record.candidates] == ["b"]
    assert recorded.record.status == "ok"
    assert ragtrace.request(query="hit.text")(lambda hit: "answer")(found[1]) == "answer"
    assert ragtrace.retrieve(returns="1.text")(lambda query: found)("q") is found
    assert {kind for _, kind in recorded.faults} == {name, "Hit"}


def test_nor_does_an_exception_whose_message_exits(configure: Any) -> None:
    """The host gets its own exception, which has no message for us."""
    recorded = configure(raise_errors=False)

    class Silent(Exception):
        def __str__(self) -> str:
            sys.exit()

    @ragtrace.request
    def ask(question: str) -> None:
        raise Silent

    with pytest.raises(Silent):
        ask("q")
    assert recorded.record.status == "error"


def _leave(number: int, frame: object) -> None:
    """As a server's handler of SIGTERM."""
    sys.exit(0)


def _time_out(number: int, frame: object) -> None:
    """As a limit on the time of a call."""
    raise TimeoutError


class _Handler:
    """A handler that is an object."""

    def __call__(self, number: int, frame: object) -> None:
        """Leave."""
        sys.exit(0)


SIGNALS: list[tuple[Any, type[BaseException]]] = [
    (signal.default_int_handler, KeyboardInterrupt),
    (_leave, SystemExit),
    (functools.partial(_leave), SystemExit),
    (_Handler(), SystemExit),
    (_time_out, TimeoutError),
]


@pytest.mark.parametrize(("handler", "error"), SIGNALS, ids=range(len(SIGNALS)))
def test_a_signal_reaches_the_host(configure: Any, handler: Any, error: type[BaseException]) -> None:
    """Ctrl-C, an exit or a timeout that a signal's handler raises while we read is not ours to swallow; the stage has
    ended."""
    recorded = configure(raise_errors=False)
    found = hits(lambda: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(error), ragtrace.request(query="q"):
            ragtrace.retrieve(lambda query: found)("q")
        assert len(recorded.record.stages) == 1
        with pytest.raises(error):
            ragtrace.request(query="hit.text")(lambda hit: "answer")(found[0])
        with pytest.raises(error):
            ragtrace.retrieve(returns="0.text")(lambda query: found)("q")
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_cancellation_reaches_the_host(configure: Any) -> None:
    """A loop may cancel where an attribute waits, as those that load lazily do."""
    configure(raise_errors=False)
    with pytest.raises(asyncio.CancelledError):
        ragtrace.retrieve(lambda query: hits(_raise(asyncio.CancelledError)))("q")


def test_a_faults_message_is_bounded() -> None:
    """It may quote a value of any length."""
    fault = fault_now("svc", "w", "k", "x" * 10_000, 3)
    assert (fault.service, fault.where, fault.kind, fault.count, len(fault.message)) == ("svc", "w", "k", 3, 1000)
    assert fault.at


@pytest.mark.parametrize("returns", ["hits", "hits.5", lambda value: value["hits"]])
def test_a_result_that_is_not_where_it_should_be_is_unread(configure: Any, returns: Any) -> None:
    """It is not known what was found, which is not the same as nothing."""
    recorded = configure(raise_errors=False)
    assert ragtrace.retrieve(returns=returns)(lambda query: {"matches": ["a"]})("q") == {"matches": ["a"]}
    (run,) = recorded.record.stages
    assert run.unread
    assert [where for where, _ in recorded.faults] == ["returns.retrieve"]


@ragtrace.retrieve
def _unreachable(query: str) -> list[str]:
    raise ConnectionError("no index")


def _wrapped(question: str) -> None:
    try:
        _unreachable(question)
    except ConnectionError as error:
        raise RuntimeError("no answer") from error


def _replaced(question: str) -> None:
    try:
        _unreachable(question)
    except ConnectionError:
        raise RuntimeError("no answer")  # noqa: B904 - as hosts write it


async def _gathered(question: str) -> None:
    @ragtrace.rerank
    async def wait(hits: list[str]) -> list[str]:
        await asyncio.Event().wait()
        return hits

    async def search() -> None:
        await asyncio.sleep(0)
        _unreachable(question)

    async with asyncio.TaskGroup() as group:
        group.create_task(wait(["a"]))
        group.create_task(search())


@pytest.mark.parametrize("ask", [_wrapped, _replaced, _gathered])
def test_an_exception_raised_for_a_stages_names_the_stage(recorded: Any, ask: Any) -> None:
    """Another exception around it, or a group of them, of which one cancelled the others."""
    decorated = ragtrace.request(ask)
    with pytest.raises((RuntimeError, ExceptionGroup)):
        asyncio.run(decorated("q")) if ask is _gathered else decorated("q")
    assert recorded.record.error.stage == "retrieve"


def test_an_exception_after_a_handled_one_names_no_stage(recorded: Any) -> None:
    """Python gives it the same address; that a retriever failed before is another matter."""

    @ragtrace.retrieve
    def empty(query: str) -> list[str]:
        raise KeyError(query)

    @ragtrace.request
    def ask(question: str) -> None:
        with contextlib.suppress(KeyError):
            empty(question)
        raise ValueError("the fallback's answer is empty")

    for _ in range(20):
        with pytest.raises(ValueError, match="fallback"):
            ask("q")
    assert {record.error.stage for record in recorded.records} == {None}


class Unspeakable(Exception):
    """It has no message for anybody."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def test_an_exception_without_a_readable_message_flags_its_request(configure: Any) -> None:
    """Also where it would stand on a span."""
    recorded = configure(raise_errors=False)

    @ragtrace.request
    def ask(question: str) -> None:
        raise Unspeakable

    with pytest.raises(Unspeakable):
        ask("q")
    assert (recorded.record.status, recorded.record.flags) == ("error", ("error",))
    assert recorded.record.error.type.endswith("Unspeakable")


class Broken:
    """A tracer, and a span, of which one method raises."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get_tracer(self, *args: Any) -> Any:
        """As a provider."""
        return self._answer("get_tracer", self)

    def start_span(self, *args: Any, **kwargs: Any) -> Any:
        """As a tracer."""
        return self._answer("start_span", BrokenSpan(self._name))

    def _answer(self, name: str, value: Any) -> Any:
        if name == self._name:
            raise RuntimeError(name)
        return value


class BrokenSpan(NonRecordingSpan):
    """A span that cannot end, as a span processor that raises makes it."""

    def __init__(self, name: str) -> None:
        super().__init__(INVALID_SPAN_CONTEXT)
        self._name = name

    def end(self, end_time: int | None = None) -> None:
        """Raise."""
        if self._name == "end":
            raise RuntimeError(self._name)


@pytest.mark.parametrize("name", ["get_tracer", "start_span", "end"])
def test_a_tracer_that_fails_costs_the_spans_only(name: str) -> None:
    """A sampler, a span processor or a provider of the host's that raises: the record is whole."""
    sink = Recorded()
    install(Recorder(load(raise_errors=False), sink, Broken(name)))  # type: ignore[arg-type]
    try:
        ask: Any = ragtrace.request(request_id="r")(lambda question: ragtrace.retrieve(lambda query: ["a"])(question))
        assert ask("q") == ["a"]
    finally:
        install(None)
    assert [chunk.chunk_id for chunk in sink.record.candidates] == ["a"]
    assert sink.record.request_id == "r"
