"""OTLP over gRPC, by the real exporter and by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrace.errors import StoreUnavailable
from ragtrace.receive.server.access import Tokens
from ragtrace.receive.server.intake import Intake
from ragtrace.receive.server.rpc import start
from ragtrace.store import Store
from tests.receive.test_otlp import message

grpc = pytest.importorskip("grpc")

ALPHA = "alpha-token-0123456789"
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class Receiver:
    """A gRPC server in a thread of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.store = Store.open(f"sqlite:///{tmp_path}/received.db")
        self.intake = Intake(self.store, grace=1, ttl=10, most=1 << 20)
        path = tmp_path / "tokens"
        path.write_text(f"alpha {ALPHA}\n", encoding="utf-8")
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        options: dict[str, Any] = {"largest": 100_000, "certificate": None, "key": None}
        starting = start(self.intake, Tokens(path), "127.0.0.1:0", **options)
        self.server, port = asyncio.run_coroutine_threadsafe(starting, self.loop).result(10)
        self.address = f"127.0.0.1:{port}"

    def export(self, body: bytes, token: str | None = f"Bearer {ALPHA}", **given: Any) -> bytes:
        """The answer to a request of these bytes."""
        metadata = () if token is None else (("authorization", token),)
        with grpc.insecure_channel(self.address) as channel:
            answer = channel.unary_unary(METHOD)(body, metadata=metadata, timeout=10, **given)
        return bytes(answer)

    def close(self) -> None:
        """Stop, and wait for it."""
        asyncio.run_coroutine_threadsafe(self.server.stop(None), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        self.intake.close()
        self.store.close()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """One with a token."""
    running = Receiver(tmp_path)
    yield running
    running.close()


def test_stored(receiver: Receiver) -> None:
    """An empty answer, and the spans are stored by then; compressed or not, again or not."""
    assert receiver.export(message()) == b""
    assert receiver.export(message(), compression=grpc.Compression.Gzip) == b""
    assert receiver.store.counts()["span_part"] == 1


def test_real_exporter(receiver: Receiver) -> None:
    """OpenTelemetry's own exporter succeeds."""
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    headers = (("authorization", f"Bearer {ALPHA}"),)
    exporter = exporters.OTLPSpanExporter(endpoint=receiver.address, insecure=True, headers=headers)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.get_tracer("tests").start_span("search").end()
    provider.shutdown()

    assert receiver.store.counts()["span_part"] == 1


@pytest.mark.parametrize("token", [None, "Bearer wrong-token-0123456789", ALPHA])
def test_no_token(receiver: Receiver, token: str | None) -> None:
    """Without a tenant's token nothing is written."""
    with pytest.raises(grpc.RpcError) as raised:
        receiver.export(message(), token)

    assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert receiver.store.counts()["span_part"] == 0


def test_partial_success(receiver: Receiver) -> None:
    """Spans that cannot be read are counted, with their reasons."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    partial = ExportTraceServiceResponse.FromString(receiver.export(message(span_id=b"x"))).partial_success

    assert (partial.rejected_spans, partial.error_message) == (1, "span 'search': its span id has 1 bytes, and needs 8")


def test_too_large(receiver: Receiver) -> None:
    """What is larger than allowed is refused."""
    with pytest.raises(grpc.RpcError) as raised:
        receiver.export(message(name="x" * 100_001))

    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_store_that_fails(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not committed, not acknowledged: the sender is asked to come back, and is told when."""
    from google.rpc.error_details_pb2 import RetryInfo

    def fails(*_: Any, **__: Any) -> int:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(receiver.store, "add_spans", fails)
    with pytest.raises(grpc.RpcError) as raised:
        receiver.export(message())
    told = dict(raised.value.trailing_metadata())["google.rpc.retryinfo-bin"]

    assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "disk" not in (raised.value.details() or "")
    assert RetryInfo.FromString(told).retry_delay.seconds > 0


def test_any_bytes(receiver: Receiver) -> None:
    """Bytes that are no request get an error, and the server goes on."""
    for body in (b"\xff\xff", b"\x0a\x05", bytes(50)):
        with pytest.raises(grpc.RpcError):
            receiver.export(body)
    assert receiver.export(message()) == b""
