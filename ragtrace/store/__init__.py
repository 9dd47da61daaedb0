"""The store: records, texts, results, totals and the queue, in SQLite or PostgreSQL. The only place that speaks SQL."""

from __future__ import annotations

from ragtrace.store.compared import GateRun, Measured, Replayed, Traits, Wanted
from ragtrace.store.rows import (
    ATTRIBUTION,
    COVERAGE,
    Backlog,
    ChunkSeen,
    Delta,
    Drift,
    DueTrace,
    Exemplar,
    Finished,
    FollowUp,
    Job,
    JobRow,
    JobState,
    Labels,
    Release,
    RequestRow,
    Sampled,
    SchemaState,
    SourceState,
    SpanPart,
    Total,
)
from ragtrace.store.schema import check, migrate
from ragtrace.store.store import Store
from ragtrace.store.totals import histogram_deltas

__all__ = [
    "ATTRIBUTION",
    "COVERAGE",
    "Backlog",
    "ChunkSeen",
    "Delta",
    "Drift",
    "DueTrace",
    "Exemplar",
    "Finished",
    "FollowUp",
    "GateRun",
    "Job",
    "JobRow",
    "JobState",
    "Labels",
    "Measured",
    "Release",
    "Replayed",
    "RequestRow",
    "Sampled",
    "SchemaState",
    "SourceState",
    "SpanPart",
    "Store",
    "Total",
    "Traits",
    "Wanted",
    "check",
    "histogram_deltas",
    "migrate",
]
