"""The webhook: nothing accepted is lost, each alert is answered once, bad input is refused."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.traffic import Break
from ragtrace.errors import ConfigurationError
from ragtrace.triage import triage_segment
from ragtrace.triage.service import Answerer, Receiver
from tests.triage.test_alerts import alert, payload

if TYPE_CHECKING:
    from tests.triage.conftest import Fill

URL = "sqlite:///{}/traffic.db"


def until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What `condition` gives as soon as it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not become true")


def post(port: int, body: bytes, path: str = "/alerts", **headers: str) -> tuple[int, str]:
    """Status and text of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def reports(out: Path) -> list[Path]:
    """The reports written by now."""
    return sorted(out.glob("*.json"))


@pytest.fixture
def receiver(fill: Fill, tmp_path: Path) -> Iterator[Receiver]:
    """A receiver over traffic whose ranking is broken."""
    fill(Break("ranking", 0.6, 0.8, component="packer"))
    with Receiver(URL.format(tmp_path), tmp_path / "out") as running:
        yield running


def test_each_alert_gets_a_report(receiver: Receiver, tmp_path: Path) -> None:
    """Markdown and JSON, one of each for each alert of a payload."""
    status, text = post(receiver.port, payload(alert(segment="limit"), alert(segment="deadline")))
    assert (status, text) == (200, "2 new of 2 alerts\n")
    found = until(lambda: len(reports(tmp_path / "out")) == 2 and reports(tmp_path / "out"))
    until(lambda: not list((tmp_path / "out" / "waiting").glob("*.json")))
    for path in found:
        report = json.loads(path.read_text())
        assert (report["stage"], report["suspected_release"]) == ("ranking", "packer=packer-bad")
        assert "ranking-context" in path.with_suffix(".md").read_text()


def test_the_same_firing_is_answered_once(receiver: Receiver, tmp_path: Path) -> None:
    """Alertmanager repeats itself, and says when it is over."""
    for _ in range(3):
        assert post(receiver.port, payload(alert()))[0] == 200
    assert post(receiver.port, payload(alert() | {"status": "resolved"}))[0] == 200
    until(lambda: reports(tmp_path / "out"))
    until(lambda: not list((tmp_path / "out" / "waiting").glob("*.json")))
    (report,) = reports(tmp_path / "out")
    written = report.stat().st_mtime_ns
    assert post(receiver.port, payload(alert())) == (200, "0 new of 1 alerts\n")
    later = alert() | {"startsAt": "2023-11-14T22:05:00Z"}
    assert post(receiver.port, payload(later)) == (200, "1 new of 1 alerts\n")
    until(lambda: len(reports(tmp_path / "out")) == 2)
    assert report.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "no payload"),
        (b"\xff\xfe\x00", 400, "no payload"),
        (b"{}", 400, "alerts"),
        (b"[" * 200_000, 400, "no payload"),
        (b" " * 2_000_000, 413, "1048576"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(
    receiver: Receiver, tmp_path: Path, body: bytes, status: int, said: str
) -> None:
    """The reason is said, and the receiver goes on."""
    try:
        found = post(receiver.port, body)
    except (BrokenPipeError, ConnectionResetError):  # refused by its length before all of it was sent
        assert status == 413
    else:
        assert found[0] == status
        assert said in found[1]
    assert not list((tmp_path / "out" / "waiting").iterdir())
    assert post(receiver.port, payload())[0] == 200


def test_other_paths_and_methods_are_refused(receiver: Receiver) -> None:
    """A supervisor finds /healthz, a browser no alerts."""
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=30)
    statuses = []
    for method, path in (("GET", "/healthz"), ("GET", "/alerts"), ("POST", "/")):
        connection.request(method, path, b"{}" if method == "POST" else None)
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
        connection.close()
    assert statuses == [200, 405, 404]


def test_a_length_is_required(receiver: Receiver) -> None:
    """A chunked body, and a length that is none."""
    for head in (b"Transfer-Encoding: chunked", b"Content-Length: -5", b"Content-Length: " + b"9" * 5000):
        with socket.create_connection(("127.0.0.1", receiver.port), timeout=30) as connection:
            connection.sendall(b"POST /alerts HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
            assert connection.recv(100).split()[1] in (b"411", b"413")


def test_an_alert_survives_a_store_that_is_away(fill: Fill, tmp_path: Path) -> None:
    """It is kept while the store cannot be read, by a restart too, and answered when it can."""
    fill(Break("ranking", 0.6, 0.8))
    away = tmp_path / "later.db"
    out = tmp_path / "out"
    away.mkdir()  # a folder is no database
    with Receiver(f"sqlite:///{away}", out) as running:
        assert post(running.port, payload(alert())) == (200, "1 new of 1 alerts\n")
        time.sleep(0.3)
        assert not reports(out)
    assert len(list((out / "waiting").glob("*.json"))) == 1
    with Receiver(URL.format(tmp_path), out):
        (report,) = until(lambda: reports(out))
    assert json.loads(report.read_text())["stage"] == "ranking"


def test_what_was_accepted_is_on_disk_before_it_is_said(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a thread that never answers, the alert stands in the folder when 200 comes."""
    fill()
    monkeypatch.setattr(Answerer, "_answer_all", lambda _self: False)
    with Receiver(URL.format(tmp_path), tmp_path / "out") as running:
        assert post(running.port, payload(alert()))[0] == 200
        (kept,) = (tmp_path / "out" / "waiting").glob("*.json")
        assert json.loads(kept.read_text())["labels"]["stage"] == "ranking"


def test_an_alert_that_cannot_be_kept_is_not_accepted(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: 503, so that Alertmanager sends it again."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ragtrace.triage.service._write", full)
    status, text = post(receiver.port, payload(alert()))
    assert status == 503
    assert "No space left" in text


def test_an_alert_that_breaks_the_walk_is_put_aside(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours is written beside it, the next alert is answered, and it is not tried for ever."""
    walk = triage_segment

    def faulty(store: Any, service: str, segment: str | None, *rest: Any, **options: Any) -> Any:
        if segment == "cursed":
            raise ZeroDivisionError("oh")
        return walk(store, service, segment, *rest, **options)

    monkeypatch.setattr("ragtrace.triage._alerts.triage_segment", faulty)
    assert post(receiver.port, payload(alert(segment="cursed"), alert(segment="limit")))[0] == 200
    until(lambda: len(reports(tmp_path / "out")) == 1)
    (reason,) = until(lambda: list((tmp_path / "out" / "failed").glob("*.txt")))
    assert reason.read_text() == "ZeroDivisionError: oh\n"
    assert post(receiver.port, payload(alert(segment="cursed"))) == (200, "0 new of 1 alerts\n")


def test_a_folder_has_one_owner(receiver: Receiver, fill: Fill, tmp_path: Path) -> None:
    """A second receiver on the same folder is refused."""
    with pytest.raises(ConfigurationError, match="another receiver"):
        Receiver(URL.format(tmp_path), tmp_path / "out")


def test_a_port_in_use_is_refused_and_leaves_the_folder(receiver: Receiver, tmp_path: Path) -> None:
    """The folder can be used by the next one."""
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="cannot listen"):
            Receiver(URL.format(tmp_path), tmp_path / "other", port=receiver.port)


@pytest.mark.parametrize("url", ["ftp://x/y", "x", "http://", "file:///etc/passwd", "http://[x/y", "http://u:pw@x/y"])
def test_reports_are_forwarded_over_http_only(fill: Fill, tmp_path: Path, url: str) -> None:
    """Another URL is refused at the start."""
    fill()
    with pytest.raises(ConfigurationError, match="--forward") as refused:
        Receiver(URL.format(tmp_path), tmp_path / "out", forward=url)
    assert "pw" not in str(refused.value)


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[HTTPServer]:
    """A server that ends with the block."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_reports_are_forwarded_until_they_are_taken(fill: Fill, tmp_path: Path) -> None:
    """The first post is refused, the second taken; both carry the alert's key."""
    fill(Break("ranking", 0.6, 0.8, component="packer"))
    taken: list[tuple[str, dict[str, Any]]] = []

    class Chat(BaseHTTPRequestHandler):
        """Refuses the first post."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            taken.append((self.headers["Idempotency-Key"], body))
            self.send_response(500 if len(taken) == 1 else 204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with _serving(Chat) as chat:
        forward = f"http://127.0.0.1:{chat.server_port}/hook"
        with Receiver(URL.format(tmp_path), tmp_path / "out", forward=forward) as running:
            assert post(running.port, payload(alert()))[0] == 200
            until(lambda: len(taken) == 2)
            until(lambda: not list((tmp_path / "out" / "waiting").glob("*.json")))
    (first, body), (second, again) = taken
    assert first == second == body["key"] == again["key"]
    assert body["report"]["stage"] == "ranking"
    assert "packer=packer-bad" in body["markdown"]


def test_a_redirect_is_not_followed(fill: Fill, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would lose the report, and the alert would be ticked off; credentials come with each post."""
    fill(Break("ranking", 0.6, 0.8, component="packer"))
    heard: list[tuple[str, str, str | None]] = []

    class Chat(BaseHTTPRequestHandler):
        """Sends the first post elsewhere."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            heard.append(("POST", self.path, self.headers["Authorization"]))
            self.send_response(302 if len(heard) == 1 else 200)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            heard.append(("GET", self.path, None))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with _serving(Chat) as chat:
        forward = f"http://127.0.0.1:{chat.server_port}/hook"
        with Receiver(URL.format(tmp_path), tmp_path / "out", forward=forward, authorization="Bearer abc") as running:
            assert post(running.port, payload(alert()))[0] == 200
            until(lambda: not list((tmp_path / "out" / "waiting").glob("*.json")))
    assert heard == [("POST", "/hook", "Bearer abc")] * 2
    assert "302" in caplog.text
