"""The exporter against Prometheus's own programs: promtool's lint, and a real server that scrapes."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrace.export import exposition, serve
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import Delta, Exemplar, Finished, Labels, Store, histogram_deltas
from ragtrace.types import Analysis, Fault, RequestRecord

TRACE = "0af7651916cd43dd8448eb211c80319c"
SEGMENT = 'how "much"\n\\ per year'
DEADLINE_SECONDS = 120


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing; apt-get install prometheus")
    return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store in which every metric of the registry has a series, with one awkward label value."""
    url = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    with Store.open(url) as store:
        store.write(
            [
                RequestRecord(
                    request_id="r1", service="shop", segment=SEGMENT, started_at=10**18, versions={"index": "v1"}
                ),
                Fault(service="shop", where="coerce.retrieve", kind="int"),
            ]
        )
        (job,) = store.claim("test")
        deltas = [delta for instrument in INSTRUMENTS.values() for delta in _observed(instrument)]
        analysis = Analysis(request_id="r1", analyzer_version=job.analyzer_version)
        assert store.finish([Finished(job, analysis, tuple(deltas))]) == 1
    return url


def _observed(instrument: Instrument) -> tuple[Delta, ...]:
    """One observation of a metric that is a total: every label set, half of the largest bound, an exemplar."""
    known = {"service": "shop", "segment": SEGMENT, "stratum": "random", "reference": "none", "scope": "all"}
    labels: Labels = tuple((name, known.get(name, f"a {name}")) for name in instrument.attributes)
    if instrument.kind == "histogram":
        value = instrument.buckets[-1] / 2
        exemplar = Exemplar(TRACE, value, time.time())
        return histogram_deltas(instrument.name, labels, value, instrument.buckets, exemplar)
    if instrument.kind == "counter" and instrument.id != "internal_errors":
        return (Delta(instrument.name, labels, 1.0, Exemplar(TRACE, 1.0, time.time())),)
    return ()


def test_promtool_finds_nothing_to_say(url: str) -> None:
    """`promtool check metrics` passes, without a warning, on an exposition that has every metric of the registry."""
    with Store.open(url) as store:
        text = exposition(store)
    for instrument in INSTRUMENTS.values():
        assert f"# TYPE {instrument.name} {instrument.kind}\n".encode() in text
    checked = subprocess.run([_program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_promtool_refuses_a_bad_exposition() -> None:
    """The check can fail: a counter without _total and without help is reported."""
    bad = b"# TYPE ragtrace_requests counter\nragtrace_requests 1\n"
    checked = subprocess.run([_program("promtool"), "check", "metrics"], input=bad, capture_output=True, check=False)
    assert checked.returncode != 0
    assert b"_total" in checked.stdout + checked.stderr


@pytest.fixture
def prometheus(url: str, tmp_path: Path) -> Iterator[str]:
    """The address of a real Prometheus that scrapes a running exporter every second."""
    program = _program("prometheus")
    folder = tmp_path / "prometheus"
    folder.mkdir()
    with serve(url) as exporter, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken.close()
        target = {"job_name": "ragtrace", "static_configs": [{"targets": [f"127.0.0.1:{exporter.port}"]}]}
        settings = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [target]}
        (folder / "prometheus.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--enable-feature=exemplar-storage",
        ]
        with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as running:
            try:
                _await(lambda: _reachable(f"http://127.0.0.1:{port}/-/ready"), folder / "log")
                yield f"http://127.0.0.1:{port}"
            finally:
                running.terminate()


def _reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def _await(found: Callable[[], Any], log: Path | None = None) -> Any:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (result := found()):
        said = log.read_text(encoding="utf-8")[-2000:] if log else ""
        assert time.monotonic() < deadline, f"nothing arrived in {DEADLINE_SECONDS} s\n{said}"
        time.sleep(0.1)
    return result


def _api(address: str, path: str, **arguments: Any) -> Any:
    with urllib.request.urlopen(f"{address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}", timeout=30) as answer:
        return json.load(answer)["data"]


def _query(address: str, expression: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _api(address, "query", query=expression)["result"]
    return found


def test_prometheus_stores_series_and_exemplars(prometheus: str, url: str) -> None:
    """A real Prometheus holds every metric of the registry, label values unharmed, exemplars with their trace ids, and
    sees what is committed later."""
    _await(lambda: _query(prometheus, 'up{job="ragtrace"} == 1'))
    stored = set(_api(prometheus, "label/__name__/values"))
    for instrument in INSTRUMENTS.values():
        parts = ("_bucket", "_sum", "_count") if instrument.kind == "histogram" else ("",)
        assert {instrument.name + part for part in parts} <= stored
    assert SEGMENT in _api(prometheus, "label/segment/values")

    span = {"start": time.time() - 3600, "end": time.time() + 3600}
    for name in ("ragtrace_query_coverage_ratio_bucket", "ragtrace_sli_requests_total"):
        exemplars = _api(prometheus, "query_exemplars", query=name, **span)
        traces = {one["labels"]["trace_id"] for series in exemplars for one in series["exemplars"]}
        assert traces == {TRACE}

    requests = 'sum(ragtrace_requests_total{service="shop",status="ok"})'
    before = float(_query(prometheus, requests)[0]["value"][1])
    with Store.open(url) as store:
        store.write([RequestRecord(request_id="r2", service="shop", segment=SEGMENT)])
    _await(lambda: float(_query(prometheus, requests)[0]["value"][1]) == before + 1)
