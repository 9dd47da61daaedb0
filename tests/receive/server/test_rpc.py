"""OTLP over gRPC, by the real exporter and by hand."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtrace import config
from ragtrace.errors import StoreUnavailable
from ragtrace.receive import _ingest as ingest, _rpc as rpc
from ragtrace.receive._ingest import Ingestor, Intake
from ragtrace.receive._limits import ReceiverLimits, TenantQuota
from ragtrace.receive._meter import Meter
from ragtrace.receive._rpc import start
from ragtrace.receive._tenants import Tokens
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Store
from tests.receive.test_otlp import message

grpc = pytest.importorskip("grpc")

ALPHA = "alpha-token-0123456789"
BETA = "beta-token-0123456789"
SMALL = ReceiverLimits(body=300_000)
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
RETRY = "google.rpc.retryinfo-bin"


class Receiver:
    """A gRPC server in a thread of its own."""

    def __init__(self, tmp_path: Path, limits: ReceiverLimits = SMALL) -> None:
        self.store = Store.open(f"sqlite:///{tmp_path}/received.db")
        self.intake = Intake(self.store, grace=1, ttl=10, most=1 << 20)
        path = tmp_path / "tokens"
        path.write_text(f"alpha {ALPHA}\nbeta {BETA}\n", encoding="utf-8")
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        options: dict[str, Any] = {"certificate": None, "key": None}
        policy = ContentPolicy(config.load(capture_content="full"))
        self.ingestor = Ingestor(self.intake, Tokens(path), policy, Meter(), limits)
        starting = start(self.ingestor, "127.0.0.1:0", **options)
        self.server, port = asyncio.run_coroutine_threadsafe(starting, self.loop).result(10)
        self.address = f"127.0.0.1:{port}"

    def export(self, body: bytes, token: str | None = f"Bearer {ALPHA}", method: str = METHOD, **given: Any) -> bytes:
        """The answer to a request of these bytes."""
        metadata = () if token is None else (("authorization", token),)
        with grpc.insecure_channel(self.address, options=[("grpc.max_send_message_length", -1)]) as channel:
            answer = channel.unary_unary(method)(body, metadata=metadata, timeout=20, **given)
        return bytes(answer)

    @contextmanager
    def silent(self, token: str = f"Bearer {ALPHA}", timeout: float | None = None) -> Iterator[Any]:
        """A call that has begun and sends no message until the block ends."""
        end = threading.Event()

        def messages() -> Iterator[bytes]:
            end.wait(20)
            yield message()

        with grpc.insecure_channel(self.address) as channel:
            call = channel.stream_unary(METHOD).future(
                messages(), metadata=(("authorization", token),), timeout=timeout
            )
            try:
                yield call
            finally:
                end.set()

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


@pytest.mark.parametrize("tokens", [(ALPHA, ALPHA), (ALPHA, BETA), ("wrong", ALPHA)])
def test_two_tokens(receiver: Receiver, tokens: tuple[str, str]) -> None:
    """A call with two values of authorization is refused, whichever is right."""
    metadata = [("authorization", f"Bearer {token}") for token in tokens]
    with grpc.insecure_channel(receiver.address) as channel, pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary(METHOD)(message(), metadata=metadata, timeout=20)

    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "2 values of Authorization" in (raised.value.details() or "")
    assert receiver.store.counts()["span_part"] == 0


def test_partial_success(receiver: Receiver) -> None:
    """Spans that cannot be read are counted, with their reasons."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    partial = ExportTraceServiceResponse.FromString(receiver.export(message(span_id=b"x"))).partial_success

    assert (partial.rejected_spans, partial.error_message) == (1, "span 'search': its span id has 1 bytes, and needs 8")


def test_too_large(receiver: Receiver) -> None:
    """What is larger than allowed is refused."""
    with pytest.raises(grpc.RpcError) as raised:
        receiver.export(message(name="x" * 300_001))

    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_store_that_fails(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not committed, not acknowledged: the sender is asked to come back, and is told when, as exporters look for it."""
    from google.rpc.error_details_pb2 import RetryInfo
    from google.rpc.status_pb2 import Status

    def fails(*_: Any, **__: Any) -> int:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(receiver.store, "add_spans", fails)
    with pytest.raises(grpc.RpcError) as raised:
        receiver.export(message())
    told = dict(raised.value.trailing_metadata())
    status, info = Status.FromString(told["grpc-status-details-bin"]), RetryInfo()

    assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "disk" not in (raised.value.details() or "")
    assert RetryInfo.FromString(told[RETRY]).retry_delay.seconds > 0
    assert (status.code, status.message) == (grpc.StatusCode.UNAVAILABLE.value[0], raised.value.details())
    assert status.details[0].Unpack(info)
    assert info.retry_delay.seconds > 0


def test_any_bytes(receiver: Receiver) -> None:
    """Bytes that are no request get an error, and the server goes on."""
    for body in (b"\xff\xff", b"\x0a\x05", bytes(50)):
        with pytest.raises(grpc.RpcError):
            receiver.export(body)
    assert receiver.export(message()) == b""


def test_bomb(receiver: Receiver) -> None:
    """200 MB that come as 200 kB are refused; the sender need not try again."""
    with pytest.raises(grpc.RpcError) as raised:
        receiver.export(bytes(200_000_000), compression=grpc.Compression.Gzip)

    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert RETRY not in dict(raised.value.trailing_metadata())
    assert receiver.export(message()) == b""


@pytest.mark.parametrize("share", [TenantQuota(1, 2), TenantQuota(2, 1)])
def test_calls_are_bounded(tmp_path: Path, share: TenantQuota) -> None:
    """Beyond it a sender is asked to come back, with its delay, and its message is not read; of a tenant's own, others
    are not refused."""
    receiver = Receiver(tmp_path, replace(SMALL, requests=share))
    with refused(receiver) as error:
        other = receiver.export(message(), f"Bearer {BETA}") if share.total > share.tenant else b""
    receiver.close()

    assert error.code() == grpc.StatusCode.UNAVAILABLE
    assert RETRY in dict(error.trailing_metadata())
    assert other == b""


def test_a_message_that_would_swell(receiver: Receiver) -> None:
    """One of more records than may be is refused before it is decoded; the sender need not try again."""
    with pytest.raises(grpc.RpcError) as raised:
        receiver.export(b"\x0a\x00" * 100_001, compression=grpc.Compression.Gzip)

    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert RETRY not in dict(raised.value.trailing_metadata())


@contextmanager
def refused(receiver: Receiver, silent: int = 1) -> Iterator[Any]:
    """The error of a call that is refused beside so many that send nothing, while these are under way.

    Calls show when those have arrived. One of those that arrives beside such a call may itself be the one that is
    refused; when none is left, they begin anew.
    """
    for _ in range(10):
        with ExitStack() as stack:
            calls = [stack.enter_context(receiver.silent()) for _ in range(silent)]
            while not all(call.done() for call in calls):
                try:
                    receiver.export(message())
                except grpc.RpcError as error:
                    yield error
                    return
    raise AssertionError("no call is refused")


def test_messages_on_their_way_are_bounded(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """While all places of a tenant wait for their messages it is asked to come back, others are served; then it is."""
    monkeypatch.setattr(rpc, "LATER", 0.2)
    with refused(receiver, silent=SMALL.bodies.total + 1) as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert RETRY in dict(error.trailing_metadata())
        assert receiver.export(message(), f"Bearer {BETA}") == b""
    assert receiver.export(message()) == b""


def test_large_messages_wait_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While large ones are read one by one, small ones of the same tenant are served."""
    receiver = Receiver(tmp_path, replace(SMALL, large=TenantQuota(8, 8), large_size=1_000))
    monkeypatch.setattr(rpc, "LATER", 0.2)
    gate, begun, read = threading.Event(), threading.Semaphore(0), ingest.IngestRequest._read

    def slow(*given: Any) -> Any:
        begun.release()
        gate.wait(20)
        return read(*given)

    monkeypatch.setattr(ingest.IngestRequest, "_read", slow)
    large = [threading.Thread(target=receiver.export, args=(message(name="x" * 2_000),)) for _ in range(6)]
    for each in large:
        each.start()
    assert begun.acquire(timeout=20)
    assert receiver.export(message()) == b""
    gate.set()
    for each in large:
        each.join()
    stored = receiver.store.counts()["span_part"]
    receiver.close()

    assert stored == 2


def test_slow_message(tmp_path: Path) -> None:
    """A call whose message does not come is given up."""
    receiver = Receiver(tmp_path, replace(SMALL, pause=0.1))
    with receiver.silent() as call:
        assert call.exception(20).code() == grpc.StatusCode.DEADLINE_EXCEEDED
    receiver.close()
    assert "did not come within" in call.details()


def connect(receiver: Receiver) -> socket.socket:
    """A connection that has begun HTTP/2 and calls nothing."""
    host, port = receiver.address.split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
    return connection


def is_answered(connection: socket.socket) -> bool:
    """Whether the server begins HTTP/2 as well; else it closes the connection."""
    try:
        return connection.recv(9)[3:4] == b"\x04"
    except ConnectionError:
        return False


def test_a_connection_without_a_call(tmp_path: Path) -> None:
    """It is closed; a sender that calls again later finds another one."""
    receiver = Receiver(tmp_path, replace(SMALL, silence=0.3))
    with connect(receiver) as silent, grpc.insecure_channel(receiver.address) as channel:
        call = channel.unary_unary(METHOD)
        told = {"metadata": (("authorization", f"Bearer {ALPHA}"),), "timeout": 20}
        states: list[Any] = []
        assert call(message(), **told) == b""
        channel.subscribe(states.append)
        while silent.recv(1_000):
            pass
        while grpc.ChannelConnectivity.IDLE not in states:
            time.sleep(0.01)
        assert call(message(), **told) == b""
    receiver.close()


def test_connections_are_bounded(tmp_path: Path) -> None:
    """One too many is closed at once, and its place is free when another one ends."""
    receiver = Receiver(tmp_path, replace(SMALL, connections=2))
    with connect(receiver) as first, connect(receiver) as second:
        assert is_answered(first)
        assert is_answered(second)
        with connect(receiver) as third:
            assert not is_answered(third)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with connect(receiver) as later:
            if is_answered(later):
                break
    else:
        pytest.fail("no place became free")
    receiver.close()


def test_deadline(receiver: Receiver) -> None:
    """A sender that gives up leaves its place to others."""
    for _ in range(2 * SMALL.bodies.total):
        with receiver.silent(timeout=0.02) as call:
            assert call.exception(20).code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert receiver.export(message()) == b""


def test_an_unforeseen_fault(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sender learns that it is ours, the log why."""

    def fails(*_: Any, **__: Any) -> int:
        raise ValueError("a column is too short")

    monkeypatch.setattr(receiver.store, "add_spans", fails)
    with pytest.raises(grpc.RpcError) as raised:
        receiver.export(message())

    assert raised.value.code() == grpc.StatusCode.INTERNAL
    assert "column" not in (raised.value.details() or "")
    assert "a column is too short" in caplog.text


def test_a_sender_that_leaves_during_the_commit(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as busy: its request was good, and the store too slow for it."""
    gate, begun, write = threading.Event(), threading.Event(), receiver.store.add_spans

    def slow(*given: Any, **named: Any) -> int:
        begun.set()
        gate.wait(20)
        return write(*given, **named)

    monkeypatch.setattr(receiver.store, "add_spans", slow)
    meter = receiver.ingestor._meter
    with grpc.insecure_channel(receiver.address) as channel:
        call = channel.unary_unary(METHOD).future(message(), metadata=(("authorization", f"Bearer {ALPHA}"),))
        assert begun.wait(20)
        call.cancel()
        busy = 'ragtrace_receiver_requests_total{answer="busy",protocol="grpc",signal="traces"} 1.0'
        for _ in range(2_000):
            if busy in meter.exposition().decode():
                break
            time.sleep(0.01)
    gate.set()

    assert busy in meter.exposition().decode()
