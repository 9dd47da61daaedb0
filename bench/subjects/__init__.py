"""What `bench/overhead.py` measures: the work, OpenTelemetry alone, and ragtrace; other tools are in `bench/peers/`."""

from bench.subjects.opentelemetry import Exported, bare, bare_unrecorded, bare_with_json, nothing
from bench.subjects.ours import Build, bytes_per_open_request, record_only, unsampled, with_spans
from bench.subjects.work import Hits, Subject, Work

__all__ = [
    "Build",
    "Exported",
    "Hits",
    "Subject",
    "Work",
    "bare",
    "bare_unrecorded",
    "bare_with_json",
    "bytes_per_open_request",
    "nothing",
    "record_only",
    "unsampled",
    "with_spans",
]
