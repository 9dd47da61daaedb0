"""One table of limits: what just fits is taken, what does not is refused, in both encodings, over HTTP and gRPC."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ragtrace import config
from ragtrace.receive._bodies import JSON, PROTOBUF, SIGNALS
from ragtrace.receive._limits import DEPTH, DecodingBudget, ReceiverLimits, TooLarge
from ragtrace.receive._logs import parse_logs_json
from ragtrace.receive._otlp import parse_json
from ragtrace.record.content import ContentPolicy
from tests.receive.server import test_rpc
from tests.receive.server.test_routes import Receiver
from tests.receive.test_otlp import SPAN

grpc = pytest.importorskip("grpc")

SMALL = ReceiverLimits(body=20_000, inflated=20_000, records=20, attributes=60, values=400, copied=28_000, members=3)
UNKNOWN = b"\xb8\x3e\x01"  # a field that no version has
RECORDS: dict[str, dict[str, Any]] = {
    "traces": {name: SPAN[name] for name in ("traceId", "spanId")},
    "logs": {"eventName": "other"},
}


def request(*records: dict[str, Any], signal: str = "traces", attributes: list[Any] | None = None) -> bytes:
    """A request of these records, as JSON. attributes: of their resource."""
    plural, inner, held = {
        "traces": ("resourceSpans", "scopeSpans", "spans"),
        "logs": ("resourceLogs", "scopeLogs", "logRecords"),
    }[signal]
    resource = {} if attributes is None else {"resource": {"attributes": attributes}}
    return json.dumps({plural: [{**resource, inner: [{held: list(records)}]}]}, separators=(",", ":")).encode()


def records(count: int, signal: str) -> bytes:
    """So many, with the resource and the scope that they stand under."""
    return request(*[RECORDS[signal]] * (count - 2), signal=signal)


def attributes(count: int, signal: str) -> bytes:
    """So many: of the resource, of a record, and within others."""
    inner = [{"key": "c"}, {"value": {"arrayValue": {"values": [{}]}}}]
    nested = {"key": "b", "value": {"kvlistValue": {"values": inner}}}
    return request(
        RECORDS[signal] | {"attributes": [nested] + [{"key": "d"}] * (count - 5)},
        signal=signal,
        attributes=[{"key": "a"}],
    )


def of_events(count: int) -> bytes:
    """So many events, links, and attributes of both."""
    links = [{"attributes": [{"key": "a"}]}]
    events = [{"name": "b", "attributes": [{"key": "c"}]}]
    return request(RECORDS["traces"] | {"links": links, "events": events + [{}] * (count - 4)})


def size(count: int) -> bytes:
    """So many bytes."""
    return request(RECORDS["traces"] | {"name": "x" * (count - len(request(RECORDS["traces"] | {"name": ""})))})


def copies(count: int) -> bytes:
    """So many traces of about 5,000 bytes, nearly all of them their resource's."""
    spans = [RECORDS["traces"] | {"traceId": f"{number:032x}"} for number in range(1, count + 1)]
    return request(*spans, attributes=[{"key": "a", "value": {"stringValue": "x" * 5_000}}])


def as_protobuf(body: bytes, signal: str) -> bytes:
    """The same."""
    message = parse_json(body)[0] if signal == "traces" else parse_logs_json(body)[0]
    if signal == "traces" and b'"links"' in body:  # which JSON leaves out once they are counted
        message.resource_spans[0].scope_spans[0].spans[0].links.add().attributes.add(key="a")
    return bytes(message.SerializeToString())


def values_json(count: int) -> bytes:
    """So many members and elements."""
    body = request(RECORDS["traces"] | {"x": []})
    there = sum(map(body.count, (b"{", b"[", b",")))
    return body.replace(b"[]", b"[0%s]" % (b",0" * (count - there)))


def values_protobuf(count: int) -> bytes:
    """So many fields."""
    message = parse_json(request(RECORDS["traces"]))[0]
    message.resource_spans[0].scope_spans[0].spans[0].MergeFromString(UNKNOWN * (count - 5))
    return bytes(message.SerializeToString())


def size_protobuf(count: int) -> bytes:
    """So many bytes."""
    message = parse_json(size(count))[0]
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.name += "x" * (count - message.ByteSize())
    return bytes(message.SerializeToString())


def made(build: Callable[[int, str], bytes], signal: str) -> dict[str, Callable[[int], bytes]]:
    """In both encodings."""
    return {
        JSON: lambda count: build(count, signal),
        PROTOBUF: lambda count: as_protobuf(build(count, signal), signal),
    }


CASES: dict[str, tuple[str, int, dict[str, Callable[[int], bytes]]]] = {
    "records-traces": ("traces", SMALL.records, made(records, "traces")),
    "records-logs": ("logs", SMALL.records, made(records, "logs")),
    "attributes-traces": ("traces", SMALL.attributes, made(attributes, "traces")),
    "attributes-logs": ("logs", SMALL.attributes, made(attributes, "logs")),
    "attributes-events": ("traces", SMALL.attributes, made(lambda count, _: of_events(count), "traces")),
    "values": ("traces", SMALL.values, {JSON: values_json, PROTOBUF: values_protobuf}),
    "body": ("traces", SMALL.body, {JSON: size, PROTOBUF: size_protobuf}),
    "copied": ("traces", 5, made(lambda count, _: copies(count), "traces")),
}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """Over HTTP."""
    running = Receiver(tmp_path_factory.mktemp("http"), limits=SMALL)
    yield running
    running.close()


@pytest.fixture(scope="module")
def rpc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[test_rpc.Receiver]:
    """Over gRPC."""
    running = test_rpc.Receiver(tmp_path_factory.mktemp("rpc"), SMALL)
    yield running
    running.close()


def status_of_call(rpc: test_rpc.Receiver, body: bytes, signal: str, **given: Any) -> int:
    """What HTTP would say."""
    (service,) = (each.service for each in SIGNALS if each.name == signal)
    try:
        rpc.export(body, method=f"/{service}/Export", **given)
    except grpc.RpcError as error:
        has_retry = test_rpc.RETRY in dict(error.trailing_metadata() or ())
        assert not has_retry, "the sender would send it again for ever"
        return {grpc.StatusCode.RESOURCE_EXHAUSTED: 413, grpc.StatusCode.INVALID_ARGUMENT: 400}[error.code()]
    return 200


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_same_limit(http: Receiver, rpc: test_rpc.Receiver, case: str, is_packed: bool) -> None:
    """Just below and just above, with gzip and without: JSON and protobuf over HTTP, protobuf over gRPC."""
    signal, most, build = CASES[case]
    found = {}
    for kind, body in build.items():
        for count in (most, most + 1):
            sent, headers = body(count), {"content_type": kind}
            if is_packed:
                sent, headers["content_encoding"] = gzip.compress(sent), "gzip"
            found[kind, count - most] = http.send(sent, f"/v1/{signal}", **headers)[0]
    compression = grpc.Compression.Gzip if is_packed else grpc.Compression.NoCompression
    for count in (most, most + 1):
        sent = build[PROTOBUF](count)
        found["grpc", count - most] = status_of_call(rpc, sent, signal, compression=compression)

    assert found == {(way, beyond): 413 if beyond else 200 for way in (JSON, PROTOBUF, "grpc") for beyond in (0, 1)}


@pytest.mark.parametrize(("deeper", "messages"), [("arrayValue", 2), ("kvlistValue", 3)])
def test_depth(http: Receiver, rpc: test_rpc.Receiver, deeper: str, messages: int) -> None:
    """Values in values, down to protobuf's own limit; in JSON the span alone is refused."""
    most = (DEPTH - 6) // messages

    def nested(count: int) -> bytes:
        value: dict[str, Any] = {"stringValue": "x"}
        for _ in range(count):
            value = {deeper: {"values": [value if deeper == "arrayValue" else {"key": "k", "value": value}]}}
        return request(RECORDS["traces"] | {"attributes": [{"key": "a", "value": value}]})

    fits, beyond = (http.send(nested(count), content_type=JSON) for count in (most, most + 1))
    assert (fits[0], fits[1], beyond[0]) == (200, b"{}", 200)
    assert f"deeper than {DEPTH} messages" in json.loads(beyond[1])["partialSuccess"]["errorMessage"]

    good = as_protobuf(nested(most), "traces")
    inner = b"\x2a\x02\x0a\x00" if deeper == "arrayValue" else b"\x32\x04\x0a\x02\x12\x00"
    message = parse_json(nested(most))[0]
    value = message.resource_spans[0].scope_spans[0].spans[0].attributes[0].value
    for _ in range(most):
        value = value.array_value.values[0] if deeper == "arrayValue" else value.kvlist_value.values[0].value
    value.ParseFromString(inner)
    bad = message.SerializeToString()
    assert [http.send(each, content_type=PROTOBUF)[0] for each in (good, bad)] == [200, 400]
    assert [status_of_call(rpc, each, "traces") for each in (good, bad)] == [200, 400]


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_members(http: Receiver, kind: str) -> None:
    """Of a gzip; gRPC's own are always one."""
    body = request(RECORDS["traces"]) if kind == JSON else as_protobuf(request(RECORDS["traces"]), "traces")
    packed = gzip.compress(body), gzip.compress(b"")
    sent = [packed[0] + packed[1] * more for more in (SMALL.members - 1, SMALL.members)]

    assert [http.send(each, content_type=kind, content_encoding="gzip")[0] for each in sent] == [200, 400]


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_decoding_has_an_end(signal: Any, kind: str) -> None:
    """What takes more of the processor's time than it may is refused, in the middle of it."""
    body = records(400, signal.name)
    body = body if kind == JSON else as_protobuf(body, signal.name)
    policy = ContentPolicy(config.load(capture_content="full"))

    signal.read(body, kind, "", policy, DecodingBudget(ReceiverLimits()))
    with pytest.raises(TooLarge, match="not decoded within 0 seconds"):
        signal.read(body, kind, "", policy, DecodingBudget(ReceiverLimits(decoding=0.0)))


def test_the_table_is_what_is_documented() -> None:
    """Attributes that JSON's shortest form would hide are refused as they are in protobuf: 600,000 of them."""
    body = request(RECORDS["traces"] | {"attributes": [{}] * 600_000})
    policy = ContentPolicy(config.load(capture_content="full"))
    for kind, sent in ((JSON, body), (PROTOBUF, as_protobuf(body, "traces"))):
        with pytest.raises(TooLarge, match="500,000 attributes"):
            SIGNALS[0].read(sent, kind, "", policy, DecodingBudget(ReceiverLimits()))
