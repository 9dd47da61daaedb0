"""Sends prepared requests by OpenTelemetry's own exporter, from a process of its own.

The exporter is whole, with its session, time limit and retries; only its encoder hands out what it made before.
Usage, by `sender`: python -m bench.sending.exporter FILE ENDPOINT EXPORTERS REQUESTS; a line on its input starts it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench.sending.sender import Sent
from bench.sending.traces import HEAD

__all__ = ["send"]

_PATIENCE: Final = 120.0  # seconds of one request


class _Prepared:
    """A batch for the exporter: its length in spans, and its message."""

    def __init__(self, spans: int, body: bytes) -> None:
        self._spans, self._body = spans, body

    def __len__(self) -> int:
        return self._spans

    def SerializePartialToString(self) -> bytes:
        """The message, made ahead."""
        return self._body

    SerializeToString = SerializePartialToString


def _read(file: Path, requests: int) -> Iterator[_Prepared]:
    with file.open("rb") as source:
        for _ in range(requests):
            spans, size = HEAD.unpack(source.read(HEAD.size))
            yield _Prepared(spans, source.read(size))


def send(batches: Iterable[_Prepared], endpoint: str, exporters: int) -> Sent:
    """Send batches by so many exporters at once, each of which waits for its answers."""
    otlp: Any = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    otlp.encode_spans = lambda spans: spans
    pending, failed = iter(batches), list[int]()
    lock = threading.Lock()

    def run() -> None:
        exporter = otlp.OTLPSpanExporter(endpoint=endpoint, timeout=_PATIENCE)
        while True:
            with lock:
                batch = next(pending, None)
            if batch is None:
                break
            if exporter.export(batch) is not otlp.SpanExportResult.SUCCESS:
                failed.append(len(batch))
        exporter.shutdown()

    threads = [threading.Thread(target=run) for _ in range(exporters)]
    cpu, began = time.process_time(), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Sent(began, time.monotonic(), sum(failed), time.process_time() - cpu)


def main() -> None:
    """Read all of the file, say so, wait, send, and tell what it took."""
    file, endpoint, exporters, requests = sys.argv[1:]
    batches = list(_read(Path(file), int(requests)))
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(asdict(send(batches, endpoint, int(exporters)))), flush=True)


if __name__ == "__main__":
    main()
