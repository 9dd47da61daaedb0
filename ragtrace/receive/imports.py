"""Imports of files: records, spans as tracing tools export them, evaluation sets; each becomes records and gold sets.

Spans come as OTLP (JSON or protobuf), in OpenTelemetry JS' console form, or as TruLens' events (JSON or CSV).
"""

from __future__ import annotations

import ast
import csv
import io
import json
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from ragtrace.config import Config
from ragtrace.errors import RecordError
from ragtrace.receive._assembly import assemble
from ragtrace.receive._otlp import Received, read_json, read_protobuf
from ragtrace.receive._spans import ReceivedSpan, SpanEvent, Status, whole
from ragtrace.receive.evaluations import read_evaluations
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Store
from ragtrace.types import Gold, RequestRecord, decode_record, replace

__all__ = ["Imported", "Kind", "import_file", "read_export", "read_kind"]

Kind: TypeAlias = Literal["records", "spans", "evaluations"]
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_PAGE: Final = 100
_BEGINNING: Final = 65_536  # bytes by which a file's kind is told
_MARKS: Final = (b"resourceSpans", b"spanContext", b"record_attributes")
_PROTOBUF: Final = b"\n"  # the tag of the first field, with which every request of OTLP begins
_GIVE: Final = "give JSON, JSON lines, CSV or TSV in UTF-8, or OTLP as protobuf"
_JS_STATUS: Final[dict[Any, Status]] = {1: "ok", 2: "error"}
_NANO: Final = 1_000_000_000
_FIELDS: Final = 100_000_000  # bytes of one field of a CSV file


@dataclass(slots=True)
class Imported:
    """What came of a file. `rejected`: why spans or traces were left out, one sentence each.

    Of an evaluation set: `read`, what was read -> the columns that it was read from; `left_out`, the columns that hold
    something and were not read; `warnings`: what may be missing, one sentence each.
    """

    kind: Kind
    requests: int = 0
    golds: int = 0
    rejected: list[str] = field(default_factory=list)
    read: dict[str, list[str]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_kind(value: str | None) -> Kind | None:
    """A kind as it is named on the command line; None for None. Raises: RecordError."""
    for kind in _KINDS:
        if value == kind:
            return kind
    if value is None:
        return None
    raise RecordError(f"--kind is {value!r}; it can be {', '.join(_KINDS)}")


def _kind_of(path: Path) -> Kind:
    """What a file holds, told by its name and its beginning. Raises: RecordError where that is nothing; OSError."""
    with path.open("rb") as opened:
        beginning = opened.read(_BEGINNING).removeprefix(BOM_UTF8)
    if not beginning.strip():
        raise RecordError(f"{path} is empty; {_GIVE}")
    if any(mark in beginning for mark in _MARKS):
        return "spans"
    if path.suffix.lower() in (".csv", ".tsv"):
        return "evaluations"
    if b'"request_id"' in beginning and b'"stages"' in beginning:
        return "records"
    if b"\0" not in beginning and beginning.lstrip()[:1] in (b"{", b"["):
        return "evaluations"
    if beginning[:1] == _PROTOBUF:
        return "spans"
    raise RecordError(f"{path} holds neither records, spans nor an evaluation set; {_GIVE}")


def import_file(
    store: Store,
    path: Path,
    config: Config,
    *,
    kind: Kind | None = None,
    service: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Imported:
    """Store what a file holds; importing it again, or a copy of it, changes nothing.

    A row of an evaluation set has the time of its file, so it is known by its content alone.

    config: its capture policy says what of content is kept; `cites`, where it is set, whether the answers are meant to
    cite their sources, whatever the file says. service: of evaluation sets, and in place of the senders' own.
    columns: of evaluation sets.

    Raises: RecordError naming file and place; what stands before that place is stored. OSError, StoreError.
    """
    imported = Imported(kind or _kind_of(path))
    golds: list[Gold] = []
    policy = ContentPolicy(config)
    found = _requests(path, imported, golds, service, config.service, columns)
    while page := list(islice(found, _PAGE)):
        known = store.get_records(each.request_id for each in page) if imported.kind == "evaluations" else {}
        new = [record for record in page if record.request_id not in known]
        if config.cites is not None:
            new = [replace(each, cites=config.cites) for each in new]
        store.write([policy.finish(each) for each in new])
        imported.requests += len(page)
    imported.golds = store.put_gold(golds) if golds else 0
    return imported


def _requests(
    path: Path,
    imported: Imported,
    golds: list[Gold],
    service: str | None,
    usual: str,
    columns: Mapping[str, str] | None,
) -> Iterator[RequestRecord]:
    if imported.kind == "evaluations":
        evaluations = read_evaluations(path, service or usual, columns)
        for row in evaluations:
            if row.gold is not None:
                golds.append(row.gold)
            yield row.record
        imported.read, imported.left_out = evaluations.read, evaluations.left_out
        imported.warnings += evaluations.warnings
        return
    found = _records(path) if imported.kind == "records" else _traces(path, imported)
    for record in found:
        yield record if service is None else replace(record, service=service)


def _records(path: Path) -> Iterator[RequestRecord]:
    with path.open("rb") as opened:
        for number, line in enumerate(opened, 1):
            if line.strip():
                try:
                    yield decode_record(line)
                except RecordError as error:
                    raise RecordError(f"{path}, line {number}: {error}") from None


def _traces(path: Path, imported: Imported) -> Iterator[RequestRecord]:
    received = read_export(path)
    imported.rejected += received.rejected
    traces: defaultdict[str, list[ReceivedSpan]] = defaultdict(list)
    for each in received.spans:
        traces[each.trace_id].append(each)
    for trace_id, spans in traces.items():
        record = assemble(spans)
        if record is None:
            names = ", ".join(dict.fromkeys(span.name for span in spans[:3]))
            imported.rejected.append(f"trace {trace_id}: none of its {len(spans)} spans is a stage of RAG ({names})")
        else:
            yield record


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
    for document in documents:
        context = document.get("spanContext")
        ids = [context.get(name) for name in ("traceId", "spanId")] if isinstance(context, dict) else []
        if len(ids) != 2 or not all(isinstance(one, str) and one for one in ids):
            received.rejected.append(f"span {str(document.get('name'))[:80]!r}: it has no ids")
            continue
        parent = document.get("parentSpanId") or _attributes(document.get("parentSpanContext")).get("spanId")
        status = _attributes(document.get("status"))
        received.spans.append(
            ReceivedSpan(
                trace_id=str(ids[0]),
                span_id=str(ids[1]),
                parent_id=str(parent) if parent else None,
                name=str(document.get("name") or ""),
                started_at=_hrtime(document.get("startTime")),
                ended_at=_hrtime(document.get("endTime")),
                attributes=_attributes(document.get("attributes")),
                events=tuple(_js_events(document.get("events"))),
                status=_JS_STATUS.get(whole(status, "code"), "unset"),
                message=str(status.get("message") or ""),
                resource=_attributes(_attributes(document.get("resource")).get("attributes")),
                dropped=whole(document, "droppedAttributesCount") or 0,
                dropped_events=whole(document, "droppedEventsCount") or 0,
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
