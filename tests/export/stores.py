"""Stores with something to export."""

from __future__ import annotations

from ragtrace.registry.instruments import QUERY_COVERAGE, SLI_REQUESTS
from ragtrace.store import Delta, Exemplar, Finished, Labels, Store, histogram_deltas
from ragtrace.types import Analysis, RequestRecord

TRACE = "0af7651916cd43dd8448eb211c80319c"


def add_request(store: Store, request_id: str, coverage: float = 0.87, segment: str = "price") -> None:
    """Store a request of the service `shop` and an analysis with a histogram and a counter, both with an exemplar."""
    store.write([RequestRecord(request_id=request_id, service="shop", segment=segment, started_at=10**18)])
    (job,) = store.claim("test")
    common: Labels = (("segment", segment), ("service", "shop"), ("stratum", "random"))
    shown = Exemplar(TRACE, coverage, 1700000000.5)
    sli: Labels = (*common, ("stage", "retrieval"), ("scope", "all"), ("reference", "proxy"), ("judge", "j1"))
    deltas = (
        *histogram_deltas(QUERY_COVERAGE.name, common, coverage, QUERY_COVERAGE.buckets, shown),
        Delta(SLI_REQUESTS.name, sli, 1.0, shown),
    )
    analysis = Analysis(request_id=request_id, analyzer_version=job.analyzer_version)
    assert store.finish([Finished(job, analysis, deltas)]) == 1
