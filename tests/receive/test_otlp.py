"""OTLP as protobuf and as JSON: the same spans, and a reason for each that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.errors import RecordError
from ragtrace.receive._limits import DecodingBudget, ReceiverLimits, TooLarge
from ragtrace.receive._otlp import Received, read_json, read_protobuf, split

SPAN: dict[str, Any] = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "parentSpanId": "eee19b7ec3c1b173",
    "name": "search",
    "kind": 1,
    "startTimeUnixNano": "1544712660000000000",
    "endTimeUnixNano": 1544712661000000000,
    "attributes": [
        {"key": "text", "value": {"stringValue": "é"}},
        {"key": "count", "value": {"intValue": "7"}},
        {"key": "share", "value": {"doubleValue": 0.5}},
        {"key": "yes", "value": {"boolValue": True}},
        {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": 2}]}}},
        {"key": "map", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"stringValue": "v"}}]}}},
        {"key": "none", "value": {}},
    ],
    "events": [{"name": "exception", "timeUnixNano": "5", "attributes": []}],
    "status": {"code": 2, "message": "no"},
    "droppedAttributesCount": 3,
    "links": [{"traceId": "zz", "spanId": "zz"}],
    "unknownField": 1,
}


def batch(*spans: dict[str, Any]) -> bytes:
    """A request of these spans, as JSON."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "assistant"}}]}
    scoped = [{"scope": {"name": "tracer"}, "spans": list(spans)}]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scoped}]}).encode()


def message(**given: Any) -> bytes:
    """A request of one span, as protobuf."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = b"\1" * 16, b"\2" * 8, "search"
    for name, value in given.items():
        setattr(span, name, value)
    return bytes(request.SerializeToString())


def test_json() -> None:
    """Ids in hex, 64-bit numbers as texts or numbers, all kinds of values; what is unknown is passed over."""
    received = read_json(batch(SPAN))
    span = received.spans[0]

    assert received.rejected == []
    assert (span.trace_id, span.span_id, span.parent_id) == (SPAN["traceId"], SPAN["spanId"], SPAN["parentSpanId"])
    assert span.attributes == {
        "text": "é",
        "count": 7,
        "share": 0.5,
        "yes": True,
        "list": ["a", 2],
        "map": {"k": "v"},
        "none": None,
    }
    assert (span.started_at, span.ended_at) == (1544712660000000000, 1544712661000000000)
    assert (span.status, span.message, span.dropped) == ("error", "no", 3)
    assert (span.scope, span.service) == ("tracer", "assistant")
    assert [event.name for event in span.events] == ["exception"]


def test_lines() -> None:
    """The Collector's file exporter writes one request per line."""
    other = SPAN | {"spanId": "00000000000000aa"}

    assert len(read_json(batch(SPAN) + b"\n" + batch(other) + b"\n").spans) == 2


def test_root_has_no_parent() -> None:
    """No parent, an empty one, and one of zeros are the same."""
    for parent in (b"", bytes(8)):
        assert read_protobuf(message(parent_span_id=parent)).spans[0].parent_id is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"traceId": "0" * 32}, "its trace id is all zeros"),
        ({"spanId": ""}, "its span id has 0 bytes, and needs 8"),
        ({"spanId": "xyz"}, "spanId is 'xyz', and should be 16 hex digits"),
        ({"traceId": 5}, "traceId is int, and should be a text of hex digits"),
        ({"parentSpanId": "ab"}, "its parent's id has 1 bytes, and needs 8 or none"),
        ({"startTimeUnixNano": -1}, "startTimeUnixNano"),
        ({"attributes": "text"}, "attributes"),
    ],
)
def test_rejected_alone(changed: dict[str, Any], reason: str) -> None:
    """A span that cannot be read is rejected with the reason; those beside it are not."""
    received = read_json(batch(SPAN, SPAN | changed))

    assert len(received.spans) == 1
    assert len(received.rejected) == 1
    assert "search" in received.rejected[0]
    assert reason in received.rejected[0]


def test_rejected_protobuf() -> None:
    """Zero ids are none."""
    received = read_protobuf(message(trace_id=bytes(16)))

    assert received.spans == []
    assert received.rejected == ["span 'search': its trace id is all zeros"]


def test_deep_values() -> None:
    """Values nested without end are cut, and no error."""
    value: dict[str, Any] = {"stringValue": "deep"}
    for _ in range(60):
        value = {"arrayValue": {"values": [value]}}
    received = read_json(batch(SPAN | {"attributes": [{"key": "a", "value": value}]}))

    assert "deep" not in str(received.spans)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b'{"resourceSpans": 1}', b'{"spans": []}', b"\xff\xfe", b"[" * 100_000]
)
def test_no_json(body: bytes) -> None:
    """What is no request at all is refused as a whole."""
    with pytest.raises(RecordError, match="the body is no"):
        read_json(body)


@pytest.mark.parametrize("body", [b"{}", b'{"resourceSpans": []}', b'{"resourceSpans": null}'])
def test_empty_json(body: bytes) -> None:
    """A request that leaves out its list, as JSON of protobuf may, holds nothing."""
    assert read_json(body) == Received()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([1], "one of `resourceSpans` is int, and should be an object"),
        ([{"scopeSpans": {"spans": [SPAN]}}], "`scopeSpans` is dict, and should be a list"),
        ([{"scopeSpans": [{"spans": "text"}]}], "`spans` is str, and should be a list"),
        ([{"scopeSpans": [{"spans": [None]}]}], "one of `spans` is NoneType, and should be an object"),
    ],
)
def test_no_objects(given: list[Any], reason: str) -> None:
    """What is of another shape than it should be is counted, with the reason, and stops no span beside it."""
    whole = json.loads(batch(SPAN))["resourceSpans"]
    received = read_json(json.dumps({"resourceSpans": given + whole}))

    assert (len(received.spans), received.rejected) == (1, [reason])


def accepted(read: Callable[[bytes], Received], body: bytes) -> bool:
    """Whether a body is a request; what is none is refused with a RecordError, and nothing else."""
    try:
        return isinstance(read(body), Received)
    except RecordError:
        return False


NAMES = st.sampled_from(
    "resourceSpans scopeSpans spans resource scope name attributes key value traceId spanId".split()
)
SHAPES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    """Any bytes are a request, or are refused."""
    assert accepted(read_protobuf, body) in (True, False)
    assert accepted(read_json, body) in (True, False)


@given(SHAPES)
def test_any_json(value: Any) -> None:
    """JSON of any shape is a request, or is refused."""
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [value]}]}, value]}).encode()

    assert accepted(read_json, body)
    assert accepted(read_json, json.dumps(value).encode()) in (True, False)


@pytest.mark.parametrize(
    "given",
    [
        {"status": {"code": "\ud800"}},
        {"attributes": [{"key": "a", "value": {"doubleValue": 10**400}}]},
        {"droppedAttributesCount": float("inf")},
    ],
)
def test_values_that_break_the_reader(given: dict[str, Any]) -> None:
    """Such a span is rejected with a reason, alone; also in a resource they break nothing."""
    received = read_json(batch(SPAN, {**SPAN, **given}))
    resource = {"attributes": [{"key": "a", "value": {"doubleValue": 10**400}}]}
    other = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [SPAN]}]}]}

    assert (len(received.spans), len(received.rejected)) == (1, 1)
    assert len(read_json(json.dumps(other)).spans) == 1


def test_a_list_of_requests() -> None:
    """Requests may stand in a list, as some tools save them."""
    assert len(read_json(b"[" + batch(SPAN) + b"," + batch(SPAN) + b"]").spans) == 2


def test_a_resource_that_many_traces_share() -> None:
    """Each part repeats it; where that is too much, the request is refused, and memory stays bounded."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="long").value.string_value = "x" * 1_000
    spans = resource.scope_spans.add().spans
    for number in range(1, 20):
        spans.add(trace_id=bytes([number]) * 16, span_id=b"\2" * 8)
    assert len(split(request).parts) == 19

    with pytest.raises(TooLarge, match="19 traces"):
        split(request, allowance=DecodingBudget(ReceiverLimits(copied=10_000)))


def test_a_resource_that_many_scopes_share() -> None:
    """It stands in a part once, however many scopes the trace's spans have."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="long").value.string_value = "x" * 10_000
    for number in range(1, 200):
        scope_spans = resource.scope_spans.add()
        scope_spans.spans.add(trace_id=b"\1" * 16, span_id=number.to_bytes(8))
    (part,) = split(request).parts
    assert len(part.body) < 2 * 10_000
    assert ExportTraceServiceRequest.FromString(part.body) == request
