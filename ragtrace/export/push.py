"""What is pushed to others' receivers: metrics, by Prometheus's remote write 1.0 (protobuf, compressed by snappy) or
OTLP (cumulative sums, histograms with explicit buckets, gauges, under the registry's names); and scores and states as
OpenTelemetry events: one `gen_ai.evaluation.result` each, in the trace of the judged request.

Of metrics in OTLP the start of a series is left unknown, since totals outlive every process: a receiver that saw a
start would take a new exporter for a reset. Events go over OTLP to where the standard OTEL_EXPORTER_OTLP_* variables
point. Scores of the answer belong to the span of its generation, all others to the request's span.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragtrace.config import http_address, shown_address, variable
from ragtrace.errors import ConfigurationError, MissingExtraError
from ragtrace.export.exporter import PushFailed
from ragtrace.http_client import HttpClient, NoAnswer, retry_after
from ragtrace.record import conventions as names
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import COVERAGE
from ragtrace.types import Analysis, GenerateRun, RequestRecord, Score, StageFinding

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import Metric as OtlpMetric, MetricExporter

__all__ = ["HEADERS_VARIABLE", "EvaluationEvents", "OtlpTarget", "RemoteWriteTarget", "otlp_protocol", "sending_events"]

HEADERS_VARIABLE: Final = variable("remote_write_headers")

_EXTRA: Final = "remote-write"
_SERIES: Final = 2000  # of one request, as Prometheus itself sends at most
_TIMEOUT_SECONDS: Final = 10.0
_JOB: Final = "ragtrace"
_MILLISECONDS: Final = 1000
_HEADERS: Final = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "User-Agent": "ragtrace",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
# The part of prompb/remote.proto and prompb/types.proto that is written: message -> fields (name, number, type).
_MESSAGES: Final = {
    "Label": (("name", 1, "string"), ("value", 2, "string")),
    "Sample": (("value", 1, "double"), ("timestamp", 2, "int64")),
    "Exemplar": (("labels", 1, "Label"), ("value", 2, "double"), ("timestamp", 3, "int64")),
    "TimeSeries": (("labels", 1, "Label"), ("samples", 2, "Sample"), ("exemplars", 3, "Exemplar")),
    "WriteRequest": (("timeseries", 1, "TimeSeries"),),
}
_POINTS: Final = 5000  # of one request: below the 4 MiB that a gRPC server takes
_PATH: Final = "/v1/metrics"
_ADDRESS: Final = "a URL such as http://localhost:4318"
_BY_NAME: Final = {one.name.removesuffix("_total"): one for one in INSTRUMENTS.values()}


class RemoteWriteTarget:
    """A receiver of remote write, such as Prometheus with --web.enable-remote-write-receiver.

    Series carry the label `job="ragtrace"` and no instance, so that they are the same after a move to another host.

    Args:
        url: of the receiver; a user and a password in it are sent as basic authentication.
        headers: as OTEL_EXPORTER_OTLP_HEADERS has them, `Authorization=Bearer%20...`; None: those of the environment
            variable RAGTRACE_REMOTE_WRITE_HEADERS.

    Raises: ConfigurationError for an address that cannot be used, MissingExtraError.
    """

    def __init__(self, url: str, headers: str | None = None) -> None:
        from opentelemetry.util.re import parse_env_headers

        parts = http_address("remote write", url, _ADDRESS)
        self.shown = shown_address(parts)
        try:
            from cramjam import snappy
        except ImportError as error:
            raise MissingExtraError(str(error.name), _EXTRA) from None
        _write_request()
        self._compress = snappy.compress_raw
        given = os.environ.get(HEADERS_VARIABLE, "") if headers is None else headers
        sent = {**_HEADERS, **parse_env_headers(given, liberal=True)}
        self._client = HttpClient(parts, extra=_EXTRA, headers=sent, seconds=_TIMEOUT_SECONDS, connections=1)

    def send(self, metrics: Sequence[Metric], at: float) -> None:
        """Send the families, in as many requests as their size needs. Raises: PushFailed."""
        waiting = _prompb_series(metrics, round(at * _MILLISECONDS))
        while series := list(islice(waiting, _SERIES)):
            request = _write_request()(timeseries=series)
            self._post(bytes(self._compress(request.SerializeToString())))

    def _post(self, body: bytes) -> None:
        """Sent once: the next push has newer values."""
        try:
            answer = self._client.request("POST", self._client.address, body)
        except NoAnswer as error:
            raise PushFailed(f"cannot be reached: {error}") from error
        if answer.status >= 300:
            raise PushFailed(f"answered {answer.status}: {answer.said}", answer.retry_after)

    def close(self) -> None:
        """Close the connections that wait."""
        self._client.close()


def _prompb_series(metrics: Iterable[Metric], at: int) -> Iterator[dict[str, Any]]:
    for metric in metrics:
        for sample in metric.samples:
            yield {
                "labels": _prompb_labels({**sample.labels, "__name__": sample.name, "job": _JOB}),
                "samples": [{"value": float(sample.value), "timestamp": at}],
                "exemplars": _prompb_exemplars(sample),
            }


def _prompb_labels(labels: dict[str, str]) -> list[dict[str, str]]:
    """Sorted, and without empty ones, as the protocol wants them."""
    return [{"name": name, "value": value} for name, value in sorted(labels.items()) if value]


def _prompb_exemplars(sample: Sample) -> list[dict[str, Any]]:
    exemplar: Exemplar | None = sample.exemplar
    if exemplar is None:
        return []
    at = round(float(exemplar.timestamp or 0) * _MILLISECONDS)
    return [{"labels": _prompb_labels(dict(exemplar.labels)), "value": float(exemplar.value), "timestamp": at}]


@cache
def _write_request() -> Any:
    """The class of the message WriteRequest. Raises: MissingExtraError."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise MissingExtraError("protobuf", _EXTRA) from None
    file = descriptor_pb2.FileDescriptorProto(name="ragtrace/remote_write.proto", package="ragtrace", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
            if kind in _MESSAGES:
                added.label, added.type, added.type_name = kinds.LABEL_REPEATED, kinds.TYPE_MESSAGE, f".ragtrace.{kind}"
            else:
                added.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ragtrace.WriteRequest"))


def otlp_protocol(signal: str) -> str:
    """The protocol that the environment names for `LOGS` or `METRICS`: http/protobuf or grpc. Raises:
    ConfigurationError."""
    names = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((value for name in names if (value := os.environ.get(name, "").strip())), "http/protobuf")
    if protocol not in ("http/protobuf", "grpc"):
        raise ConfigurationError.of(names[1], protocol, "http/protobuf or grpc")
    return protocol


class OtlpTarget:
    """A receiver of OTLP, by opentelemetry-exporter-otlp, whose environment variables (headers, certificates,
    compression, timeout) hold here.

    Args:
        url: of the receiver; over HTTP a URL without a path gets /v1/metrics.

    Raises: ConfigurationError for an address that cannot be used, MissingExtraError.
    """

    def __init__(self, url: str) -> None:
        parts = http_address("otlp", url, _ADDRESS)
        self._protocol = otlp_protocol("METRICS")
        if self._protocol == "http/protobuf" and parts.path in ("", "/"):
            parts = parts._replace(path=_PATH)
        if self._protocol == "grpc" and "@" in parts.netloc:  # the exporter sends them nowhere, and logs them
            raise ConfigurationError.of(
                "otlp", url, "a URL without user and password over gRPC; OTEL_EXPORTER_OTLP_HEADERS can hold them"
            )
        self.shown = shown_address(parts)
        self._asked: float | None = None
        try:
            self._exporter = self._open(parts.geturl())
            from opentelemetry.sdk.resources import Resource
        except ImportError:
            raise MissingExtraError("opentelemetry-exporter-otlp", "otel") from None
        self._resource = Resource.create({"service.name": "ragtrace"})

    def _open(self, url: str) -> MetricExporter:
        if self._protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter

            return GrpcExporter(endpoint=url)
        import requests
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        session = requests.Session()
        session.hooks["response"].append(self._note)
        return OTLPMetricExporter(endpoint=url, session=session)

    def _note(self, response: Any, *_: Any, **__: Any) -> None:
        """The exporter gives up where it is asked to wait for longer than its timeout; the pusher waits."""
        self._asked = retry_after(response.headers.get("Retry-After"))

    def send(self, metrics: Sequence[Metric], at: float) -> None:
        """Send the families, in as many requests as their size needs. Raises: PushFailed."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        for part in _parts(_converted(metrics, int(at * 1e9))):
            self._asked = None
            if self._exporter.export(self._data(part)) is not MetricExportResult.SUCCESS:
                raise PushFailed("the receiver did not take the metrics; the OTLP exporter's log says why", self._asked)

    def _data(self, metrics: Sequence[OtlpMetric]) -> Any:
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        scope = ScopeMetrics(InstrumentationScope("ragtrace"), metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def close(self) -> None:
        """End, and cut short what waits to be sent again."""
        self._exporter.shutdown()


def _converted(metrics: Iterable[Metric], at: int) -> Iterator[tuple[Instrument, list[Any]]]:
    """Each metric of the registry with its points."""
    for metric in metrics:
        instrument = _BY_NAME[metric.name]
        build = _histograms if instrument.kind == "histogram" else _numbers
        yield instrument, list(build(metric.samples, at))


def _parts(converted: Iterable[tuple[Instrument, list[Any]]]) -> Iterator[list[OtlpMetric]]:
    """The metrics in parts of at most so many points."""
    part: list[OtlpMetric] = []
    room = _POINTS
    for instrument, points in converted:
        while points:
            taken, points = points[:room], points[room:]
            part.append(_otlp_metric(instrument, taken))
            room -= len(taken)
            if not room:
                yield part
                part, room = [], _POINTS
    if part:
        yield part


def _otlp_metric(instrument: Instrument, points: Sequence[Any]) -> OtlpMetric:
    from opentelemetry.sdk.metrics import export as otlp

    cumulative = otlp.AggregationTemporality.CUMULATIVE
    data: otlp.DataT
    if instrument.kind == "histogram":
        data = otlp.Histogram(points, cumulative)
    elif instrument.kind == "counter":
        data = otlp.Sum(points, cumulative, is_monotonic=True)
    else:
        data = otlp.Gauge(points)
    return otlp.Metric(instrument.name, instrument.brief, instrument.unit, data)


def _numbers(samples: Iterable[Sample], at: int) -> Iterator[Any]:
    from opentelemetry.sdk.metrics.export import NumberDataPoint

    for sample in samples:
        exemplars = _otlp_exemplars([sample.exemplar])
        yield NumberDataPoint(dict(sample.labels), 0, at, float(sample.value), exemplars)


def _histograms(samples: Iterable[Sample], at: int) -> Iterator[Any]:
    """The points of a histogram: its buckets, each without those below it."""
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    grouped: dict[tuple[tuple[str, str], ...], list[Sample]] = defaultdict(list)
    for sample in samples:
        grouped[tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))].append(sample)
    for labels, group in grouped.items():
        buckets = [sample for sample in group if sample.name.endswith("_bucket")]
        counts = [0, *(round(sample.value) for sample in buckets)]
        yield HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=0,
            time_unix_nano=at,
            count=counts[-1],
            sum=next(sample.value for sample in group if sample.name.endswith("_sum")),
            bucket_counts=[above - below for below, above in pairwise(counts)],
            explicit_bounds=[float(sample.labels["le"]) for sample in buckets[:-1]],
            min=None,  # type: ignore[arg-type]  # unknown, and optional in the protocol
            max=None,  # type: ignore[arg-type]
            exemplars=_otlp_exemplars(sample.exemplar for sample in buckets),
        )


def _otlp_exemplars(given: Iterable[Exemplar | None]) -> list[Any]:
    """Exemplars with their trace; they have no span (0 is none), since a score is one of a whole request."""
    from opentelemetry.sdk.metrics import Exemplar as OtlpExemplar

    found = []
    for exemplar in given:
        trace_id = _trace_id(exemplar.labels.get("trace_id", "")) if exemplar is not None else None
        if exemplar is not None and trace_id is not None:
            at = int(float(exemplar.timestamp or 0) * 1e9)
            found.append(OtlpExemplar({}, float(exemplar.value), at, span_id=0, trace_id=trace_id))
    return found


def _trace_id(written: str) -> int | None:
    try:
        number = int(written, 16)
    except ValueError:
        return None
    return number if 0 < number < 1 << 128 else None


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
