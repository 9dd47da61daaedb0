"""A real Alertmanager posts its alerts to `ragtrace triage serve`'s receiver."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.traffic import MINUTE, SERVICE, Break, Traffic, store_traffic
from ragtrace.store import Store
from ragtrace.triage.service import Receiver
from tests.live.alerting.servers import Alertmanager
from tests.triage.test_receiver import reports, until

CONFIGURATION = """
route: {{receiver: triage, group_wait: 0s, group_interval: 1s, repeat_interval: 1h, group_by: [service, stage]}}
receivers:
  - name: triage
    webhook_configs: [{{url: "http://127.0.0.1:{port}/alerts"}}]
"""


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """A receiver over a store whose ranking broke an hour ago."""
    now = time.time_ns()
    url = f"sqlite:///{tmp_path}/traffic.db"
    with Store.open(url) as store:
        breaks = (Break("ranking", 0.6, 0.75, component="packer"),)
        store_traffic(store, Traffic(600, now - 240 * MINUTE, now, breaks))
    with Receiver(url, tmp_path / "out") as running:
        yield running


@pytest.fixture
def alertmanager(receiver: Receiver, tmp_path: Path) -> Iterator[str]:
    """The address of an Alertmanager that sends everything to the receiver."""
    config = tmp_path / "alertmanager.yml"
    config.write_text(CONFIGURATION.format(port=receiver.port))
    server = Alertmanager(tmp_path / "alertmanager", config)
    try:
        server.start()
        yield f"http://{server.address}"
    finally:
        server.stop()


def test_an_alert_of_alertmanager_is_answered(alertmanager: str, tmp_path: Path) -> None:
    """Posted to Alertmanager as Prometheus does; its page has a report that names stage, owner and release."""
    began = datetime.fromtimestamp(time.time() - 600, UTC).isoformat()
    labels = {"alertname": "RagtraceEvidencePage", "severity": "page", "service": SERVICE, "stage": "ranking"}
    body = json.dumps([{"labels": labels, "annotations": {"summary": "evidence"}, "startsAt": began}]).encode()
    request = urllib.request.Request(f"{alertmanager}/api/v2/alerts", body, {"Content-Type": "application/json"})
    for _ in range(2):  # Prometheus repeats what fires
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.status == 200
    (path,) = until(lambda: reports(tmp_path / "out"), 60)
    report = json.loads(path.read_text())
    assert (report["stage"], report["owner"]) == ("ranking", "ranking-context")
    assert report["suspected_release"] == "packer=packer-bad"
    assert report["alert"]["agrees"] is True
    assert report["alert"]["labels"]["severity"] == "page"
