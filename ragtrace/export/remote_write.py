"""Pushes metrics by Prometheus's remote write 1.0: protobuf messages, compressed by snappy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragtrace.errors import MissingExtraError
from ragtrace.export.address import parsed, retry_after, shown
from ragtrace.export.push import PushFailed

__all__ = ["HEADERS_VARIABLE", "RemoteWriteTarget"]

HEADERS_VARIABLE: Final = "RAGTRACE_REMOTE_WRITE_HEADERS"

_EXTRA: Final = "remote-write"
_SERIES: Final = 2000  # of one request, as Prometheus itself sends at most
_TIMEOUT_SECONDS: Final = 10.0
_SHOWN: Final = 300  # characters of a receiver's message
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

        parts = parsed("remote write", url)
        self.shown = shown(parts)
        try:
            import urllib3
            from cramjam import snappy
        except ImportError as error:
            raise MissingExtraError(str(error.name), _EXTRA) from None
        _write_request()
        self._compress = snappy.compress_raw
        self._errors = urllib3.exceptions.HTTPError
        given = os.environ.get(HEADERS_VARIABLE, "") if headers is None else headers
        self._url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        basic = urllib3.make_headers(basic_auth=login) if parts.username else {}
        self._pool = urllib3.PoolManager(
            headers={**_HEADERS, **basic, **parse_env_headers(given, liberal=True)},
            timeout=urllib3.Timeout(total=_TIMEOUT_SECONDS),
            retries=False,  # the next push has newer values
        )

    def send(self, metrics: Sequence[Metric], at: float) -> None:
        """Send the families, in as many requests as their size needs. Raises: PushFailed."""
        waiting = _series(metrics, round(at * _MILLISECONDS))
        while series := list(islice(waiting, _SERIES)):
            request = _write_request()(timeseries=series)
            self._post(bytes(self._compress(request.SerializeToString())))

    def _post(self, body: bytes) -> None:
        try:
            answer = self._pool.request("POST", self._url, body=body)
        except self._errors as error:
            raise PushFailed(f"cannot be reached: {error}") from error
        if answer.status >= 300:
            said = answer.data[:_SHOWN].decode(errors="replace").strip()
            raise PushFailed(f"answered {answer.status}: {said}", retry_after(answer.headers.get("Retry-After")))

    def close(self) -> None:
        """Close the connections that wait."""
        self._pool.clear()


def _series(metrics: Iterable[Metric], at: int) -> Iterator[dict[str, Any]]:
    for metric in metrics:
        for sample in metric.samples:
            yield {
                "labels": _labels({**sample.labels, "__name__": sample.name, "job": _JOB}),
                "samples": [{"value": float(sample.value), "timestamp": at}],
                "exemplars": _exemplars(sample),
            }


def _labels(labels: dict[str, str]) -> list[dict[str, str]]:
    """Sorted, and without empty ones, as the protocol wants them."""
    return [{"name": name, "value": value} for name, value in sorted(labels.items()) if value]


def _exemplars(sample: Sample) -> list[dict[str, Any]]:
    exemplar: Exemplar | None = sample.exemplar
    if exemplar is None:
        return []
    at = round(float(exemplar.timestamp or 0) * _MILLISECONDS)
    return [{"labels": _labels(dict(exemplar.labels)), "value": float(exemplar.value), "timestamp": at}]


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
