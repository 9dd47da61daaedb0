"""The client of Prometheus: what it asks for, what it reads, and what it says when it cannot."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from ragtrace.dashboards._panels import Panel
from ragtrace.dashboards.prometheus import PreviewScope, Prometheus, seconds_of
from ragtrace.errors import ConfigurationError, PrometheusError

HOUR = 3600.0
PLAIN = Panel(title="", kind="timeseries", description="")
SMOOTH = Panel(title="", kind="timeseries", description="", least_step="10m")


@contextmanager
def _answering(answers: dict[str, object], status: int = 200) -> Iterator[Prometheus]:
    """A server that answers each path of the interface with what is given."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path.removeprefix("/base/api/v1/")
            assert parse_qs(urlsplit(self.path).query).get("query", [""]) != []
            answer = answers.get(path)
            body = answer.encode() if isinstance(answer, str) else json.dumps({"data": answer}).encode()
            self.send_response(404 if answer is None else status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Prometheus(f"http://127.0.0.1:{server.server_port}/base/")
        finally:
            server.shutdown()


def test_values_that_are_no_number_are_left_out() -> None:
    """NaN and infinities, and series that have nothing else."""
    result = [
        {"metric": {"a": "1"}, "values": [[10, "1.5"], [20, "NaN"], [30, "+Inf"]]},
        {"metric": {"a": "2"}, "values": [[10, "NaN"]]},
    ]
    with _answering({"query_range": {"result": result}}) as server:
        (series,) = server.query_range("x", 0, 30, 10)
    assert series.labels == {"a": "1"}
    assert series.points == {10: 1.5}
    assert series.last == 1.5


def test_exemplars_come_newest_first() -> None:
    """Those with a trace id, and none where the server keeps none."""
    found = [
        {
            "seriesLabels": {"segment": "s"},
            "exemplars": [
                {"labels": {"trace_id": "old"}, "value": "1", "timestamp": 1},
                {"labels": {"span": "x"}, "value": "1", "timestamp": 3},
                {"labels": {"trace_id": "new"}, "value": "2", "timestamp": 2.5},
            ],
        }
    ]
    with _answering({"query_exemplars": found}) as server:
        assert [one.trace_id for one in server.exemplars("x", 0, 9)] == ["new", "old"]
    with _answering({}) as server:
        assert server.exemplars("x", 0, 9) == []


def test_scrape_interval_is_that_of_the_jobs_that_serve_a_metric() -> None:
    """Other jobs do not count; a server that lists no targets is taken to scrape each minute."""
    result = {"result": [{"metric": {"job": "ragtrace"}, "value": [1, "1"]}]}
    targets = [
        {"labels": {"job": "ragtrace"}, "scrapeInterval": "15s"},
        {"labels": {"job": "node"}, "scrapeInterval": "5m"},
    ]
    with _answering({"query": result, "targets": {"activeTargets": targets}}) as server:
        assert server.scrape_interval("x") == 15
    with _answering({"query": result}) as server:
        assert server.scrape_interval("x") == 60


@pytest.mark.parametrize(
    ("answer", "status"), [("no JSON", 200), ("[]", 200), ('{"status": "ok"}', 200), ("bad query", 400)]
)
def test_answer_that_cannot_be_used_is_an_error(answer: str, status: int) -> None:
    """The message names the server and what was asked."""
    with _answering({"query": answer}, status) as server, pytest.raises(PrometheusError, match=r"127\.0\.0\.1.* query"):
        server.query("x", 0)


def test_server_that_is_not_there_is_an_error() -> None:
    """The message says what to check."""
    with pytest.raises(PrometheusError, match="check that it runs there"):
        Prometheus("http://127.0.0.1:9").names()


@pytest.mark.parametrize("url", ["localhost:9090", "file:///etc/passwd", ""])
def test_what_is_no_http_url_is_refused(url: str) -> None:
    """Nothing but HTTP is opened."""
    with pytest.raises(ConfigurationError, match="http://localhost:9090"):
        Prometheus(url)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("6h", 6 * HOUR), ("1h30m", 1.5 * HOUR), ("500ms", 0.5), ("2d", 48 * HOUR)]
)
def test_duration_is_read_as_prometheus_writes_it(text: str, seconds: float) -> None:
    """Numbers with units, in a row."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "6", "6 h", "h", "0s", "six hours", "6h!", "-1h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """The message says what may stand there."""
    with pytest.raises(ConfigurationError, match="one like 6h"):
        seconds_of(text)


def test_points_are_as_far_apart_as_the_panel_asks() -> None:
    """A smooth panel has points of ten minutes over a day, and still enough of them over an hour."""
    day, hour = PreviewScope(0, 24 * HOUR), PreviewScope(0, HOUR)
    assert day.step(SMOOTH) == 600
    assert day.step(PLAIN) == 360
    assert hour.step(SMOOTH) == 100
    assert hour.step(PLAIN) == 15


def test_rate_interval_holds_four_scrapes() -> None:
    """As Grafana computes it: the step and one scrape, at least four scrapes."""
    assert PreviewScope(0, HOUR, scrape=60).filled("[$__rate_interval]", PLAIN) == "[240s]"
    assert PreviewScope(0, 24 * HOUR, scrape=15).filled("[$__rate_interval]", SMOOTH) == "[615s]"


def test_variables_are_filled_in_once() -> None:
    """Each variable becomes its value; a value is not looked at again."""
    span = PreviewScope(HOUR, 2 * HOUR, service="a$segment", segment='b"\\.c', stratum="flagged")
    filled = span.filled('x{service=~"$service",segment=~"$segment",stratum=~"$stratum"}[$__range] > ${__from}', PLAIN)
    assert filled == 'x{service=~"a$segment",segment=~"b\\"\\\\.c",stratum=~"flagged"}[3600s] > 3600000'
