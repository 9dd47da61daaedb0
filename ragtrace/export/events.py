"""Scores and states as OpenTelemetry events: one `gen_ai.evaluation.result` each, in the trace of the judged request.

They go over OTLP to where the standard OTEL_EXPORTER_OTLP_* variables point. Scores of the answer belong to the span of
its generation, all others to the request's span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from ragtrace.errors import MissingExtraError
from ragtrace.export.push_targets import otlp_protocol
from ragtrace.record import conventions as names
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import COVERAGE
from ragtrace.types import Analysis, GenerateRun, RequestRecord, Score, StageFinding

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import LogRecordExporter

__all__ = ["EvaluationEvents", "sending_events"]

_DIAGNOSIS: Final = "ragtrace.diagnosis"
_STAGE: Final = "ragtrace.stage"  # + "." + its name
_JUDGE: Final = "ragtrace.judge"  # the digest of the rules, models and calibration that judged
_UNDEFINED: Final = "undefined"
_OF_ANSWER: Final = frozenset({"generation", "citation"})  # stages


class EvaluationEvents:
    """Sends the scores of analyses through a logger provider, which batches them in the background."""

    def __init__(self, provider: LoggerProvider) -> None:
        self._provider = provider
        self._logger = provider.get_logger(names.TRACER)

    @classmethod
    def open(cls) -> EvaluationEvents:
        """To the OTLP endpoint of the environment. Raises: MissingExtraError, ConfigurationError."""
        try:
            from opentelemetry.sdk._logs import LoggerProvider
            from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        except ImportError:
            raise MissingExtraError("opentelemetry-sdk", "otel") from None
        provider = LoggerProvider()
        provider.add_log_record_processor(BatchLogRecordProcessor(_exporter()))
        return cls(provider)

    def emit(self, record: RequestRecord, analysis: Analysis) -> None:
        """An event for each score, one for the state of each stage, and one for the diagnosis. States and undefined
        scores have a label only."""
        request, answer = _contexts(record)
        common = {
            names.REQUEST_ID: record.request_id,
            names.REQUEST_SERVICE: record.service,
            names.ANALYZER_VERSION: analysis.analyzer_version,
        }
        for score in analysis.scores:
            known = INSTRUMENTS.get(score.metric)
            is_of_answer = known is not None and known.stage in _OF_ANSWER
            self._emit(answer if is_of_answer else request, common | _scored(score), analysis.computed_at)
        if analysis.kind != COVERAGE:
            return
        judged = {_JUDGE: judge} if (judge := analysis.diagnosis.judge) else {}
        for finding in analysis.diagnosis.stages:
            context = answer if finding.stage in _OF_ANSWER else request
            self._emit(context, common | judged | _found(analysis, finding), analysis.computed_at)
        self._emit(request, common | judged | _diagnosed(analysis), analysis.computed_at)

    def _emit(self, context: Context, attributes: dict[str, Any], at: int) -> None:
        from opentelemetry._logs import LogRecord, SeverityNumber

        self._logger.emit(
            LogRecord(
                timestamp=at or None,
                context=context,
                severity_number=SeverityNumber.INFO,
                attributes=attributes,
                event_name=names.EVALUATION_EVENT,
            )
        )

    def close(self) -> None:
        """Send what waits, then stop."""
        self._provider.shutdown()


def _scored(score: Score) -> dict[str, Any]:
    found: dict[str, Any] = {names.EVALUATION_NAME: score.metric, names.REFERENCE: score.reference}
    if score.value is None:
        found[names.EVALUATION_LABEL] = _UNDEFINED
    else:
        found[names.EVALUATION_VALUE] = score.value
    return found | ({names.EVALUATION_EXPLANATION: score.reason} if score.reason else {})


def _found(analysis: Analysis, finding: StageFinding) -> dict[str, Any]:
    """The state of a stage, and why it is suspected or not known; the evidence may quote content."""
    found = {
        names.EVALUATION_NAME: f"{_STAGE}.{finding.stage}",
        names.EVALUATION_LABEL: finding.state,
        names.REFERENCE: analysis.diagnosis.reference,
    }
    return found | ({names.EVALUATION_EXPLANATION: finding.reason} if finding.reason else {})


def _diagnosed(analysis: Analysis) -> dict[str, Any]:
    """The verdict, and its cause; the evidence may quote content and stays in the store."""
    diagnosis = analysis.diagnosis
    found = {
        names.EVALUATION_NAME: _DIAGNOSIS,
        names.EVALUATION_LABEL: diagnosis.verdict,
        names.REFERENCE: diagnosis.reference,
    }
    return found | ({names.EVALUATION_EXPLANATION: diagnosis.cause} if diagnosis.cause else {})


@contextmanager
def sending_events() -> Iterator[Callable[[RequestRecord, Analysis], None]]:
    """What sends a result's events to the OTLP endpoint of the environment; those that wait are sent at the end."""
    events = EvaluationEvents.open()
    try:
        yield events.emit
    finally:
        events.close()


def _contexts(record: RequestRecord) -> tuple[Context, Context]:
    """Those of the request's span and of the last generation's; the request's where that has no span."""
    spans = [run.span_id for run in record.stages if isinstance(run, GenerateRun) and run.is_known and run.span_id]
    request = _context(record.trace_id, record.span_id)
    return request, _context(record.trace_id, spans[-1]) if spans else request


def _context(trace_id: str | None, span_id: str | None) -> Context:
    if trace_id is None:
        return Context()
    span = SpanContext(int(trace_id, 16), int(span_id or "0", 16), True, TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(span), Context())


def _exporter() -> LogRecordExporter:
    """The exporter for the protocol that the environment names."""
    protocol = otlp_protocol("LOGS")
    try:
        if protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter

            return GrpcExporter()
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

        return OTLPLogExporter()
    except ImportError:
        raise MissingExtraError("opentelemetry-exporter-otlp", "otel") from None
