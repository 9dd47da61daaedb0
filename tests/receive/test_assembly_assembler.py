"""Traces that are due become requests, late spans newer revisions of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Event

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.errors import CorruptStore, StoreError
from ragtrace.plausible_values import EARLIEST
from ragtrace.receive import _assembly as assembly
from ragtrace.receive._assembly import Assembler, record_of
from ragtrace.receive._otlp import split
from ragtrace.receive._spans import ReceivedSpan, SpanEvent
from ragtrace.receive._trace_tree import ReadSpan
from ragtrace.store import Assembled, DueTrace, SpanPart, Store, StoredPart
from ragtrace.types import RequestRecord, replace
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
        for said in each.events:
            event = span.events.add(name=said.name, time_unix_nano=said.at)
            for name, value in said.attributes.items():
                event.attributes.add(key=name).value.string_value = value
    (one,) = split(message).parts
    return SpanPart(tenant, one.trace_id, one.body, one.ended)


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


def test_a_root_that_comes_late(store: Store, assembler: Assembler) -> None:
    """It began before all others, and is the same request nevertheless."""
    root, *others = [replace(each, started_at=EARLIEST + each.started_at, ended_at=0) for each in request()]
    store.add_spans([part(others)], now=100)
    assembler.step(now=200)
    store.add_spans([part([root])], now=300)
    assembler.step(now=400)

    (row,) = store.find_requests()
    assert row.started_at == EARLIEST + 1_000
    record = store.get_record(TRACE)
    assert record is not None
    assert record.started_at == EARLIEST + 1_000
    assert record.query.original == "What is the tariff?"


def test_a_clock_of_another_century(store: Store, assembler: Assembler) -> None:
    """Times of 64 bits without a sign are those of the arrival, and a late span makes no second request of it."""
    ahead = 2**64 - 10_000
    root, *others = [replace(each, started_at=ahead + each.started_at, ended_at=2**64 - 1) for each in request()]
    for number, some in enumerate(([root, *others[:1]], others[1:], [root])):
        store.add_spans([part(some)], now=100 + 200 * number)
        assembler.step(now=200 + 200 * number)

    (row,) = store.find_requests()
    record = store.get_record(TRACE)
    assert record is not None
    assert row.started_at == record.started_at
    assert record.stated["started_at"] == root.started_at
    assert EARLIEST < record.started_at <= record.ended_at <= time.time_ns()
    assert all(record.started_at <= run.started_at <= run.ended_at <= record.ended_at for run in record.stages)
    assert store.prune({"all": 0.0}, now=time.time() + 1).rows["request"] == 1


def test_the_same_judgment_of_two_tenants(store: Store, assembler: Assembler) -> None:
    """Each is its tenant's own, although their spans say the same."""
    root, *others = request()
    event = SpanEvent(
        "gen_ai.evaluation.result", 5, {"gen_ai.evaluation.name": "grade", "gen_ai.evaluation.score.label": "bad"}
    )
    chat = ReceivedSpan(
        trace_id=TRACE,
        span_id="00000000000000bb",
        parent_id=root.span_id,
        name="chat",
        started_at=8,
        ended_at=9,
        attributes={"gen_ai.operation.name": "chat"},
        events=(event,),
    )
    store.add_spans([part([root, *others, chat], tenant) for tenant in "ab"], now=100)
    assembler.step(now=200)
    judged = [record for tenant in "ab" if (record := store.get_record(f"{tenant}:{TRACE}")) is not None]

    assert [len(record.feedback) for record in judged] == [1, 1]
    assert store.counts()["feedback"] == 2


def test_a_failure_that_is_none_of_ours(store: Store, assembler: Assembler, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unforeseen error of one trace leaves the others alone."""

    def failing(told: list[ReadSpan], count: int) -> RequestRecord | None:
        if told[0].span.trace_id != TRACE:
            raise IndexError("list index out of range")
        return record_of(told, count)

    monkeypatch.setattr(assembly, "record_of", failing)
    other = replace(request()[0], trace_id="ab" * 16)
    store.add_spans([part([other]), part(request())], now=100)
    assembler.step(now=200)

    assert [row.request_id for row in store.find_requests()] == [TRACE]


def test_unassembled_spans_are_kept(store: Store, assembler: Assembler) -> None:
    """What could not be assembled is nowhere else, and is not forgotten with the rest."""
    store.add_spans([SpanPart("", "f" * 32, b"\xff\xff\xff", True), part(request())], now=100)
    for now in range(200, 2_000, 100):
        assembler.step(now=now)

    assert store.forget_spans(0, now=9_999) == 1
    assert store.forget_spans(0, now=9_999) == 0


def test_all_that_is_old_is_forgotten(store: Store, assembler: Assembler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page after page, not one page in a while: else spans would come faster than they go."""
    monkeypatch.setattr(assembly, "_PAGE_FORGOTTEN", 1)
    monkeypatch.setattr(assembly, "_FORGET", 0.0)
    monkeypatch.setattr(assembly, "_IDLE", 0.0)
    store.add_spans(
        [part([replace(each, trace_id=f"{place:032x}") for each in request()]) for place in (1, 2, 3)], now=1
    )
    assembler.step(now=100)
    forgotten: list[int] = []
    forget, stop = store.forget_spans, Event()

    def counted(older_than: float, *, limit: int = 500) -> int:
        forgotten.append(forget(older_than, limit=limit))
        if forgotten[-1] == 0:
            stop.set()
        return forgotten[-1]

    monkeypatch.setattr(store, "forget_spans", counted)
    assembler.run(stop)

    assert forgotten == [1, 1, 1, 0]


def test_a_record_that_the_database_refuses(
    store: Store, assembler: Assembler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is put back alone, and the records of its page are written."""
    real, other = store.assembled, "ab" * 16

    def refusing(made: Sequence[Assembled]) -> None:
        if any(each.trace.trace_id == other for each in made):
            raise StoreError("value out of range")
        real(made)

    monkeypatch.setattr(store, "assembled", refusing)
    store.add_spans([part([replace(request()[1], trace_id=other)]), part(request())], now=100)
    assembler.step(now=200)

    assert [row.request_id for row in store.find_requests()] == [TRACE]
    assert store.traces_waiting()[0] == 1


def test_a_trace_that_is_too_large(
    store: Store, assembler: Assembler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its spans are not read; others are assembled, few at a time."""
    small = [part([replace(each, trace_id=f"{number:032x}") for each in request()]) for number in range(1, 4)]
    large = part([*request(), replace(request()[0], span_id=f"{99:016x}", attributes={"note": "x" * 9_000})])
    monkeypatch.setattr(assembly, "_LARGEST", 9_000)
    monkeypatch.setattr(assembly, "_PAGE_BYTES", len(small[0].body) + 10)
    pages: list[int] = []
    spans_of = store.spans_of

    def noted(due: Sequence[DueTrace]) -> dict[tuple[str, str], list[StoredPart] | CorruptStore]:
        pages.append(len(due))
        return spans_of(due)

    monkeypatch.setattr(store, "spans_of", noted)
    store.add_spans([*small, large], now=10.0)
    assert assembler.step(now=100.0) == 4
    assert pages == [1, 1, 1]
    assert store.counts()["request"] == 3
    assert "a trace may have 9,000" in caplog.text
    assert store.traces_waiting()[0] == 1
