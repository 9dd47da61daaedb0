"""Evaluations over HTTP and gRPC become judgments of requests, before they are acknowledged."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from ragtrace import config
from ragtrace.receive._assembly import Assembler
from tests.receive.server.test_routes import ALPHA, BETA, JSON, PROTOBUF, Receiver
from tests.receive.server.test_rpc import Receiver as RpcReceiver
from tests.receive.spans import TRACE
from tests.receive.test_logs import EVALUATION, attribute, logs
from tests.receive.test_otlp import SPAN, batch

OF_TRACE = EVALUATION | {"traceId": TRACE}
RETRIEVAL = SPAN | {
    "traceId": TRACE,
    "parentSpanId": "",
    "attributes": [
        attribute("gen_ai.operation.name", "retrieval"),
        attribute("gen_ai.retrieval.documents", '[{"id": "a", "content": "The tariff is 4 percent."}]'),
    ],
    "events": [{"name": EVALUATION["eventName"], "timeUnixNano": 7, "attributes": EVALUATION["attributes"]}],
}


@pytest.fixture
def guarded(tmp_path: Path) -> Any:
    """A receiver with tokens."""
    running = Receiver(tmp_path, tokens=True)
    yield running
    running.close()


def assemble(receiver: Receiver) -> None:
    """Make requests of what has come."""
    Assembler(receiver.store, config.load(capture_content="full")).step(now=time.time() + 100)


@pytest.mark.parametrize("first", ["spans", "logs"])
def test_once(guarded: Receiver, first: str) -> None:
    """One judgment, on a span and in logs, sent twice, compressed or not, before or after its request."""
    bearer = {"authorization": f"Bearer {ALPHA}", "content_type": JSON}
    sent = {
        "spans": lambda: guarded.send(batch(RETRIEVAL), **bearer),
        "logs": lambda: guarded.send(gzip.compress(logs(OF_TRACE)), "/v1/logs", **bearer, content_encoding="gzip"),
    }
    for signal in (first, *(sent.keys() - {first})):
        for _ in range(2):
            assert sent[signal]()[:2] == (200, b"{}")
        assemble(guarded)
    record = guarded.store.get_record(f"alpha:{TRACE}")

    assert record is not None
    assert [(each.source, each.score, each.label) for each in record.feedback] == [("relevance", 0.25, "fail")]
    assert guarded.store.counts()["feedback"] == 1


def test_another_tenants(guarded: Receiver) -> None:
    """A judgment with another tenant's token does not reach the request, though it knows the trace."""
    guarded.send(batch(RETRIEVAL | {"events": []}), authorization=f"Bearer {ALPHA}", content_type=JSON)
    assemble(guarded)
    assert guarded.send(logs(OF_TRACE), "/v1/logs", authorization=f"Bearer {BETA}", content_type=JSON)[0] == 200
    record = guarded.store.get_record(f"alpha:{TRACE}")

    assert record is not None
    assert record.feedback == ()


def test_rejected(guarded: Receiver) -> None:
    """A log record without a trace is counted, with the reason; other logs are accepted."""
    body = logs(OF_TRACE | {"traceId": ""}, {"body": {"stringValue": "hello"}})
    status, answer, _ = guarded.send(body, "/v1/logs", authorization=f"Bearer {ALPHA}", content_type=JSON)
    partial = json.loads(answer)["partialSuccess"]

    assert status == 200
    assert partial["rejectedLogRecords"] == "1"
    assert "it has no trace id" in partial["errorMessage"]
    assert guarded.store.counts()["feedback"] == 0


def test_real_exporters(guarded: Receiver, tmp_path: Path) -> None:
    """OpenTelemetry's own loggers succeed, over HTTP and over gRPC."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc._log_exporter")
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    (tmp_path / "rpc").mkdir()
    rpc = RpcReceiver(tmp_path / "rpc")
    bearer = f"Bearer {ALPHA}"
    log(OTLPLogExporter(f"{guarded.url}/v1/logs", headers={"authorization": bearer}))
    log(GrpcExporter(endpoint=rpc.address, insecure=True, headers=(("authorization", bearer),)))
    stored = rpc.store.counts()["feedback"]
    rpc.close()

    assert (guarded.store.counts()["feedback"], stored) == (1, 1)


def log(exporter: Any) -> None:
    """Emit an evaluation through the SDK, in the context of a span."""
    from opentelemetry._logs import LogRecord
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    span = NonRecordingSpan(SpanContext(int(TRACE, 16), 1, False, TraceFlags(1)))
    said: dict[str, str | float] = {"gen_ai.evaluation.name": "relevance", "gen_ai.evaluation.score.value": 0.5}
    event = LogRecord(event_name="gen_ai.evaluation.result", context=set_span_in_context(span), attributes=said)
    provider.get_logger("judge").emit(event)
    provider.shutdown()


def test_protobuf_answer(guarded: Receiver) -> None:
    """An empty message."""
    from ragtrace.receive._logs import parse_logs_json

    body = parse_logs_json(logs(OF_TRACE))[0].SerializeToString()
    bearer = {"authorization": f"Bearer {ALPHA}", "content_type": PROTOBUF}
    assert guarded.send(body, "/v1/logs", **bearer)[:2] == (200, b"")
