"""Decodes OTLP, as protobuf and as JSON. A span that cannot be read is rejected with a reason, alone.

`split` cuts a request into one part for each trace, still as protobuf: that is what the receiver stores, since reading
a hundred attributes into Python takes longer than all else. `read_part` reads such a part.
Source: https://opentelemetry.io/docs/specs/otlp/; in JSON, ids are hex and 64-bit numbers may be texts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ragtrace.errors import MissingExtraError, RecordError
from ragtrace.receive.limits import Allowance, TooLarge
from ragtrace.receive.otlp_json import Walk, id_of, parse_message, parse_or_clear, requests
from ragtrace.receive.spans import Attributes, ReceivedSpan, SpanEvent, Status
from ragtrace.receive.wire import Scope, joined, scopes

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = [
    "Part",
    "Received",
    "Split",
    "attributes_of",
    "first_reasons",
    "parse_json",
    "parse_protobuf",
    "read_json",
    "read_protobuf",
    "split",
]

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
class Part:
    """The spans of one trace in a request, as a request of their own. `ended`: the trace's root is among them."""

    trace_id: str
    body: bytes
    spans: int
    ended: bool


@dataclass(slots=True)
class Split:
    """The parts of a request, and why spans were rejected."""

    parts: list[Part] = field(default_factory=list)
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


def parse_json(body: bytes | str, allowance: Allowance | None = None) -> tuple[ExportTraceServiceRequest, list[str]]:
    """A request in JSON, also one per line, and why spans of it were rejected. Raises: RecordError; TooLarge."""
    message, rejected = _new_request(), list[str]()
    allowance = allowance or Allowance()
    walk = Walk(rejected, allowance)
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
    allowance: Allowance | None = None,
) -> Split:
    """One part for each trace, in the order in which they come.

    body: the message as it came in protobuf, if it did; its spans are parted as they are.

    Raises: TooLarge where many traces have a large resource in common, which each part would repeat.
    """
    found, allowance = Split(rejected=list(rejected)), allowance or Allowance()
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

    def part(self, trace_id: bytes) -> Part:
        """The spans as a request of their own."""
        return Part(trace_id.hex(), joined(self._scopes), self._spans, self._ended)


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
    found: Attributes = {}
    for each in attributes:
        value = each.value
        found[each.key] = value.string_value or _value(value, value.WhichOneof("value"))  # a text, most of the time
    return found


def _value(value: AnyValue, kind: str | None, depth: int = _DEPTH) -> Any:
    if kind is None or not depth:
        return None
    if kind == "array_value":
        return [_value(each, each.WhichOneof("value"), depth - 1) for each in value.array_value.values]
    if kind == "kvlist_value":
        values = ((each.key, each.value) for each in value.kvlist_value.values)
        return {key: _value(each, each.WhichOneof("value"), depth - 1) for key, each in values}
    return getattr(value, kind)


def _parse_span(given: dict[str, Any], span: Span, allowance: Allowance) -> None:
    """Raises: ValueError, TooLarge."""
    parse_message({name: value for name, value in given.items() if name not in _IDS}, span, allowance)
    span.trace_id, span.span_id, span.parent_span_id = (id_of(given, name) for name in _IDS)


def _new_request() -> ExportTraceServiceRequest:
    try:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise MissingExtraError("opentelemetry-proto", "otel") from None
    return ExportTraceServiceRequest()
