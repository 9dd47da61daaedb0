"""`ragtrace serve` as a process with tokens: what is sent becomes requests with their judgments, and Prometheus reads
its metrics."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ragtrace.store import Store
from tests.live.prometheus import program
from tests.live.receiver import free_port
from tests.receive.server.test_judging import OF_TRACE, RETRIEVAL
from tests.receive.spans import TRACE
from tests.receive.test_logs import logs
from tests.receive.test_otlp import batch

pytest.importorskip("uvicorn")

ALPHA, SCRAPER = "alpha-token-0123456789", "scraper-token-0123456789"


class Served:
    """The receiver, on HTTP alone."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.url, self.port = f"sqlite:///{folder}/received.db", free_port()
        (folder / "tokens").write_text(f"alpha {ALPHA}\n")
        (folder / "scrapers").write_text(f"prometheus {SCRAPER}\n")
        command = ["serve", "--port", str(self.port), "--grpc-port", "0", "--grace", "0.1", "--store", self.url]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ragtrace", *command, "--tokens", str(folder / "tokens"), *more],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        assert "taking spans" in self.process.stderr.readline()

    def ask(self, path: str, token: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of an answer."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, headers)
        for _ in range(200):
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()
            except OSError:  # it listens, and does not serve yet
                time.sleep(0.05)
        raise AssertionError("the receiver does not answer")

    def stop(self) -> None:
        """End it, and wait."""
        self.process.terminate()
        self.process.communicate(timeout=60)


def test_whole(tmp_path: Path) -> None:
    """A judgment that comes before its request's spans is the request's, and all of it is counted."""
    served = Served(tmp_path, "--metrics-tokens", str(tmp_path / "scrapers"))
    try:
        assert served.ask("/v1/logs", ALPHA, logs(OF_TRACE)) == (200, b"{}")
        assert served.ask("/v1/traces", ALPHA, batch(RETRIEVAL | {"events": []})) == (200, b"{}")
        with Store.open(served.url) as store:
            deadline = time.monotonic() + 60
            while (record := store.get_record(f"alpha:{TRACE}")) is None and time.monotonic() < deadline:
                time.sleep(0.1)
        assert served.ask("/metrics", ALPHA)[0] == 401
        while b'ragtrace_receiver_traces_total{fate="assembled"} 1.0' not in served.ask("/metrics", SCRAPER)[1]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        exposition = served.ask("/metrics", SCRAPER)[1]
    finally:
        served.stop()
    assert record is not None
    assert [(each.source, each.label) for each in record.feedback] == [("relevance", "fail")]
    assert b'ragtrace_receiver_requests_total{answer="accepted",protocol="http",signal="logs"} 1.0' in exposition
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=exposition, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_no_metrics_without_their_tokens(tmp_path: Path) -> None:
    """Where senders have tokens and scrapers have none, there are no metrics for anybody."""
    served = Served(tmp_path)
    try:
        assert {served.ask("/metrics", token)[0] for token in (ALPHA, SCRAPER)} == {404}
    finally:
        served.stop()
