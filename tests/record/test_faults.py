"""What raises while we read a host's objects: swallowed whatever it derives from, but the host's own way to stop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan

import ragtrace
from ragtrace.config import load
from ragtrace.record import Recorder, install
from ragtrace.record.faults import fault_now
from tests.record.conftest import Recorded


class Panic(BaseException):
    """As a Rust extension's: no Exception."""


def hits(error: type[BaseException]) -> list[Any]:
    """An item whose text raises."""

    class Hit:
        id = "a"

        @property
        def text(self) -> str:
            """Raise."""
            raise error("x")

    return [Hit()]


def test_a_panic_of_the_hosts_object_does_not_reach_the_host(configure: Any) -> None:
    """Its call returns what it returned; the fault is counted."""
    recorded = configure(raise_errors=False)
    found = hits(Panic)
    with ragtrace.request(query="q"):
        assert ragtrace.retrieve(lambda query: found)("q") is found
        assert ragtrace.rerank(lambda hits: "ab")(found) == "ab"
    assert ("coerce.retrieve", "Panic") in recorded.faults
    assert recorded.record.status == "ok"


def test_nor_does_one_of_arguments_parts_and_streams(configure: Any) -> None:
    """Wherever a property of the host's is read."""
    recorded = configure(raise_errors=False)
    found = hits(Panic)
    assert ragtrace.request(query="hit.text")(lambda hit: "answer")(found[0]) == "answer"
    assert ragtrace.retrieve(returns="text")(lambda query: found[0])("q") is found[0]

    @ragtrace.retrieve
    def stream(query: str) -> Any:
        yield from found

    assert list(stream("q")) == found
    assert {kind for _, kind in recorded.faults} == {"Panic"}
    assert {where for where, _ in recorded.faults} == {"arguments.request", "returns.retrieve", "coerce.retrieve"}
    assert len(recorded.records) == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_the_hosts_way_to_stop_passes(configure: Any, error: type[BaseException]) -> None:
    """Ctrl-C, an exit or a cancellation that comes while we read is not ours to swallow; the stage has ended."""
    recorded = configure(raise_errors=False)
    found = hits(error)
    with pytest.raises(error), ragtrace.request(query="q"):
        ragtrace.retrieve(lambda query: found)("q")
    assert len(recorded.record.stages) == 1
    with pytest.raises(error):
        ragtrace.request(query="hit.text")(lambda hit: "answer")(found[0])
    with pytest.raises(error):
        ragtrace.retrieve(returns="text")(lambda query: found[0])("q")
    assert len(recorded.records) == 2  # the second one never ran


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
