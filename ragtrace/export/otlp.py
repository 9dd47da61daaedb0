"""Pushes metrics over OTLP: cumulative sums, histograms with explicit buckets, gauges, under the registry's names.

The start of a series is left unknown, since totals outlive every process: a receiver that saw a start would take a new
exporter for a reset.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragtrace.errors import ConfigurationError, MissingExtraError
from ragtrace.export.address import parsed, retry_after, shown
from ragtrace.export.push import PushFailed
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import INSTRUMENTS

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
    from opentelemetry.sdk.metrics.export import MetricExporter

__all__ = ["OtlpTarget", "otlp_protocol"]

_POINTS: Final = 5000  # of one request: below the 4 MiB that a gRPC server takes
_PATH: Final = "/v1/metrics"
_BY_NAME: Final = {one.name.removesuffix("_total"): one for one in INSTRUMENTS.values()}


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
        parts = parsed("otlp", url)
        self._protocol = otlp_protocol("METRICS")
        if self._protocol == "http/protobuf" and parts.path in ("", "/"):
            parts = parts._replace(path=_PATH)
        self.shown = shown(parts)
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
            part.append(_metric(instrument, taken))
            room -= len(taken)
            if not room:
                yield part
                part, room = [], _POINTS
    if part:
        yield part


def _metric(instrument: Instrument, points: Sequence[Any]) -> OtlpMetric:
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
        exemplars = _exemplars([sample.exemplar])
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
            exemplars=_exemplars(sample.exemplar for sample in buckets),
        )


def _exemplars(given: Iterable[Exemplar | None]) -> list[Any]:
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
