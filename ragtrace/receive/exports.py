"""Reads files of spans as tracing tools export them: OTLP (JSON or protobuf), OpenTelemetry JS' console form, TruLens'
events (JSON or CSV)."""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ragtrace.errors import RecordError
from ragtrace.receive.otlp import Received, read_json, read_protobuf
from ragtrace.receive.spans import ReceivedSpan, SpanEvent, Status
from ragtrace.receive.values import whole

__all__ = ["read_export"]

_JS_STATUS: Final[dict[Any, Status]] = {1: "ok", 2: "error"}
_NANO: Final = 1_000_000_000
_FIELDS: Final = 100_000_000  # bytes of one field of a CSV file


def read_export(path: Path) -> Received:
    """The spans of a file. Raises: RecordError when it is none of the known kinds, OSError."""
    body = path.read_bytes()
    if not body.strip():
        raise RecordError(f"{path} is empty; give a file of exported spans")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return _named(path, lambda: read_protobuf(body))
    if path.suffix == ".csv":
        return _events(path, _rows(text))
    first = text.lstrip()[:1]
    if first not in ("{", "["):
        return _named(path, lambda: read_protobuf(body))
    documents = list(_documents(path, text))
    if any("resourceSpans" in each for each in documents):
        return _named(path, lambda: read_json(text))
    if any("spanContext" in each for each in documents):
        return _javascript(documents)
    if any("record_attributes" in each for each in documents):
        return _events(path, documents)
    raise RecordError(f"{path} holds no spans that are known: OTLP, OpenTelemetry JS or TruLens events are read")


def _named(path: Path, read: Any) -> Received:
    try:
        found: Received = read()
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from None
    return found


def _documents(path: Path, text: str) -> Iterator[dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{path} is no JSON: {error}") from None
    except RecursionError as error:
        raise RecordError(f"{path} is nested too deep: {error}") from None
    items = found if isinstance(found, list) else [found]
    return (each for each in items if isinstance(each, dict))


def _javascript(documents: Iterable[dict[str, Any]]) -> Received:
    """OpenTelemetry JS' `ReadableSpan`s: times are [seconds, nanoseconds]."""
    received = Received()
    for each in documents:
        context = each.get("spanContext")
        ids = [context.get(name) for name in ("traceId", "spanId")] if isinstance(context, dict) else []
        if len(ids) != 2 or not all(isinstance(one, str) and one for one in ids):
            received.rejected.append(f"span {str(each.get('name'))[:80]!r}: it has no ids")
            continue
        parent = each.get("parentSpanId") or _attributes(each.get("parentSpanContext")).get("spanId")
        status = _attributes(each.get("status"))
        received.spans.append(
            ReceivedSpan(
                trace_id=str(ids[0]),
                span_id=str(ids[1]),
                parent_id=str(parent) if parent else None,
                name=str(each.get("name") or ""),
                started_at=_hrtime(each.get("startTime")),
                ended_at=_hrtime(each.get("endTime")),
                attributes=_attributes(each.get("attributes")),
                events=tuple(_js_events(each.get("events"))),
                status=_JS_STATUS.get(whole(status, "code"), "unset"),
                message=str(status.get("message") or ""),
                resource=_attributes(_attributes(each.get("resource")).get("attributes")),
                dropped=whole(each, "droppedAttributesCount") or 0,
                dropped_events=whole(each, "droppedEventsCount") or 0,
            )
        )
    return received


def _js_events(value: Any) -> Iterator[SpanEvent]:
    for each in value if isinstance(value, list) else []:
        if isinstance(each, dict):
            at = _hrtime(each.get("time"))
            yield SpanEvent(str(each.get("name") or ""), at, _attributes(each.get("attributes")))


def _attributes(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _hrtime(value: Any) -> int:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(each, int) for each in value):
        return int(value[0]) * _NANO + int(value[1])
    return 0


def _rows(text: str) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(_FIELDS)
    for row in csv.DictReader(io.StringIO(text)):
        yield {name: _literal(value) for name, value in row.items() if name}


def _literal(value: str | None) -> Any:
    """A cell that holds a mapping as Python writes it; any other as it is."""
    if value is None or not value.startswith("{"):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def _events(path: Path, rows: Iterable[dict[str, Any]]) -> Received:
    """TruLens' table of events: decimal ids, times as text in UTC."""
    received = Received()
    found = False
    for row in rows:
        found = True
        trace, about = _attributes(row.get("trace")), _attributes(row.get("record"))
        attributes = _attributes(row.get("record_attributes"))
        span_id = str(trace.get("span_id") or row.get("event_id") or "")
        record_id = attributes.get("ai.observability.record_id")
        trace_id = str(trace.get("trace_id") or record_id or "")
        if not span_id or not trace_id:
            received.rejected.append(f"event {str(row.get('event_id'))[:80]!r}: it has no ids")
            continue
        received.spans.append(
            ReceivedSpan(
                trace_id=_hex(trace_id, 32),
                span_id=_hex(span_id, 16),
                parent_id=_hex(parent, 16) if (parent := str(trace.get("parent_id") or "")) else None,
                name=str(about.get("name") or ""),
                started_at=_utc(row.get("start_timestamp")),
                ended_at=_utc(row.get("timestamp")),
                attributes=attributes,
                status="error" if str(about.get("status")).endswith("ERROR") else "unset",
                resource=_attributes(row.get("resource_attributes")),
            )
        )
    if not found:
        raise RecordError(f"{path} has no rows; give a file of exported spans")
    return received


def _hex(value: str, digits: int) -> str:
    return f"{int(value):0{digits}x}" if value.isdecimal() else value


def _utc(value: Any) -> int:
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        return 0
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1_000_000) * 1000
