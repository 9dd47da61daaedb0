"""The exporter's server, over HTTP, on a real store."""

from __future__ import annotations

import gzip
import socket
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from email.message import Message
from pathlib import Path

import pytest

from ragtrace.errors import ConfigurationError, StoreUnavailable
from ragtrace.export import MetricsServer, exposition, serve
from ragtrace.export.exporter import LeasedStore
from ragtrace.registry.instruments import QUERY_COVERAGE
from ragtrace.store import Exemplar, Finished, Store, histogram_deltas
from ragtrace.types import Analysis, RequestRecord

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.2"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with one analyzed request."""
    url = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    with Store.open(url) as store:
        _add_request(store, "r1", 0.87)
    return url


@pytest.fixture
def server(url: str) -> Iterator[MetricsServer]:
    """A running exporter of that store."""
    with serve(url) as running:
        yield running


def _add_request(store: Store, request_id: str, coverage: float) -> None:
    store.write([RequestRecord(request_id=request_id, service="shop", segment='a "quoted"\nsegment')])
    (job,) = store.claim("test")
    labels = (("segment", 'a "quoted"\nsegment'), ("service", "shop"), ("stratum", "random"))
    exemplar = Exemplar(TRACE, coverage, 1700000000.0)
    deltas = histogram_deltas(QUERY_COVERAGE.name, labels, coverage, QUERY_COVERAGE.buckets, exemplar)
    analysis = Analysis(request_id=request_id, analyzer_version=job.analyzer_version)
    assert store.finish([Finished(job, analysis, deltas)]) == 1


def _get(port: int, path: str = "/metrics", **headers: str) -> tuple[int, Message, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_plain_scrape_gets_the_text_format(server: MetricsServer, url: str) -> None:
    """Without an Accept header the text format 0.0.4 comes, the same as `exposition` gives."""
    status, headers, body = _get(server.port)
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    with Store.open(url) as store:
        assert body == exposition(store)
    assert b'segment="a \\"quoted\\"\\nsegment"' in body
    assert TRACE.encode() not in body


def test_prometheus_gets_openmetrics_with_exemplars(server: MetricsServer, url: str) -> None:
    """A client that accepts OpenMetrics gets it, exemplars included."""
    status, headers, body = _get(server.port, Accept=OPENMETRICS)
    assert (status, headers.get_content_type()) == (200, "application/openmetrics-text")
    assert headers.get_param("version") == "1.0.0"
    assert f'# {{trace_id="{TRACE}"}} 0.87 1700000000.0'.encode() in body
    assert body.endswith(b"# EOF\n")
    with Store.open(url) as store:
        assert body == exposition(store, openmetrics=True)


def test_scrape_may_be_compressed_and_narrowed(server: MetricsServer) -> None:
    """gzip and the query `name[]` work as Prometheus clients expect."""
    _, headers, body = _get(server.port, "/metrics?name[]=ragtrace_build_info", **{"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip"
    lines = gzip.decompress(body).decode().splitlines()
    assert [line.split("{")[0] for line in lines if not line.startswith("#")] == ["ragtrace_build_info"]


def test_each_scrape_shows_what_is_committed(server: MetricsServer, url: str) -> None:
    """A result that is committed between two scrapes is in the second."""
    count = b'ragtrace_query_coverage_ratio_count{segment="a \\"quoted\\"\\nsegment",service="shop",stratum="random"}'
    assert count + b" 1.0" in _get(server.port)[2]
    with Store.open(url) as store:
        _add_request(store, "r2", 0.4)
    assert count + b" 2.0" in _get(server.port)[2]


def test_counters_survive_a_restart(url: str) -> None:
    """A new exporter process goes on where the old one ended."""
    with serve(url) as first:
        before = _get(first.port)[2]
    with serve(url) as second:
        assert _get(second.port)[2] == before


def test_other_paths(server: MetricsServer) -> None:
    """/healthz answers for a supervisor, anything else is 404 and says where metrics are."""
    assert _get(server.port, "/healthz")[::2] == (200, b"ok\n")
    assert _get(server.port, "/")[::2] == (404, b"metrics are at /metrics\n")


def test_second_exporter_waits_for_the_first(url: str) -> None:
    """Two exporters of one store never serve at once; the second takes over when the first has ended."""
    with serve(url) as first, serve(url) as second:
        status, headers, body = _get(second.port)
        assert status == 503
        assert headers["Retry-After"]
        assert b"another exporter serves this store" in body
        assert _get(second.port, "/healthz")[0] == 200
        assert _get(first.port)[0] == 200
        first.close()
        assert _get(second.port)[0] == 200


def test_lease_is_kept_between_scrapes(url: str) -> None:
    """Without any scrape an exporter renews its lease, again and again."""
    with serve(url, lease_seconds=0.3), closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        ends: set[float] = set()
        deadline = time.monotonic() + 60
        while len(ends) < 4 and time.monotonic() < deadline:
            ends |= {end for (end,) in database.execute("SELECT expires_at FROM lease WHERE name = 'exporter'")}
            time.sleep(0.01)
    assert len(ends) >= 4


def test_trouble_is_logged_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """While another exporter serves the store, the second says so once, not at every try."""
    with Store.open(url) as store:
        assert store.acquire("exporter", "first", 1000.0)
    leased = LeasedStore(url, 0.06)
    tries = 0
    while tries < 5:
        with pytest.raises(StoreUnavailable, match="another exporter"), leased.held():
            raise AssertionError("the lease is another's")
        tries += 1
        time.sleep(0.02)
    leased.close()
    assert [record.message.split(";")[0] for record in caplog.records] == [
        "metrics are not served: another exporter serves this store"
    ]


def test_lease_of_a_dead_exporter_runs_out(url: str) -> None:
    """An exporter that died without closing blocks the next one only until its lease ends."""
    with Store.open(url) as store:
        assert store.acquire("exporter", "dead", 1000.0, now=0.0)
    with serve(url) as server:
        assert _get(server.port)[0] == 200


def test_unusable_store_is_503_with_the_reason_until_it_is_mended(url: str, tmp_path: Path) -> None:
    """While the database is broken the scrape fails and says why; afterwards it works again."""
    file, kept = tmp_path / "ragtrace.db", tmp_path / "kept.db"
    with serve(url) as server:
        before = _get(server.port)[2]
        kept.write_bytes(file.read_bytes())
        file.write_bytes(b"no database" * 1000)
        status, headers, body = _get(server.port)
        assert (status, headers.get_content_type()) == (503, "text/plain")
        assert str(file).encode() in body
        assert _get(server.port, "/healthz")[0] == 200
        kept.replace(file)
        assert _get(server.port)[::2] == (200, before)


def test_store_may_be_unusable_at_the_start(tmp_path: Path) -> None:
    """The exporter starts before its store can be used, and serves once it can."""
    folder = tmp_path / "later"
    with serve(f"sqlite:///{folder / 'ragtrace.db'}") as server:
        assert _get(server.port)[0] == 503
        folder.mkdir()
        assert _get(server.port)[0] == 200


def test_caller_mistakes_are_errors(url: str) -> None:
    """A port that is taken and an address that is no store's are refused at once, with the remedy."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1, port {port}: .*--port"):
            serve(url, "127.0.0.1", port)
    with pytest.raises(ConfigurationError, match="mysql"):
        serve("mysql://localhost/ragtrace")


def test_ipv6_loopback_is_an_address(url: str) -> None:
    """An IPv6 address can be listened on."""
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with serve(url, "::1") as server, urllib.request.urlopen(f"http://[::1]:{server.port}/healthz") as response:
        assert response.read() == b"ok\n"


def test_the_limit_on_series_reaches_the_server(url: str) -> None:
    """What is left out is counted."""
    with serve(url, max_series=10) as server:
        body = _get(server.port)[2]
    assert b"ragtrace_exposition_series_dropped 0.0" not in body
    assert b"ragtrace_query_coverage_ratio_bucket" not in body
