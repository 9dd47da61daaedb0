"""What `bench/overhead.py` measures: the work, OpenTelemetry alone, and ragtrace; other tools are in `bench/peers/`."""

from bench.subjects.opentelemetry import Exported, bare, bare_with_json, nothing
from bench.subjects.ours import bytes_per_open_request, handed_over, record_only, unsampled, with_spans
from bench.subjects.work import Hits, Subject, Work

__all__ = [
    "Exported",
    "Hits",
    "Subject",
    "Work",
    "bare",
    "bare_with_json",
    "bytes_per_open_request",
    "handed_over",
    "nothing",
    "record_only",
    "unsampled",
    "with_spans",
]
