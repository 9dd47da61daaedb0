"""What raises while we read a host's objects: swallowed whatever it derives from, but the host's own way to stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ragtrace
from ragtrace.record.faults import fault_now


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
