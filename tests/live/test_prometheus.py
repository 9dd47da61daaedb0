"""The exporter against Prometheus's own programs: promtool's lint, and a real server that scrapes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrace.export import exposition, serve
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import (
    CorrectedRate,
    Delta,
    Drawing,
    Exemplar,
    FaultFigures,
    Finished,
    Labels,
    ServiceCalibration,
    Store,
    histogram_deltas,
)
from ragtrace.types import Analysis, Fault, RequestRecord, SourceReport
from tests.live.prometheus import Prometheus, await_, program

FROM_FAULTS = ("internal_errors", "dropped")
TRACE = "0af7651916cd43dd8448eb211c80319c"
SEGMENT = 'how "much"\n\\ per year'

EXPORTED = tuple(
    each for each in INSTRUMENTS.values() if not each.id.startswith("receiver_")
)  # it shows its own itself


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store in which every metric of the exporter has a series, with one awkward label value."""
    url = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    with Store.open(url) as store:
        store.write(
            [
                RequestRecord(
                    request_id="r1", service="shop", segment=SEGMENT, started_at=10**18, versions={"index": "v1"}
                ),
                Fault(service="shop", where="coerce.retrieve", kind="int"),
                SourceReport(
                    service="shop", source="wiki", reported_at=10**18, documents=7, newest_at=10**18, delay_seconds=60.0
                ),
            ]
        )
        (job,) = store.claim("test")
        deltas = [delta for instrument in EXPORTED for delta in _observed(instrument)]
        analysis = Analysis(request_id="r1", analyzer_version=job.analyzer_version)
        assert store.finish([Finished(job, analysis, tuple(deltas))]) == 1
        store.write([SourceReport(service="gone", source="wiki", reported_at=10**18, documents=1)])
        assert store.forget_totals("gone")
        now = time.time_ns()
        store.draw(Drawing("drawing", "shop", now - 10**9, now, {}, "judge", now, 0.5), ())
        store.save_rates("drawing", [CorrectedRate("retrieval", 0.06, 0.04, 0.09, 0.05, 120)])
        faults = (FaultFigures("ranking", 9, 5, 1, 2),)
        store.propose_calibration(ServiceCalibration(calibration_id="c", service="shop", judge="j", faults=faults))
        store.accept_calibration("c", now)
    return url


def _observed(instrument: Instrument) -> tuple[Delta, ...]:
    """One observation of a metric that is a total: every label set, half of the largest bound, an exemplar."""
    known = {"service": "shop", "segment": SEGMENT, "stratum": "random", "reference": "none", "scope": "all"}
    labels: Labels = tuple((name, known.get(name, f"a {name}")) for name in instrument.attributes)
    if instrument.kind == "histogram":
        value = instrument.buckets[-1] / 2
        exemplar = Exemplar(TRACE, value, time.time())
        return histogram_deltas(instrument.name, labels, value, instrument.buckets, exemplar)
    if instrument.kind == "counter" and instrument.id not in FROM_FAULTS:
        return (Delta(instrument.name, labels, 1.0, Exemplar(TRACE, 1.0, time.time())),)
    return ()


def test_promtool_finds_nothing_to_say(url: str) -> None:
    """`promtool check metrics` passes, without a warning, on an exposition that has every metric of the exporter."""
    with Store.open(url) as store:
        text = exposition(store)
    for instrument in EXPORTED:
        assert f"# TYPE {instrument.name} {instrument.kind}\n".encode() in text
    checked = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_promtool_refuses_a_bad_exposition() -> None:
    """The check can fail: a counter without _total and without help is reported."""
    bad = b"# TYPE ragtrace_requests counter\nragtrace_requests 1\n"
    checked = subprocess.run([program("promtool"), "check", "metrics"], input=bad, capture_output=True, check=False)
    assert checked.returncode != 0
    assert b"_total" in checked.stdout + checked.stderr


@pytest.fixture
def prometheus(url: str, tmp_path: Path) -> Iterator[Prometheus]:
    """A real Prometheus that scrapes a running exporter every second."""
    with serve(url) as exporter:
        running = Prometheus(tmp_path / "prometheus", [exporter.port])
        running.start()
        try:
            yield running
        finally:
            running.stop()


def test_prometheus_stores_series_and_exemplars(prometheus: Prometheus, url: str) -> None:
    """A real Prometheus holds every metric of the exporter, label values unharmed, exemplars with their trace ids, and
    sees what is committed later."""
    await_(lambda: prometheus.query('up{job="ragtrace"} == 1'))
    stored = set(prometheus.api("label/__name__/values"))
    for instrument in EXPORTED:
        parts = ("_bucket", "_sum", "_count") if instrument.kind == "histogram" else ("",)
        assert {instrument.name + part for part in parts} <= stored
    assert SEGMENT in prometheus.api("label/segment/values")

    span = {"start": time.time() - 3600, "end": time.time() + 3600}
    for name in ("ragtrace_query_coverage_ratio_bucket", "ragtrace_sli_requests_total"):
        exemplars = prometheus.api("query_exemplars", query=name, **span)
        traces = {one["labels"]["trace_id"] for series in exemplars for one in series["exemplars"]}
        assert traces == {TRACE}

    requests = 'sum(ragtrace_requests_total{service="shop",status="ok"})'
    before = prometheus.value(requests)
    assert before is not None
    with Store.open(url) as store:
        store.write([RequestRecord(request_id="r2", service="shop", segment=SEGMENT)])
    await_(lambda: prometheus.value(requests) == before + 1)
