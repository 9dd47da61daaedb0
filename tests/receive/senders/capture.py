"""A receiver on loopback that keeps what a span exporter really sends, and writes it down as OTLP JSON.

Nothing of ragtrace is imported: this runs in the environment of the package whose spans are recorded.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

DOCUMENTS = [
    ("doc-tariff-2024", "The tariff of 2024 for exporters in Ireland is 4.5 percent.", 0.92),
    ("doc-tariff-2023", "The tariff of 2023 for exporters in Ireland was 3.9 percent.", 0.81),
    ("doc-ports", "Dublin and Cork are the largest ports of Ireland.", 0.4),
]
QUESTION = "What is the 2024 tariff for exporters in Ireland?"
ANSWER = "The tariff is 4.5 percent [1]."


class Kept:
    """The bodies of all requests for traces."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path.endswith("/traces"):
                    kept.bodies.append(body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def as_json(self) -> dict[str, Any]:
        """All resource spans as OTLP JSON: ids in hex, as its specification asks for."""
        found: list[Any] = []
        for body in self.bodies:
            message = ExportTraceServiceRequest.FromString(body)
            found += MessageToDict(message).get("resourceSpans", [])
        for span in (s for r in found for scope in r.get("scopeSpans", []) for s in scope.get("spans", [])):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in span:
                    span[name] = base64.b64decode(span[name]).hex()
        return {"resourceSpans": found}


def record(run: Callable[[str], None], packages: list[str]) -> None:
    """Run an application against a receiver, and write what it sent to the file named on the command line."""
    kept = Kept()
    run(kept.url)
    found = {"packages": {name: version(name) for name in packages}, **kept.as_json()}
    spans = sum(len(scope["spans"]) for each in found["resourceSpans"] for scope in each["scopeSpans"])
    if not spans:
        sys.exit(f"{' '.join(packages)}: no span arrived")
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{sys.argv[1]}: {spans} spans")
