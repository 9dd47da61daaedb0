"""The routes over a real socket: what is answered, and what is stored by then."""

from __future__ import annotations

import gzip
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragtrace import config
from ragtrace.receive._http import connections, make_app
from ragtrace.receive._ingest import Ingestor, Intake
from ragtrace.receive._limits import ReceiverLimits
from ragtrace.receive._meter import Meter
from ragtrace.receive._tenants import Everybody, Tokens
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Store
from tests.receive.test_otlp import SPAN, batch, message

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
Status = pytest.importorskip("google.rpc.status_pb2").Status

ALPHA, BETA, SCRAPER = "alpha-token-0123456789", "beta-token-0123456789", "scraper-token-0123456789"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
SMALL = ReceiverLimits(body=100_000, inflated=200_000)


class Receiver:
    """A receiver on a free port."""

    def __init__(
        self, tmp_path: Path, *, tokens: bool = False, room: int = 1 << 20, limits: ReceiverLimits | None = None
    ) -> None:
        self.store = Store.open(f"sqlite:///{tmp_path}/received.db")
        meter = Meter()
        self.intake = Intake(self.store, grace=1, ttl=10, most=room, committed=meter.committed)
        path = tmp_path / "tokens"
        path.write_text(f"alpha {ALPHA}\nbeta {BETA}\n", encoding="utf-8")
        access = Tokens(path) if tokens else Everybody()
        scraping = tmp_path / "scraping"
        scraping.write_text(f"prometheus {SCRAPER}\n", encoding="utf-8")
        meter.watch(lambda: self.intake.load)
        limits = SMALL if limits is None else limits
        policy = ContentPolicy(config.load(capture_content="full"))
        self.ingestor = Ingestor(self.intake, access, policy, meter, limits)
        scrapers = Tokens(scraping) if tokens else Everybody()
        self.application = make_app(self.store, self.intake, self.ingestor, meter, scrapers)
        self.server = uvicorn.Server(
            uvicorn.Config(self.application, port=0, log_level="warning", http=connections(limits), ws="none")
        )
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"

    def send(
        self, body: bytes | None, path: str = "/v1/traces", method: str | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, body, named, method=method)
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


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
def test_an_empty_request(receiver: Receiver, path: str) -> None:
    """It is a good one, in JSON as in protobuf."""
    assert receiver.send(b"{}", path, content_type=JSON)[:2] == (200, b"{}")
    assert receiver.send(b"", path, content_type=PROTOBUF)[:2] == (200, b"")


@pytest.mark.parametrize(
    ("path", "resource", "scope", "record", "good"),
    [
        ("/v1/traces", "resourceSpans", "scopeSpans", "spans", SPAN),
        ("/v1/logs", "resourceLogs", "scopeLogs", "logRecords", {"eventName": "other"}),
    ],
)
def test_half_a_character(
    receiver: Receiver, path: str, resource: str, scope: str, record: str, good: dict[str, object]
) -> None:
    """It cannot be told as it is, and stops no neighbor of the record that has it."""
    given = {resource: [{scope: [{record: [good, good | {"attributes": "\ud800"}]}]}]}
    status, body, _ = receiver.send(json.dumps(given).encode(), path, content_type=JSON)

    assert status == 200
    assert "?" in json.loads(body)["partialSuccess"]["errorMessage"]
    assert receiver.stored == (path == "/v1/traces")


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
        (b"", {"content_type": PROTOBUF, "content_encoding": "br"}, 415),
        (b"{}", {"content_type": "text/plain"}, 415),
        (b"{}", {"content_type": JSON, "content_encoding": "br"}, 415),
        (b" " * 100_001, {"content_type": JSON}, 413),
        (gzip.compress(b" " * 200_001, mtime=0), {"content_type": JSON, "content_encoding": "gzip"}, 413),
    ],
)
def test_refused(receiver: Receiver, body: bytes, headers: dict[str, str], status: int) -> None:
    """What can never be accepted gets its status and one reason, and leaves nothing behind."""
    found, answer, answered = receiver.send(body, **headers)

    assert found == status
    if headers["content_type"] == PROTOBUF:
        assert answered["content-type"] == PROTOBUF
        assert Status.FromString(answer).message
    else:
        assert json.loads(answer)["message"]
    assert receiver.stored == 0


def swollen(tag: bytes) -> bytes:
    """An OTLP message of traces that holds 200,000 empty fields at its end."""
    body = tag * 200_000
    for _ in range(2 if tag == b"\x12\x00" else 0):
        number = b"\x12" if body[:2] == tag else b"\x0a"
        size, digits = len(body), b""
        while size > 127:
            digits, size = digits + bytes([size & 127 | 128]), size >> 7
        body = number + digits + bytes([size]) + body
    return body


@pytest.mark.parametrize(
    "body", [swollen(b"\x0a\x00"), swollen(b"\x12\x00"), b'{"resourceSpans":[%s]}' % b",".join([b"{}"] * 200_000)]
)
def test_a_message_that_would_swell(tmp_path: Path, body: bytes) -> None:
    """Few bytes that would become a large message are refused before they are decoded."""
    receiver = Receiver(tmp_path, limits=replace(SMALL, inflated=1 << 20))
    kind = JSON if body[:1] == b"{" else PROTOBUF
    status, answer, _ = receiver.send(gzip.compress(body), content_type=kind, content_encoding="gzip")
    receiver.close()

    assert status == 413
    assert b"more than 100,000 records" in answer


def test_other_routes(receiver: Receiver) -> None:
    """There are no others; a sender is told which there are, as it sent."""
    status, answer, _ = receiver.send(b"", "/v1/metrics", content_type=PROTOBUF)

    assert status == 404
    assert "sent to /v1/traces, /v1/logs by POST" in Status.FromString(answer).message
    assert json.loads(receiver.send(b"{}", "/v1/metrics", content_type=JSON)[1])["message"].startswith(
        "there is no POST /v1/metrics"
    )
    assert receiver.send(b"", "/v1/traces/", content_type=PROTOBUF)[0] == 404  # and is sent nowhere else
    assert receiver.send(None)[0] == 405
    assert receiver.send(None)[2]["allow"] == "POST"


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
