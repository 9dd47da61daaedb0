"""The routes over a real socket: what is answered, and what is stored by then."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragtrace.errors import StoreUnavailable
from ragtrace.receive.server import app
from ragtrace.receive.server.access import Everybody, Tokens
from ragtrace.receive.server.app import make_app
from ragtrace.receive.server.intake import Intake
from ragtrace.store import SpanPart, Store
from tests.receive.test_otlp import SPAN, batch, message

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

ALPHA, BETA = "alpha-token-0123456789", "beta-token-0123456789"
PROTOBUF, JSON = "application/x-protobuf", "application/json"


class Receiver:
    """A receiver on a free port."""

    def __init__(self, tmp_path: Path, *, tokens: bool = False, room: int = 1 << 20) -> None:
        self.store = Store.open(f"sqlite:///{tmp_path}/received.db")
        self.intake = Intake(self.store, grace=1, ttl=10, most=room)
        path = tmp_path / "tokens"
        path.write_text(f"alpha {ALPHA}\nbeta {BETA}\n", encoding="utf-8")
        access = Tokens(path) if tokens else Everybody()
        application = make_app(self.store, self.intake, access, largest=100_000, largest_inflated=200_000)
        self.server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="warning"))
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"

    def send(self, body: bytes | None, path: str = "/v1/traces", **headers: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, body, named)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read(), dict(error.headers)

    @property
    def stored(self) -> int:
        """How many parts are stored."""
        return self.store.counts()["span_part"]

    def close(self) -> None:
        """Stop, and wait for it."""
        self.server.should_exit = True
        self.thread.join()
        self.intake.close()
        self.store.close()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """One that everybody may send to."""
    running = Receiver(tmp_path)
    yield running
    running.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Receiver]:
    """One with tokens."""
    running = Receiver(tmp_path, tokens=True)
    yield running
    running.close()


def test_json(receiver: Receiver) -> None:
    """200 with an empty answer, and the spans are stored by then."""
    assert receiver.send(batch(SPAN), content_type=JSON)[:2] == (200, b"{}")
    assert receiver.stored == 1


def test_protobuf(receiver: Receiver) -> None:
    """The same in protobuf, compressed; again changes nothing."""
    for _ in range(2):
        status, body, headers = receiver.send(gzip.compress(message()), content_type=PROTOBUF, content_encoding="gzip")
        assert (status, body, headers["content-type"]) == (200, b"", PROTOBUF)
    assert receiver.stored == 1


def test_real_exporter(guarded: Receiver) -> None:
    """OpenTelemetry's own exporter succeeds, compressed and with its token."""
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    endpoint, headers = f"{guarded.url}/v1/traces", {"authorization": f"Bearer {ALPHA}"}
    exporter = exporters.OTLPSpanExporter(endpoint, headers=headers, compression=exporters.Compression.Gzip)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.get_tracer("tests").start_span("search").end()
    provider.shutdown()

    assert guarded.stored == 1


def test_partial_success(receiver: Receiver) -> None:
    """Spans that cannot be read are counted, with their reasons; the others are stored."""
    status, body, _ = receiver.send(batch(SPAN, SPAN | {"spanId": "0" * 16}), content_type=JSON)
    partial = json.loads(body)["partialSuccess"]

    assert status == 200
    assert partial == {"rejectedSpans": "1", "errorMessage": "span 'search': its span id is all zeros"}
    assert receiver.stored == 1


def test_partial_success_protobuf(receiver: Receiver) -> None:
    """The same in protobuf."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    _, body, _ = receiver.send(message(span_id=b""), content_type=PROTOBUF)
    partial = ExportTraceServiceResponse.FromString(body).partial_success

    assert (partial.rejected_spans, partial.error_message) == (1, "span 'search': its span id has 0 bytes, and needs 8")
    assert receiver.stored == 0


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {"content_type": JSON}, 400),
        (b"\xff\xff", {"content_type": PROTOBUF}, 400),
        (b"{}", {"content_type": "text/plain"}, 415),
        (b"{}", {"content_type": JSON, "content_encoding": "br"}, 415),
        (b" " * 100_001, {"content_type": JSON}, 413),
        (gzip.compress(b" " * 200_001), {"content_type": JSON, "content_encoding": "gzip"}, 413),
    ],
)
def test_refused(receiver: Receiver, body: bytes, headers: dict[str, str], status: int) -> None:
    """What can never be accepted gets its status and one reason, and leaves nothing behind."""
    found, answer, _ = receiver.send(body, **headers)

    assert found == status
    assert json.loads(answer)["message"]
    assert receiver.stored == 0


def test_other_routes(receiver: Receiver) -> None:
    """There are no others."""
    assert receiver.send(b"{}", "/v1/metrics", content_type=JSON)[0] == 404
    assert receiver.send(None)[0] == 405


@pytest.mark.parametrize("path", ["/v1/traces"])
@pytest.mark.parametrize("token", [None, "", "Bearer wrong-token-0123456789", f"Basic {ALPHA}"])
def test_no_token(guarded: Receiver, path: str, token: str | None) -> None:
    """Without a tenant's token nothing is read or written."""
    headers = {} if token is None else {"authorization": token}
    status, _, answered = guarded.send(batch(SPAN), path, content_type=JSON, **headers)

    assert status == 401
    assert answered["www-authenticate"] == "Bearer"
    assert guarded.stored == 0


def test_tenants(guarded: Receiver) -> None:
    """The same trace of two tenants is stored for each."""
    for token in (ALPHA, BETA, ALPHA):
        assert guarded.send(batch(SPAN), content_type=JSON, authorization=f"Bearer {token}")[0] == 200
    due = guarded.store.claim_traces(now=time.time() + 100)

    assert sorted(each.tenant for each in due) == ["alpha", "beta"]


def test_health(guarded: Receiver) -> None:
    """A load balancer needs no token, and learns nothing of anybody's requests."""
    assert guarded.send(None, "/healthz")[:2] == (200, b"ok\n")
    assert json.loads(guarded.send(None, "/readyz")[1]) == {"ready": True, "traces_waiting": 0, "load": 0.0}


def test_store_that_fails(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans that were not committed are not acknowledged: the sender is asked to come back."""

    def fails(*_: Any, **__: Any) -> int:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(receiver.store, "add_spans", fails)
    monkeypatch.setattr(receiver.store, "traces_waiting", fails)
    status, body, headers = receiver.send(batch(SPAN), content_type=JSON)

    assert status == 503
    assert int(headers["retry-after"]) > 0
    assert "disk" not in body.decode()
    assert receiver.send(None, "/readyz")[0] == 503
    monkeypatch.undo()
    assert receiver.send(batch(SPAN), content_type=JSON)[0] == 200


def test_back_pressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would wait beyond the room is refused for now; all that was acknowledged is stored."""
    receiver = Receiver(tmp_path, room=1)
    gate = threading.Event()
    write = receiver.store.add_spans
    monkeypatch.setattr(receiver.store, "add_spans", lambda *a, **k: (gate.wait(10), write(*a, **k))[1])
    statuses: list[int] = []

    def send(number: int) -> None:
        found = receiver.send(batch(SPAN | {"traceId": f"{number:032x}"}), content_type=JSON)
        statuses.append(found[0])

    senders = [threading.Thread(target=send, args=(number,)) for number in range(1, 7)]
    for sender in senders:
        sender.start()
    deadline = time.monotonic() + 10
    while len(statuses) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    gate.set()
    for sender in senders:
        sender.join()
    stored = receiver.stored
    receiver.close()

    assert set(statuses) == {200, 503}
    assert stored == statuses.count(200)


def test_an_outage_is_met_once(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that waits is given back at once: tried one by one, each request would wait for the store's own timeout."""
    gate, calls = threading.Event(), list[int]()

    def fails(parts: Sequence[SpanPart], **_: Any) -> int:
        gate.wait(10)
        calls.append(len(parts))
        raise StoreUnavailable("the server is down")

    monkeypatch.setattr(receiver.store, "add_spans", fails)
    parts = [SpanPart("", f"{number:032x}", b"x", True) for number in range(6)]
    futures = [receiver.intake.submit([each]) for each in parts]
    gate.set()

    assert all(isinstance(each.exception(10), StoreUnavailable) for each in futures)
    assert len(calls) <= 2
    assert sum(calls) == 6
    assert receiver.intake.load == 0


def test_one_part_that_cannot_be_written(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails alone; the requests that shared its transaction are committed, and no room is lost."""
    write, gate = receiver.store.add_spans, threading.Event()

    def picky(parts: Sequence[SpanPart], **given: Any) -> int:
        gate.wait(10)
        if any(each.body == b"bad" for each in parts):
            raise ValueError("no such part")
        return write(parts, **given)

    monkeypatch.setattr(receiver.store, "add_spans", picky)
    bodies = [b"good", b"fine", b"bad", b"better"]
    futures = [receiver.intake.submit([SpanPart("", "1" * 32, each, True)]) for each in bodies]
    futures[1].cancel()
    gate.set()

    assert [futures[place].exception(10) is None for place in (0, 2, 3)] == [True, False, True]
    assert receiver.stored == 3
    assert receiver.intake.load == 0


def test_slow_body(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that does not come to its end is given up, and what was held for it is free again."""
    monkeypatch.setattr(app, "_SLOWEST", 0.1)
    host, port = receiver.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sender:
        head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 1000\r\n\r\n"
        sender.sendall(head.encode() + b"x")
        assert sender.recv(100).startswith(b"HTTP/1.1 408")


def test_bodies_on_their_way_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many connections send at once: beyond it a sender is asked to come back."""
    monkeypatch.setattr(app, "_BODIES", 0)
    receiver = Receiver(tmp_path)
    status, _, headers = receiver.send(batch(SPAN), content_type=JSON)
    receiver.close()

    assert status == 503
    assert int(headers["retry-after"]) > 0
