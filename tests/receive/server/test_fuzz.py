"""Whatever is sent is taken or refused with a reason, what is stored is what was accepted, and requests come of it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ragtrace import config
from ragtrace.errors import RecordError
from ragtrace.receive._assembly import Assembler
from ragtrace.receive._logs import parse_logs_json
from ragtrace.receive._otlp import parse_json, parse_protobuf, read_protobuf
from ragtrace.store import DueTrace
from tests.receive.server.batches import anything, requests
from tests.receive.server.test_routes import JSON, PROTOBUF, Receiver, Status
from tests.store.parts import bodies

LARGE = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
PATHS = {"traces": "/v1/traces", "logs": "/v1/logs"}


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """One for all examples: what one leaves behind, the next one meets."""
    running = Receiver(tmp_path_factory.mktemp("fuzz"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def said() -> Iterator[list[str]]:
    """What is logged as a warning or worse; that spans come after others were forgotten is the examples' own doing."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.addFilter(lambda record: "when the others had been forgotten" not in record.msg)
    handler.emit = lambda record: found.append(f"{record.getMessage()} {record.exc_info}")  # type: ignore[method-assign]  # a list
    loggers = [logging.getLogger(name) for name in ("ragtrace", "uvicorn.error", "asyncio")]
    for each in loggers:
        each.addHandler(handler)
    yield found
    for each in loggers:
        each.removeHandler(handler)


def send(receiver: Receiver, body: bytes, signal: str, kind: str) -> dict[str, Any] | None:
    """What was told of those that were rejected; None where all was refused, with a reason."""
    status, answer, _ = receiver.send(body, PATHS[signal], content_type=kind)
    if status == 200:
        return json.loads(answer) if kind == JSON else {}
    assert status in (400, 413), answer
    assert json.loads(answer)["message"] if kind == JSON else Status.FromString(answer).message
    return None


def settle(receiver: Receiver) -> None:
    """Assemble all that has come, of which nothing may fail, and forget it, so that no example waits for all before."""
    assembler = Assembler(receiver.store, config.load(capture_content="full"))
    while assembler.step(now=time.time() + 100):
        pass
    receiver.store.forget_spans(0, now=time.time() + 1_000)


@LARGE
@given(sent=requests("traces"))
def test_spans(receiver: Receiver, said: list[str], sent: dict[str, Any]) -> None:
    """Each span is stored or rejected, in JSON as in protobuf, and its trace is assembled."""
    said.clear()
    count = sum(len(scope["spans"]) for resource in sent["resourceSpans"] for scope in resource["scopeSpans"])
    told = send(receiver, json.dumps(sent).encode(), "traces", JSON)
    if told is None:  # refused as a whole: larger than may be
        return
    rejected = int(told.get("partialSuccess", {}).get("rejectedSpans", 0))
    message, refused = parse_json(json.dumps(sent))
    assert len(read_protobuf(message.SerializeToString()).spans) == count - rejected
    assert rejected >= len(refused)
    before = receiver.stored
    assert send(receiver, message.SerializeToString(), "traces", PROTOBUF) is not None
    accepted = {(each.trace_id, each.span_id) for each in read_protobuf(message.SerializeToString()).spans}
    held = bodies(receiver.store, [DueTrace("", trace_id, 0, 0) for trace_id, _ in accepted])
    stored = [span for parts in held.values() for body in parts for span in read_protobuf(body).spans]
    assert accepted <= {(each.trace_id, each.span_id) for each in stored}
    assert receiver.stored - before <= 3
    settle(receiver)
    assert said == []


@LARGE
@given(sent=requests("logs"))
def test_logs(receiver: Receiver, said: list[str], sent: dict[str, Any]) -> None:
    """Each log record is stored, ignored or rejected, and sent again it changes nothing."""
    said.clear()
    message, _ = parse_logs_json(json.dumps(sent))
    if send(receiver, json.dumps(sent).encode(), "logs", JSON) is None:
        return
    before = receiver.store.counts()["feedback"]
    assert send(receiver, message.SerializeToString(), "logs", PROTOBUF) is not None
    assert receiver.store.counts()["feedback"] == before
    assert said == []


@LARGE
@given(body=anything, signal=st.sampled_from(sorted(PATHS)))
def test_any_json(receiver: Receiver, said: list[str], body: Any, signal: str) -> None:
    """JSON of any shape is taken or refused."""
    said.clear()
    send(receiver, json.dumps(body).encode(), signal, JSON)
    settle(receiver)
    assert said == []


@LARGE
@given(sent=requests("traces"), damage=st.data())
def test_damaged_protobuf(receiver: Receiver, said: list[str], sent: dict[str, Any], damage: st.DataObject) -> None:
    """Cut off, with bytes changed, or with bytes that are no UTF-8: it is refused, or what is left of it is taken."""
    said.clear()
    body = bytearray(parse_json(json.dumps(sent))[0].SerializeToString())
    for _ in range(damage.draw(st.integers(0, 3))):
        if body:
            body[damage.draw(st.integers(0, len(body) - 1))] = damage.draw(st.sampled_from([0xFF, 0x80, 0x00, 0xC3]))
    cut = bytes(body[: damage.draw(st.integers(0, len(body)))])
    taken = send(receiver, cut, "traces", PROTOBUF) is not None
    try:
        parse_protobuf(cut)
    except RecordError:
        assert not taken
    settle(receiver)
    assert said == []
