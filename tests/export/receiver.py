"""A small server that takes logs and metrics over OTLP/HTTP and decodes the real protobuf."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


class Receiver(ThreadingHTTPServer):
    """Takes OTLP over HTTP. `refusals` are the answers (status, Retry-After) to the next requests for metrics, `posted`
    what came, body and headers, whatever was answered."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[ExportLogsServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.refusals: list[tuple[int, str | None]] = []
        self.posted: list[tuple[bytes, dict[str, str]]] = []

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Decodes what is posted to /v1/logs."""

    server: Receiver

    def do_POST(self) -> None:
        """Take one export."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        status, wait = 200, None
        if self.path == "/v1/logs":
            self.server.requests.append(ExportLogsServiceRequest.FromString(body))
        elif self.path in ("/v1/metrics", "/api/v1/write"):
            self.server.posted.append((body, dict(self.headers)))
            status, wait = self.server.refusals.pop(0) if self.server.refusals else (200, None)
            if self.path == "/v1/metrics" and status == 200:
                self.server.metrics.append(ExportMetricsServiceRequest.FromString(body))
        else:
            status = 404
        self.send_response(status)
        if wait is not None:
            self.send_header("Retry-After", wait)
        self.end_headers()
        if status != 200:
            self.wfile.write(b"not now")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a free loopback port, until the block ends."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
