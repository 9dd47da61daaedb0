"""The signals of OTLP that are taken: what a body of each holds for the store, and what its sender is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from ragtrace.receive.limits import Allowance
from ragtrace.receive.logs import parse_logs_json, parse_logs_protobuf, read_logs
from ragtrace.receive.otlp import parse_json, parse_protobuf, split
from ragtrace.receive.wire import check
from ragtrace.record.content import ContentPolicy
from ragtrace.store import SpanPart, TraceJudgement

__all__ = ["JSON", "PROTOBUF", "SIGNALS", "Item", "Signal", "Taken"]

Item: TypeAlias = SpanPart | TraceJudgement

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a request holds for the store, how many of its records were accepted, rejected, and of no interest, and the
    answer of its service."""

    items: Sequence[Item]
    accepted: int
    rejected: int
    ignored: int
    answer: Any

    def encoded(self, kind: str) -> bytes:
        """The answer as the request's content type."""
        if kind == PROTOBUF:
            return bytes(self.answer.SerializeToString())
        from google.protobuf.json_format import MessageToDict

        return json.dumps(MessageToDict(self.answer)).encode()


@dataclass(frozen=True, slots=True)
class Signal:
    """A kind of telemetry, and its service over gRPC. `read` takes a body, its content type, the tenant, what may be
    kept of content, and what decoding may take; it raises RecordError where the body is none of this kind, TooLarge.
    """

    name: Literal["traces", "logs"]
    service: str
    read: Callable[[bytes, str, str, ContentPolicy, Allowance], Taken]

    @property
    def path(self) -> str:
        """Its route over HTTP."""
        return f"/v1/{self.name}"


def _traces(body: bytes, kind: str, tenant: str, policy: ContentPolicy, allowance: Allowance) -> Taken:
    if kind == JSON:
        found = split(*parse_json(body, allowance), allowance=allowance)
    else:
        check(body, "traces", allowance)
        found = split(parse_protobuf(body), body=body, allowance=allowance)
    parts = [SpanPart(tenant, each.trace_id, each.body, each.ended) for each in found.parts]
    return Taken(parts, sum(each.spans for each in found.parts), len(found.rejected), 0, found.answer)


def _logs(body: bytes, kind: str, tenant: str, policy: ContentPolicy, allowance: Allowance) -> Taken:
    if kind == JSON:
        message, rejected = parse_logs_json(body, allowance)
    else:
        check(body, "logs", allowance)
        message, rejected = parse_logs_protobuf(body), []
    found = read_logs(message, tenant, policy, rejected)
    return Taken(found.judgements, len(found.judgements), len(found.rejected), found.ignored, found.answer)


_COLLECTOR: Final = "opentelemetry.proto.collector"

SIGNALS: Final = (
    Signal("traces", f"{_COLLECTOR}.trace.v1.TraceService", _traces),
    Signal("logs", f"{_COLLECTOR}.logs.v1.LogsService", _logs),
)
"""All that are taken."""
