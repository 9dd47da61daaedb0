"""OTLP traces, decoded from protobuf and JSON. A span that cannot be read is rejected with a reason, alone.

Messages in protobuf are looked through as bytes before: that one holds no more than it may, since two bytes on the wire
may take 168 in memory. `split` cuts a request into one part for each trace, still as protobuf: that is what the
receiver stores, since reading a hundred attributes into Python takes longer than all else. `read_protobuf` reads such a
part. Traces and logs have the same shape: resources (field 1) hold scopes (2), and these hold records (2).

Sources: https://opentelemetry.io/docs/specs/otlp/ (in JSON, ids are hex and 64-bit numbers may be texts);
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from ragtrace.errors import MissingExtraError, RecordError
from ragtrace.receive._limits import DEPTH, DecodingBudget, TooLarge
from ragtrace.receive._otlp_json import JsonWalk, id_of, parse_message, parse_or_clear, requests
from ragtrace.receive._spans import Attributes, ReceivedSpan, SpanEvent, Status

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = [
    "Received",
    "Scope",
    "Split",
    "TraceSpans",
    "attributes_of",
    "check_message",
    "first_reasons",
    "joined_scopes",
    "parse_json",
    "parse_protobuf",
    "read_json",
    "read_protobuf",
    "scopes",
    "split",
]

_Messages: TypeAlias = dict[str, dict[int, str]]

_PATH: Final = (1, 2, 2)  # the numbers of the fields that lead to records
_MESSAGES: Final[_Messages] = {  # by the kind of a message, the kinds of those in its fields
    "request": {1: "resources"},
    "resources": {1: "resource", 2: "scopes"},
    "resource": {1: "attribute", 3: "entity"},
    "scopes": {1: "scope", 2: "record"},
    "scope": {3: "attribute"},
    "attribute": {2: "value"},
    "value": {5: "array", 6: "map"},
    "array": {1: "element"},
    "element": {5: "array", 6: "map"},
    "map": {1: "attribute"},
    "event": {3: "attribute"},
    "link": {4: "attribute"},
    "entity": {},
}
_RECORDS: Final[_Messages] = {  # that of a record, by signal
    "traces": {9: "attribute", 11: "event", 13: "link"},
    "logs": {5: "value", 6: "attribute"},
}
_FRAME: Final = frozenset({"request", "resources", "scopes"})
_STRAYS: Final = 16  # fields of one of these that are none of its messages; more count as records
_RECORD_KINDS: Final = frozenset({"resources", "scopes", "record"})
_COUNTED: Final = frozenset({"attribute", "element", "event", "link", "entity"})
_VALUES: Final = frozenset({"value", "element"})
_TEXT: Final = 1 << 3 | 2  # the tag of a value's text
_LOOK: Final = 4_096  # fields of one message, after which they are counted
_FIXED: Final = {1: 8, 5: 4}  # bytes by wire type
_VARINT, _LENGTH = 0, 2
_MOST_DIGITS: Final = 10  # of a varint
_BROKEN: Final = "the body is no OTLP protobuf message: its fields do not fit"


class Scope(NamedTuple):
    """The records of one scope, in their order. resource, scope: all else that stands in its message, and in that of
    its resource."""

    resource: bytes
    scope: bytes
    records: list[memoryview]


class _Field(NamedTuple):
    number: int
    wire_type: int
    start: int
    end: int


def check_message(body: bytes, signal: Literal["traces", "logs"], allowance: DecodingBudget) -> None:
    """See that a message holds no more than it may, before it is decoded.

    Raises: TooLarge; RecordError where it is broken, or has groups, which OTLP has not.
    """
    limits = allowance.limits
    if limits is None:
        return
    whole = _MESSAGES | {"record": _RECORDS[signal]}
    # each takes two bytes or more: a small body cannot hold many, and is looked at down to its records
    if len(body) // 2 <= min(limits.attributes, limits.values):
        whole["record"] = whole["resource"] = whole["scope"] = {}
    _Count(body, whole, allowance, limits.values).read(0, len(body), "request")


class _Count:
    """Walks through the messages of a body, and counts what they hold."""

    def __init__(self, body: bytes, messages: _Messages, allowance: DecodingBudget, values: int) -> None:
        self._body, self._messages, self._allowance = body, messages, allowance
        self._values, self._left = values, values

    def read(self, offset: int, end: int, kind: str, depth: int = 1) -> None:
        """A message. Raises: TooLarge, RecordError."""
        if depth > DEPTH:
            raise RecordError(f"the body holds messages in messages, more than {DEPTH} deep; send flatter values")
        body, below, fields, strays = self._body, self._messages[kind], 0, 0
        while offset < end:
            tag, offset = (body[offset], offset + 1) if body[offset] < 0x80 else _varint(body, offset, end)
            if tag & 7 == _LENGTH:
                size, offset = (
                    (body[offset], offset + 1) if offset < end and body[offset] < 0x80 else _varint(body, offset, end)
                )
                inner = below.get(tag >> 3)
                if inner is not None:
                    if offset + size > end:
                        raise RecordError(_BROKEN)
                    self._take(inner)
                    if size and self._messages[inner] and not (inner in _VALUES and _is_text(body, offset, size)):
                        self.read(offset, offset + size, inner, depth + 1)
                offset += size
            elif tag & 7 == _VARINT:
                offset = offset + 1 if offset < end and body[offset] < 0x80 else _varint(body, offset, end)[1]
            elif tag & 7 in _FIXED:
                offset += _FIXED[tag & 7]
            else:
                raise RecordError(_BROKEN)
            if kind in _FRAME and (tag & 7 != _LENGTH or tag >> 3 not in below):
                strays += 1
                if strays > _STRAYS:
                    self._allowance.take_record()
            fields += 1
            if fields == _LOOK:
                self._spend(fields)
                fields = 0
        if offset > end:
            raise RecordError(_BROKEN)
        self._spend(fields)

    def _take(self, kind: str) -> None:
        if kind in _COUNTED:
            self._allowance.take()
        elif kind in _RECORD_KINDS:
            self._allowance.take_record()

    def _spend(self, fields: int) -> None:
        self._left -= fields
        self._allowance.tick(fields)
        if self._left < 0:
            raise TooLarge(f"the body holds more than {self._values:,} fields; send smaller batches")


def _is_text(body: bytes, at: int, size: int) -> bool:
    """Whether a value is one short text and nothing else, as most are."""
    return size >= 2 and body[at] == _TEXT and body[at + 1] == size - 2


def scopes(body: bytes) -> list[Scope]:
    """The scopes of a message, in its order. Raises: RecordError, as above."""
    found: list[Scope] = []
    view = memoryview(body)
    for first, last in _parted(body, 0, len(body), _PATH[0])[0]:
        inner, resource = _parted(body, first, last, _PATH[1])
        for start, end in inner:
            records, scope = _parted(body, start, end, _PATH[2])
            found.append(Scope(resource, scope, [view[at:to] for at, to in records]))
    return found


def joined_scopes(given: Iterable[Scope]) -> bytes:
    """A message of these scopes, those of one resource in a row under it."""
    parts: list[bytes | memoryview] = []
    for _, same in groupby(given, key=lambda each: id(each.resource)):
        own = list(same)
        inner = [piece for each in own for piece in _pieces(each)]
        resource = own[0].resource
        parts += (_head(_PATH[0], len(resource) + sum(map(len, inner))), resource, *inner)
    return b"".join(parts)


def _pieces(scope: Scope) -> list[bytes | memoryview]:
    inner: list[bytes | memoryview] = [scope.scope]
    for record in scope.records:
        inner += (_head(_PATH[2], len(record)), record)
    return [_head(_PATH[1], sum(map(len, inner))), *inner]


def _parted(body: bytes, at: int, end: int, number: int) -> tuple[list[tuple[int, int]], bytes]:
    """Where the messages with this field's number stand in a message, and the fields beside them."""
    inner: list[tuple[int, int]] = []
    others: list[bytes] = []
    for part in _fields(body, at, end):
        if part.wire_type == _LENGTH and part.number == number:
            inner.append((part.start, part.end))
        else:
            others.append(body[at : part.end])
        at = part.end
    return inner, b"".join(others)


def _head(number: int, size: int) -> bytes:
    """What stands before a field's message of so many bytes."""
    digits = bytearray([number << 3 | _LENGTH])
    while size >= 0x80:
        digits.append(size & 0x7F | 0x80)
        size >>= 7
    digits.append(size)
    return bytes(digits)


def _fields(body: bytes, offset: int, end: int) -> Iterator[_Field]:
    while offset < end:
        tag, offset = _varint(body, offset, end)
        wire_type = tag & 7
        start = offset
        if wire_type == _VARINT:
            _, offset = _varint(body, offset, end)
        elif wire_type == _LENGTH:
            size, start = _varint(body, offset, end)
            offset = start + size
        elif wire_type in _FIXED:
            offset += _FIXED[wire_type]
        else:
            raise RecordError(_BROKEN)
        if offset > end:
            raise RecordError(_BROKEN)
        yield _Field(tag >> 3, wire_type, start, offset)


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for place in range(min(_MOST_DIGITS, end - at)):
        byte = body[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise RecordError(_BROKEN)


_STATUS: Final[tuple[Status, ...]] = ("unset", "ok", "error")
_IDS: Final = ("traceId", "spanId", "parentSpanId")
_REASONS: Final = 5  # of what was rejected, that a sender is told
_DEPTH: Final = 16  # of nested values; deeper ones become None


@dataclass(slots=True)
class Received:
    """The spans of a request, and why others were rejected."""

    spans: list[ReceivedSpan] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TraceSpans:
    """The spans of one trace in a request, as a request of their own. `ended`: the trace's root is among them."""

    trace_id: str
    body: bytes
    spans: int
    ended: bool


@dataclass(slots=True)
class Split:
    """The parts of a request, and why spans were rejected."""

    parts: list[TraceSpans] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)

    @property
    def answer(self) -> ExportTraceServiceResponse:
        """What the sender is told: nothing, or how many spans were rejected and the first reasons."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        answer = ExportTraceServiceResponse()
        if self.rejected:
            answer.partial_success.rejected_spans = len(self.rejected)
            answer.partial_success.error_message = first_reasons(self.rejected)
        return answer


def first_reasons(rejected: Sequence[str]) -> str:
    """Of what was rejected, as much as a sender is told; half a character in a name would be no message."""
    return "; ".join(rejected[:_REASONS]).encode("utf-8", "replace").decode()


def parse_protobuf(body: bytes) -> ExportTraceServiceRequest:
    """A request; TracesData has the same shape. Raises: RecordError."""
    from google.protobuf.message import DecodeError

    message = _new_request()
    try:
        message.ParseFromString(body)
    except (DecodeError, RuntimeError) as error:
        raise RecordError(f"the body is no OTLP protobuf message of traces: {error}") from None
    return message


def parse_json(
    body: bytes | str, allowance: DecodingBudget | None = None
) -> tuple[ExportTraceServiceRequest, list[str]]:
    """A request in JSON, also one per line, and why spans of it were rejected. Raises: RecordError; TooLarge."""
    message, rejected = _new_request(), list[str]()
    allowance = allowance or DecodingBudget()
    walk = JsonWalk(rejected, allowance)
    for document in requests(body, "resourceSpans", "traces", allowance):
        for given in walk.dicts(document, "resourceSpans"):
            resource_spans = message.resource_spans.add()
            parse_or_clear(given.get("resource"), resource_spans.resource, allowance, 3)
            for scope in walk.dicts(given, "scopeSpans"):
                scope_spans = resource_spans.scope_spans.add()
                parse_or_clear(scope.get("scope"), scope_spans.scope, allowance, 4)
                for span in walk.dicts(scope, "spans"):
                    try:
                        _parse_span(span, scope_spans.spans.add(), allowance)
                    except ValueError as error:
                        del scope_spans.spans[-1]
                        reason = " ".join(str(error).split())[:200]
                        rejected.append(f"span {str(span.get('name'))[:80]!r}: {reason}")
    return message, rejected


def read_protobuf(body: bytes) -> Received:
    """The spans of a request. Raises: RecordError."""
    return _read(parse_protobuf(body), Received())


def read_json(body: bytes | str) -> Received:
    """The spans of a request in JSON, also of one per line. Raises: RecordError."""
    message, rejected = parse_json(body)
    return _read(message, Received(rejected=rejected))


def split(
    message: ExportTraceServiceRequest,
    rejected: Iterable[str] = (),
    body: bytes | None = None,
    allowance: DecodingBudget | None = None,
) -> Split:
    """One part for each trace, in the order in which they come.

    body: the message as it came in protobuf, if it did; its spans are parted as they are.

    Raises: TooLarge where many traces have a large resource in common, which each part would repeat.
    """
    found, allowance = Split(rejected=list(rejected)), allowance or DecodingBudget()
    most = allowance.limits.copied if allowance.limits is not None else sys.maxsize
    builders: dict[bytes, _Builder] = {}
    body = bytes(message.SerializeToString()) if body is None else body
    read = (
        scope_spans.spans for resource_spans in message.resource_spans for scope_spans in resource_spans.scope_spans
    )
    size = 0
    for scope, spans in zip(scopes(body), read, strict=True):
        for span, written in zip(spans, scope.records, strict=True):
            allowance.tick()
            reason = _fault(span)
            if reason is None:
                size += builders.setdefault(span.trace_id, _Builder()).add(span, scope, written)
            else:
                found.rejected.append(f"span {span.name[:80]!r}: {reason}")
        if size > most:
            raise TooLarge(f"its {len(builders):,} traces with their resource are too large; send smaller batches")
    found.parts += [builder.part(trace_id) for trace_id, builder in builders.items()]
    return found


class _Builder:
    """The spans of one trace, each with the resource and the scope that it stands under."""

    def __init__(self) -> None:
        self._of: Scope | None = None
        self._scopes: list[Scope] = []
        self._spans = 0
        self._ended = False

    def add(self, span: Span, scope: Scope, written: memoryview) -> int:
        """A span, read and as it was written. Returns how many bytes the part is larger."""
        size = len(written)
        if self._of is not scope:
            size += len(scope.scope)
            size += len(scope.resource) if self._of is None or self._of.resource is not scope.resource else 0
            self._of = scope
            self._scopes.append(scope._replace(records=[]))
        self._scopes[-1].records.append(written)
        self._spans += 1
        self._ended = self._ended or (not any(span.parent_span_id) and span.end_time_unix_nano > 0)
        return size

    def part(self, trace_id: bytes) -> TraceSpans:
        """The spans as a request of their own."""
        return TraceSpans(trace_id.hex(), joined_scopes(self._scopes), self._spans, self._ended)


def _read(message: ExportTraceServiceRequest, received: Received) -> Received:
    for resource_spans in message.resource_spans:
        resource = attributes_of(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            scope = scope_spans.scope.name
            for span in scope_spans.spans:
                reason = _fault(span)
                if reason is not None:
                    received.rejected.append(f"span {span.name[:80]!r}: {reason}")
                else:
                    received.spans.append(_span(span, scope, resource))
    return received


def _span(span: Span, scope: str, resource: Attributes) -> ReceivedSpan:
    return ReceivedSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() if any(span.parent_span_id) else None,
        name=span.name,
        started_at=span.start_time_unix_nano,
        ended_at=span.end_time_unix_nano,
        attributes=attributes_of(span.attributes),
        events=tuple(SpanEvent(each.name, each.time_unix_nano, attributes_of(each.attributes)) for each in span.events),
        status=_STATUS[span.status.code] if 0 <= span.status.code < len(_STATUS) else "unset",
        message=span.status.message,
        scope=scope,
        resource=resource,
        dropped=span.dropped_attributes_count,
        dropped_events=span.dropped_events_count,
    )


def _fault(span: Span) -> str | None:
    """Why a span is none, by the specification's rules on ids."""
    for what, value, size in (("trace id", span.trace_id, 16), ("span id", span.span_id, 8)):
        if len(value) != size:
            return f"its {what} has {len(value)} bytes, and needs {size}"
        if not any(value):
            return f"its {what} is all zeros"
    if len(span.parent_span_id) not in (0, 8):
        return f"its parent's id has {len(span.parent_span_id)} bytes, and needs 8 or none"
    return None


def attributes_of(attributes: Iterable[KeyValue]) -> Attributes:
    """Attributes as plain values."""
    return {  # a text most of the time, else a number
        each.key: (value := each.value).string_value or value.double_value or _value(value, value.WhichOneof("value"))
        for each in attributes
    }


def _value(value: AnyValue, kind: str | None, depth: int = _DEPTH) -> Any:
    if kind is None or not depth:
        return None
    if kind == "array_value":
        return [_value(each, each.WhichOneof("value"), depth - 1) for each in value.array_value.values]
    if kind == "kvlist_value":
        values = ((each.key, each.value) for each in value.kvlist_value.values)
        return {key: _value(each, each.WhichOneof("value"), depth - 1) for key, each in values}
    return getattr(value, kind)


def _parse_span(given: dict[str, Any], span: Span, allowance: DecodingBudget) -> None:
    """Raises: ValueError, TooLarge."""
    parse_message({name: value for name, value in given.items() if name not in _IDS}, span, allowance)
    span.trace_id, span.span_id, span.parent_span_id = (id_of(given, name) for name in _IDS)


def _new_request() -> ExportTraceServiceRequest:
    try:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise MissingExtraError("opentelemetry-proto", "otel") from None
    return ExportTraceServiceRequest()
