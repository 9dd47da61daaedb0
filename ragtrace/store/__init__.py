"""The store: records, texts, results, totals and the queue, in SQLite or PostgreSQL. The only place that speaks SQL."""

from __future__ import annotations

from ragtrace.store.compared import GateRun, Judge, Measured, Replayed, Traits, Wanted
from ragtrace.store.erasure import Erased
from ragtrace.store.garbage import Swept
from ragtrace.store.inspection import Inspected
from ragtrace.store.retention import Kept, Pruned
from ragtrace.store.rows import (
    ATTRIBUTION,
    COVERAGE,
    Backlog,
    ChunkSeen,
    Citing,
    Deed,
    Delta,
    Drift,
    Exemplar,
    Finished,
    FollowUp,
    Job,
    JobRow,
    JobState,
    Judgment,
    Labels,
    PageJudgment,
    PageJudgmentCount,
    Release,
    RequestRow,
    Sampled,
    SchemaState,
    ServiceTraffic,
    SourceState,
    Total,
)
from ragtrace.store.schema import check, migrate
from ragtrace.store.space import Space
from ragtrace.store.span_rows import Assembled, DueTrace, SpanPart, StoredPart, TraceJudgement
from ragtrace.store.store import Store
from ragtrace.store.subjects import Subject
from ragtrace.store.totals import histogram_deltas

__all__ = [
    "ATTRIBUTION",
    "COVERAGE",
    "Assembled",
    "Backlog",
    "ChunkSeen",
    "Citing",
    "Deed",
    "Delta",
    "Drift",
    "DueTrace",
    "Erased",
    "Exemplar",
    "Finished",
    "FollowUp",
    "GateRun",
    "Inspected",
    "Job",
    "JobRow",
    "JobState",
    "Judge",
    "Judgment",
    "Kept",
    "Labels",
    "Measured",
    "PageJudgment",
    "PageJudgmentCount",
    "Pruned",
    "Release",
    "Replayed",
    "RequestRow",
    "Sampled",
    "SchemaState",
    "ServiceTraffic",
    "SourceState",
    "Space",
    "SpanPart",
    "Store",
    "StoredPart",
    "Subject",
    "Swept",
    "Total",
    "TraceJudgement",
    "Traits",
    "Wanted",
    "check",
    "histogram_deltas",
    "migrate",
]
