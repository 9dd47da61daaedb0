"""Traces that are due become requests, late spans newer revisions of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace import config
from ragtrace.receive.assembling import Assembler
from ragtrace.receive.otlp import split
from ragtrace.receive.spans import ReceivedSpan
from ragtrace.store import SpanPart, Store
from tests.receive.spans import TRACE
from tests.receive.test_assembly import request


def part(spans: list[ReceivedSpan], tenant: str = "") -> SpanPart:
    """A part of the one trace, as it arrives."""
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "assistant"
    scope = resource.scope_spans.add()
    for each in spans:
        span = scope.spans.add()
        span.trace_id, span.span_id = bytes.fromhex(each.trace_id), bytes.fromhex(each.span_id)
        span.parent_span_id = bytes.fromhex(each.parent_id or "")
        span.name, span.start_time_unix_nano, span.end_time_unix_nano = each.name, each.started_at, each.ended_at
        for name, value in each.attributes.items():
            span.attributes.add(key=name).value.string_value = value
    (one,) = split(message).parts
    return SpanPart(tenant, one.trace_id, one.body, one.ended)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store.open(f"sqlite:///{tmp_path}/spans.db") as opened:
        yield opened


@pytest.fixture
def assembler(store: Store) -> Assembler:
    """It keeps all content."""
    return Assembler(store, config.load(capture_content="full"))


def test_record(store: Store, assembler: Assembler) -> None:
    """Parts of one trace, in any order, become one request with its job."""
    spans = request()
    store.add_spans([part(spans[2:]), part(spans[:2])], now=100)

    assert assembler.step(now=200) == 1
    record = store.get_record(TRACE)
    assert record is not None
    assert record.service == "assistant"
    assert [each.text is not None and each.content_hash is not None for each in record.candidates] == [True, True]
    assert [row.request_id for row in store.jobs()] == [TRACE]
    assert assembler.step(now=200) == 0


def test_late_span(store: Store, assembler: Assembler) -> None:
    """It makes a newer revision, and the request is analyzed again."""
    spans = request()
    store.add_spans([part(spans[:2])], now=100)
    assembler.step(now=200)
    early = store.get_record(TRACE)
    store.add_spans([part(spans[2:])], now=300)
    assembler.step(now=400)
    late = store.get_record(TRACE)

    assert early is not None
    assert late is not None
    assert early.record_revision < late.record_revision
    assert late.packing is not None
    assert len(store.jobs()) == 2


def test_again(store: Store, assembler: Assembler) -> None:
    """Spans that come twice change nothing."""
    for now in (100, 300):
        store.add_spans([part(request())], now=now)
        assembler.step(now=now + 100)

    assert len(store.jobs()) == 1


def test_tenants(store: Store, assembler: Assembler) -> None:
    """A tenant's requests have ids of their own, whatever ids its spans name."""
    store.add_spans([part(request(), "a"), part(request(), "b")], now=100)
    assembler.step(now=200)

    assert sorted(row.request_id for row in store.find_requests()) == [f"a:{TRACE}", f"b:{TRACE}"]
    record = store.get_record(f"a:{TRACE}")
    assert record is not None
    assert record.tenant_id == "a"


def test_nothing_of_rag(store: Store, assembler: Assembler) -> None:
    """A trace without a stage is settled without a request."""
    span = ReceivedSpan(trace_id=TRACE, span_id="00000000000000aa", name="GET /", started_at=1, ended_at=2)
    store.add_spans([part([span])], now=100)

    assert assembler.step(now=200) == 1
    assert store.find_requests() == []
    assert store.traces_waiting()[0] == 0


def test_a_broken_trace_stops_no_other(store: Store, assembler: Assembler) -> None:
    """It is tried again some times, and then left with its reason."""
    broken = SpanPart("", "f" * 32, b"\xff\xff\xff", True)
    store.add_spans([broken, part(request())], now=100)
    for now in range(200, 2_000, 100):
        assembler.step(now=now)

    assert [row.request_id for row in store.find_requests()] == [TRACE]
    assert store.traces_waiting()[0] == 0
