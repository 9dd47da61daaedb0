"""What a message holds is counted without decoding it, and nothing gets by uncounted."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.errors import RecordError
from ragtrace.receive._limits import DecodingBudget, ReceiverLimits, TooLarge
from ragtrace.receive._otlp import check_message, joined_scopes, parse_protobuf, scopes
from tests.receive.test_otlp import message

TRACES: Literal["traces"] = "traces"


def is_too_large(body: bytes, signal: Literal["traces", "logs"] = TRACES, **limits: Any) -> bool:
    """Whether it is refused by these limits."""
    try:
        check_message(body, signal, DecodingBudget(ReceiverLimits(**limits)))
    except TooLarge:
        return True
    return False


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=4))
def test_records(shape: list[list[int]]) -> None:
    """Resources, scopes and spans are counted, wherever they stand."""
    request = ExportTraceServiceRequest()
    for parts in shape:
        resource_spans = request.resource_spans.add()
        for spans in parts:
            scope_spans = resource_spans.scope_spans.add()
            for _ in range(spans):
                scope_spans.spans.add(name="search").attributes.add(key="a").value.string_value = "b"
    body, count = request.SerializeToString(), len(shape) + sum(map(len, shape)) + sum(map(sum, shape))
    assert not is_too_large(body, records=count)
    assert not count or is_too_large(body, records=count - 1)


@given(
    st.lists(st.lists(st.tuples(*[st.lists(st.integers(0, 40_000), max_size=3)] * 2, st.integers(0, 3)), max_size=3))
)
def test_attributes(shape: list[list[tuple[list[int], list[int], int]]]) -> None:
    """Attributes, events and links, also of resources and scopes, and values within values, however long each is."""
    request, count = ExportTraceServiceRequest(), 0
    for spans in shape:
        resource_spans = request.resource_spans.add()
        resource_spans.resource.attributes.add(key="a")
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.attributes.add(key="a").value.array_value.values.add()
        count += 3
        for attributes, events, links in spans:
            span = scope_spans.spans.add(name="search", start_time_unix_nano=1)
            for size in attributes:
                span.attributes.add(key="a").value.string_value = "b" * size
            for size in events:
                span.events.add(name="b" * size).attributes.add(key="c").value.kvlist_value.values.add(key="d")
            for _ in range(links):
                span.links.add().attributes.add(key="e")
            count += len(attributes) + 3 * len(events) + 2 * links
    body = request.SerializeToString()
    assert not is_too_large(body, attributes=count)
    assert not count or is_too_large(body, attributes=count - 1)


def test_fields() -> None:
    """Of any kind: also of such as nobody knows, in any message."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.MergeFromString(b"\xb8\x3e\x01" * 997)

    assert not is_too_large(request.SerializeToString(), values=1_000)
    assert is_too_large(request.SerializeToString(), values=999)
    assert is_too_large(b"\x50\x01" * 200, records=150)


def test_logs() -> None:
    """The fields of a log record have other numbers than a span's."""
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(trace_id=b"\1" * 16, event_name="e")
    record.body.array_value.values.add().array_value.values.add()
    record.attributes.add(key="a")

    assert not is_too_large(request.SerializeToString(), "logs", attributes=3)
    assert is_too_large(request.SerializeToString(), "logs", attributes=2)


def test_decoding_has_an_end() -> None:
    """Where it takes more of the processor's time than it may, the body is refused."""
    with pytest.raises(TooLarge, match="not decoded within 0 seconds"):
        check_message(b"\x0a\x00" * 500, TRACES, DecodingBudget(ReceiverLimits(decoding=0.0)))


@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda rest: message() + rest))
def test_nothing_gets_by(body: bytes) -> None:
    """What is decoded was counted in full; what cannot be counted is refused."""
    try:
        check_message(body, TRACES, DecodingBudget(ReceiverLimits(attributes=0)))
        counted = 0
    except TooLarge:
        counted = 1
    except RecordError:
        return
    try:
        decoded = parse_protobuf(body)
    except RecordError:
        return
    scopes = [scope for each in decoded.resource_spans for scope in each.scope_spans]
    spans = [span for scope in scopes for span in scope.spans]
    assert counted or not any(each.attributes or each.events or each.links for each in spans)
    records = len(decoded.resource_spans) + len(scopes) + sum(len(each.spans) for each in scopes)
    assert not records or is_too_large(body, records=records - 1)


@pytest.mark.parametrize("body", [b"\x7b\x7c", b"\x0a\x05", b"\x0a", b"\xff" * 11, b"\x09\x00"])
def test_broken(body: bytes) -> None:
    """Groups, lengths that lead out of the message, and numbers without an end."""
    with pytest.raises(RecordError):
        check_message(body + b"\x0a\x00" * (body[0] == 0x7B), TRACES, DecodingBudget(ReceiverLimits()))


@pytest.mark.parametrize("field", [b"\x6a\x01", b"\x6a", b"\x6a\xff\x7f", b"\x6a\xff\xff\x01", b"\x53"])
def test_a_broken_record(field: bytes) -> None:
    """Within a record it is no other."""
    body = b"\x0a%c\x12%c\x12%c" % (len(field) + 4, len(field) + 2, len(field)) + field
    with pytest.raises(RecordError, match="do not fit"):
        check_message(body, TRACES, DecodingBudget(ReceiverLimits(values=2)))


def test_records_are_taken_out_as_they_are() -> None:
    """Also with fields that this version does not know, at any place, and a resource in two pieces."""
    unknown = b"\xba\x3e\x03new"
    span = b"\x0a\x10" + b"\1" * 16 + unknown
    scope = b"\x12" + bytes([len(span)]) + span + unknown + b"\x0a\x03\x0a\x01s"
    resource = b"\x0a\x02\x10\x01" + b"\x12" + bytes([len(scope)]) + scope + unknown + b"\x0a\x02\x10\x02"
    (found,) = scopes(unknown + b"\x0a" + bytes([len(resource)]) + resource)
    assert found.resource == b"\x0a\x02\x10\x01" + unknown + b"\x0a\x02\x10\x02"
    assert found.scope == unknown + b"\x0a\x03\x0a\x01s"
    assert [bytes(record) for record in found.records] == [span]

    again = ExportTraceServiceRequest.FromString(joined_scopes([found]))
    assert again.resource_spans[0].resource.dropped_attributes_count == 2
    assert again.resource_spans[0].scope_spans[0].scope.name == "s"
    assert scopes(joined_scopes([found])) == [found]


@given(st.lists(st.lists(st.lists(st.integers(0, 40_000), max_size=3), max_size=3), max_size=3))
def test_joined_again(shape: list[list[list[int]]]) -> None:
    """What is put together again says the same, however long each part is."""
    request, expected = ExportTraceServiceRequest(), ExportTraceServiceRequest()
    for number, scopes_of in enumerate(shape):
        resource_spans = request.resource_spans.add()
        resource_spans.resource.dropped_attributes_count = number
        for sizes in scopes_of:
            scope_spans = resource_spans.scope_spans.add()
            for size in sizes:
                scope_spans.spans.add(name="b" * size)
        if scopes_of:
            expected.resource_spans.add().CopyFrom(resource_spans)
    assert ExportTraceServiceRequest.FromString(joined_scopes(scopes(request.SerializeToString()))) == expected
