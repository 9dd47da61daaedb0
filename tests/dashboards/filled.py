"""A store in which every metric has something to show on the dashboards, and more of it with each round."""

from __future__ import annotations

import time
from typing import Final

from ragtrace.registry import Instrument
from ragtrace.registry.instruments import DROPPED, INSTRUMENTS, INTERNAL_ERRORS, STAGES
from ragtrace.store import (
    CorrectedRate,
    Delta,
    Drawing,
    Exemplar,
    FaultFigures,
    Finished,
    ServiceCalibration,
    Store,
    histogram_deltas,
)
from ragtrace.types import Analysis, Fault, RequestRecord, SourceReport
from tests.dashboards.history import SEGMENTS, SERVICE, labelings

__all__ = ["TRACE", "add_round"]

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"

_FROM_FAULTS: Final = (INTERNAL_ERRORS.id, DROPPED.id)
_VERSIONS: Final = {"index": "v1", "reranker": "v1", "model": "v1", "citation": "v1"}


def add_round(store: Store, number: int) -> None:
    """Commit a request in each segment, a report of a source, faults, and one more of everything that is counted."""
    now = time.time_ns()
    records = [
        RequestRecord(
            request_id=f"{segment}-{number}",
            service=SERVICE,
            segment=segment,
            status="error" if segment == SEGMENTS[0] else "ok",
            head_sampled=True,
            started_at=now,
            ended_at=now,
            versions=_VERSIONS,
        )
        for segment in SEGMENTS
    ]
    if not number:
        store.write([SourceReport(service="gone", source="wiki", reported_at=now, documents=1)])
        store.forget_totals("gone")
        store.draw(Drawing("drawing", SERVICE, now - 10**9, now, {}, "judge", now, 0.5), ())
        store.save_rates("drawing", [CorrectedRate("retrieval", 0.06, 0.04, 0.09, 0.05, 120)])
        faults = tuple(FaultFigures(stage.name, 9, 5, 1, 2) for stage in STAGES)  # type: ignore[arg-type]
        store.propose_calibration(
            ServiceCalibration(calibration_id="c", service=SERVICE, judge="j", blamed=0.01, faults=faults)
        )
        store.accept_calibration("c", now)
    store.write(
        [
            *records,
            Fault(service=SERVICE, where="coerce.retrieve", kind="int", count=number + 1),
            Fault(service=SERVICE, where="request", kind="dropped", count=number + 1),
            SourceReport(
                service=SERVICE, source="wordings", reported_at=now, documents=150, newest_at=now, delay_seconds=60.0
            ),
        ]
    )
    deltas = tuple(delta for instrument in INSTRUMENTS.values() for delta in _observed(instrument))
    finished = [
        Finished(
            job, Analysis(request_id=job.request_id, analyzer_version=job.analyzer_version), () if place else deltas
        )
        for place, job in enumerate(store.claim("test", limit=len(records)))
    ]
    assert store.finish(finished) == len(records)


def _observed(instrument: Instrument) -> list[Delta]:
    exemplar = Exemplar(TRACE, 1.0, time.time())
    found: list[Delta] = []
    for labels in labelings(instrument):
        given = tuple(labels.items())
        if instrument.kind == "histogram":
            value = instrument.buckets[len(instrument.buckets) // 2]
            found += histogram_deltas(instrument.name, given, value, instrument.buckets, exemplar)
        elif instrument.kind == "counter" and instrument.id not in _FROM_FAULTS:
            found.append(Delta(instrument.name, given, 1.0, exemplar))
    return found
