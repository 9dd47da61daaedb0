"""Reads the GenAI evaluation events out of OTLP logs, in protobuf and in JSON: each judges the request of its trace.

Senders send all their logs: records of other kinds are accepted, counted, and dropped. An evaluation that names no
trace is rejected with a reason.
Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/ (event `gen_ai.evaluation.result`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ragtrace.errors import MissingExtraError, RecordError
from ragtrace.receive._limits import DecodingBudget
from ragtrace.receive._otlp import attributes_of, first_reasons
from ragtrace.receive._otlp_json import JsonWalk, id_of, parse_message, parse_or_clear, requests
from ragtrace.receive.dialects.genai import judgment
from ragtrace.record import conventions as names
from ragtrace.record.content import ContentPolicy
from ragtrace.store import TraceJudgment
from ragtrace.types import Feedback

if TYPE_CHECKING:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
        ExportLogsServiceRequest,
        ExportLogsServiceResponse,
    )
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

__all__ = ["ReceivedJudgments", "parse_logs_json", "parse_logs_protobuf", "read_logs"]

_EVENT_NAME: Final = "event.name"  # where senders before LogRecord.event_name put it
_NO_TRACE: Final = "it has no trace id; emit it within the request's span, or with that span's context"
_IDS: Final = ("traceId", "spanId")


@dataclass(slots=True)
class ReceivedJudgments:
    """The judgments of a request, how many records were something else, and why others were rejected."""

    judgments: list[TraceJudgment] = field(default_factory=list)
    ignored: int = 0
    rejected: list[str] = field(default_factory=list)

    @property
    def answer(self) -> ExportLogsServiceResponse:
        """What the sender is told: nothing, or how many records were rejected and the first reasons."""
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

        answer = ExportLogsServiceResponse()
        if self.rejected:
            answer.partial_success.rejected_log_records = len(self.rejected)
            answer.partial_success.error_message = first_reasons(self.rejected)
        return answer


def parse_logs_protobuf(body: bytes) -> ExportLogsServiceRequest:
    """A request. Raises: RecordError."""
    from google.protobuf.message import DecodeError

    message = _new_request()
    try:
        message.ParseFromString(body)
    except (DecodeError, RuntimeError) as error:
        raise RecordError(f"the body is no OTLP protobuf message of logs: {error}") from None
    return message


def parse_logs_json(
    body: bytes | str, allowance: DecodingBudget | None = None
) -> tuple[ExportLogsServiceRequest, list[str]]:
    """A request in JSON, and why log records of it were rejected. Raises: RecordError; TooLarge."""
    message, rejected = _new_request(), list[str]()
    allowance = allowance or DecodingBudget()
    walk = JsonWalk(rejected, allowance)
    for document in requests(body, "resourceLogs", "logs", allowance):
        for resource_logs in walk.dicts(document, "resourceLogs"):
            added = message.resource_logs.add()
            parse_or_clear(resource_logs.get("resource"), added.resource, allowance, 3)
            scoped = added.scope_logs
            for given in walk.dicts(resource_logs, "scopeLogs"):
                scope_logs = scoped.add()
                scope = given.get("scope")
                parse_or_clear(scope, scope_logs.scope, allowance, 4)
                scope_logs.scope.name = _scope_name(scope.get("name")) if isinstance(scope, dict) else ""
                for record in walk.dicts(given, "logRecords"):
                    try:
                        _parse_record(record, scope_logs.log_records.add(), allowance)
                    except ValueError as error:
                        del scope_logs.log_records[-1]
                        reason = " ".join(str(error).split())[:200]
                        rejected.append(f"log record {_event_named(record)!r}: {reason}")
    return message, rejected


def read_logs(
    message: ExportLogsServiceRequest, tenant: str, policy: ContentPolicy, rejected: Iterable[str] = ()
) -> ReceivedJudgments:
    """The judgments in a request. ragtrace's own scores, which it can send as such events, are none.

    policy: what of their comments may be kept.
    """
    found = ReceivedJudgments(rejected=list(rejected))
    for resource_logs in message.resource_logs:
        for scope_logs in resource_logs.scope_logs:
            is_own = scope_logs.scope.name == names.TRACER
            for record in scope_logs.log_records:
                if is_own or not _is_evaluation(record):
                    found.ignored += 1
                else:
                    _add(found, record, tenant, policy)
    return found


def _add(found: ReceivedJudgments, record: LogRecord, tenant: str, policy: ContentPolicy) -> None:
    said = judgment(attributes_of(record.attributes), record.time_unix_nano or record.observed_time_unix_nano)
    reason = None if said is not None else "it has neither a score nor a label"
    if len(record.trace_id) not in (0, 16):
        reason = f"its trace id has {len(record.trace_id)} bytes, and needs 16"
    elif not any(record.trace_id):
        reason = _NO_TRACE
    if said is None or reason is not None:
        found.rejected.append(f"log record {names.EVALUATION_EVENT!r}: {reason}")
    else:
        kept = policy.finish(said.feedback("", 0))
        assert isinstance(kept, Feedback)
        found.judgments.append(TraceJudgment(tenant, record.trace_id.hex(), kept))


def _is_evaluation(record: LogRecord) -> bool:
    if record.event_name:
        return bool(record.event_name == names.EVALUATION_EVENT)
    return any(
        each.key == _EVENT_NAME and each.value.string_value == names.EVALUATION_EVENT for each in record.attributes
    )


def _parse_record(given: dict[str, Any], record: LogRecord, allowance: DecodingBudget) -> None:
    """Raises: ValueError, TooLarge."""
    parse_message({name: value for name, value in given.items() if name not in _IDS}, record, allowance)
    record.trace_id, record.span_id = (id_of(given, name) for name in _IDS)


def _scope_name(value: Any) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _event_named(given: dict[str, Any]) -> str:
    return str(given.get("eventName") or "")[:80]


def _new_request() -> ExportLogsServiceRequest:
    try:
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    except ImportError:
        raise MissingExtraError("opentelemetry-proto", "otel") from None
    return ExportLogsServiceRequest()
