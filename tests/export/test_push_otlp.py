"""Metrics over OTLP, as a receiver decodes them."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric as OtlpMetric
from prometheus_client.metrics_core import Metric

from ragtrace.errors import ConfigurationError, MissingExtraError
from ragtrace.export import push
from ragtrace.export.exporter import PushFailed
from ragtrace.export.exposition import collected
from ragtrace.export.push import OtlpTarget
from ragtrace.registry.instruments import INSTRUMENTS, QUERY_COVERAGE
from ragtrace.store import Store
from tests.export.receiver import Receiver, receiving
from tests.export.stores import TRACE, add_request

AT = 1_700_000_100.25


@pytest.fixture
def metrics(tmp_path: Path) -> tuple[Metric, ...]:
    """What a store with two analyzed requests exposes."""
    with Store.open(f"sqlite:///{tmp_path / 'ragtrace.db'}") as store:
        add_request(store, "r1", 0.87)
        add_request(store, "r2", 0.4)
        return collected(store)


def _received(receiver: Receiver) -> dict[str, list[OtlpMetric]]:
    found: dict[str, list[OtlpMetric]] = {}
    for request in receiver.metrics:
        for metric in request.resource_metrics[0].scope_metrics[0].metrics:
            found.setdefault(metric.name, []).append(metric)
    return found


def test_everything_arrives_under_its_name(metrics: tuple[Metric, ...]) -> None:
    """Each family is there once, with the registry's unit and brief, as the kind that it is."""
    with receiving() as receiver:
        target = OtlpTarget(receiver.url)
        target.send(metrics, AT)
        target.close()
        resource = receiver.metrics[0].resource_metrics[0].resource
    received = {name: one for name, (one,) in _received(receiver).items()}
    assert {name.removesuffix("_total") for name in received} == {metric.name for metric in metrics}
    kinds = {"counter": "sum", "histogram": "histogram", "gauge": "gauge"}
    for instrument in INSTRUMENTS.values():
        if instrument.name in received:
            one = received[instrument.name]
            assert (one.unit, one.description) == (instrument.unit, instrument.brief)
            assert one.WhichOneof("data") == kinds[instrument.kind]
    assert {one.key: one.value.string_value for one in resource.attributes}["service.name"] == "ragtrace"


def test_histograms_have_explicit_buckets(metrics: tuple[Metric, ...]) -> None:
    """Each bucket alone, the registry's bounds, count, sum, cumulative, no start, and the exemplar's trace."""
    with receiving() as receiver:
        target = OtlpTarget(f"{receiver.url}/")
        target.send(metrics, AT)
        target.close()
    [metric] = _received(receiver)[QUERY_COVERAGE.name]
    assert metric.histogram.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    [point] = metric.histogram.data_points
    assert list(point.explicit_bounds) == list(QUERY_COVERAGE.buckets)
    expected = [0] * (len(QUERY_COVERAGE.buckets) + 1)
    expected[QUERY_COVERAGE.buckets.index(0.9)] = expected[QUERY_COVERAGE.buckets.index(0.5)] = 1
    assert list(point.bucket_counts) == expected
    assert (point.count, math.isclose(point.sum, 1.27), point.time_unix_nano) == (2, True, int(AT * 1e9))
    assert point.start_time_unix_nano == 0
    assert not point.HasField("min")
    labels = {one.key: one.value.string_value for one in point.attributes}
    assert labels == {"service": "shop", "segment": "price", "stratum": "random"}
    assert {one.trace_id.hex() for one in point.exemplars} == {TRACE}
    assert sorted(one.as_double for one in point.exemplars) == [0.4, 0.87]


def test_counters_are_cumulative_and_monotone(metrics: tuple[Metric, ...]) -> None:
    """So that a receiver needs no state of ours, and a restart is no reset."""
    with receiving() as receiver:
        target = OtlpTarget(f"{receiver.url}/v1/metrics")
        target.send(metrics, AT)
        target.close()
    [metric] = _received(receiver)["ragtrace_requests_total"]
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    [point] = metric.sum.data_points
    assert (point.as_double, point.start_time_unix_nano) == (2.0, 0)
    [gauge] = _received(receiver)["ragtrace_build_info"]
    assert [point.as_double for point in gauge.gauge.data_points] == [1.0]


def test_large_pushes_are_split(metrics: tuple[Metric, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """No point is lost or sent twice, and no request is larger than allowed."""
    monkeypatch.setattr(push, "_POINTS", 7)
    with receiving() as receiver:
        target = OtlpTarget(receiver.url)
        target.send(metrics, AT)
        target.close()
    sizes = [
        sum(len(getattr(one, one.WhichOneof("data")).data_points) for one in part.scope_metrics[0].metrics)
        for request in receiver.metrics
        for part in request.resource_metrics
    ]
    assert set(sizes[:-1]) == {7}
    series = {
        (metric.name, frozenset(sample.labels.items()) - {("le", sample.labels.get("le"))})
        for metric in metrics
        for sample in metric.samples
    }
    assert sum(sizes) == len(series)


def test_a_pause_that_the_exporter_would_not_wait_is_passed_on(
    metrics: tuple[Metric, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """429 with a long Retry-After: one request, and the pusher is told how long to wait."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    with receiving() as receiver:
        receiver.refusals = [(429, "90")]
        target = OtlpTarget(receiver.url)
        with pytest.raises(PushFailed) as failed:
            target.send(metrics, AT)
        target.close()
    assert failed.value.retry_after == 90.0
    assert len(receiver.posted) == 1


def test_headers_come_from_the_environment(metrics: tuple[Metric, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is given as for every OTLP exporter."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20token")
    with receiving() as receiver:
        target = OtlpTarget(receiver.url)
        target.send(metrics, AT)
        target.close()
    assert {name.lower(): value for name, value in receiver.posted[0][1].items()}["authorization"] == "Bearer token"


def test_mistakes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is none, a protocol that is none, and the missing extra."""
    with pytest.raises(ConfigurationError, match="otlp"):
        OtlpTarget("localhost:4318")
    with monkeypatch.context() as patched:
        patched.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        with pytest.raises(ConfigurationError, match="http/protobuf or grpc"):
            OtlpTarget("http://localhost:4318")
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(MissingExtraError, match="ragtrace\\[otel\\]"):
        OtlpTarget("http://localhost:4318")


def test_grpc_is_a_protocol_too(metrics: tuple[Metric, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names it, as for every OTLP exporter; the same metrics arrive."""
    grpc = pytest.importorskip("grpc", reason="pip install ragtrace[otel]")
    from opentelemetry.proto.collector.metrics.v1 import (
        metrics_service_pb2 as messages,
        metrics_service_pb2_grpc as service,
    )

    class Service(service.MetricsServiceServicer):
        """Keeps the names that arrive."""

        names: ClassVar[set[str]] = set()

        def Export(self, request: Any, context: Any) -> Any:
            """Take one export."""
            scope = request.resource_metrics[0].scope_metrics[0]
            self.names.update(metric.name.removesuffix("_total") for metric in scope.metrics)
            return messages.ExportMetricsServiceResponse()

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc")
    server = grpc.server(ThreadPoolExecutor(1))
    service.add_MetricsServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    target = OtlpTarget(f"http://127.0.0.1:{port}")
    target.send(metrics, AT)
    target.close()
    server.stop(None).wait()
    assert Service.names == {metric.name for metric in metrics}
