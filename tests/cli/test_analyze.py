"""`ragtrace analyze`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from ragtrace.store import Store
from tests.export.receiver import receiving

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_drains_the_queue_and_says_how_much(cli: Cli, store_url: str) -> None:
    """Every job that waits is done, and a second run finds nothing left."""
    first = cli("analyze", "--store", store_url, "--json")
    second = cli("analyze", "--store", store_url, "--json")

    assert json.loads(first.stdout) == {"done": 2, "failed": 0, "lost": 0}, first.stderr
    assert json.loads(second.stdout)["done"] == 0


def test_limit_ends_early(cli: Cli, store_url: str) -> None:
    """`--limit 1` does one job and leaves the other waiting."""
    done = cli("analyze", "--store", store_url, "--limit", "1")

    assert done.stdout.strip() == "1 done, 0 failed, 0 lost"
    with Store.open(store_url) as store:
        assert store.queue_depth()["pending"] == 1


def test_progress_is_silent_off_a_terminal(cli: Cli, store_url: str) -> None:
    """With stderr in a pipe nothing is written to it."""
    assert cli("analyze", "--store", store_url).stderr == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_follow_ends_cleanly_on_a_signal(store_url: str, number: signal.Signals, code: int) -> None:
    """`--follow` commits the batch at hand and ends: with 130 on Ctrl-C, with 0 on SIGTERM."""
    command = [sys.executable, "-m", "ragtrace", "analyze", "--store", store_url, "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        with Store.open(store_url) as store:
            while store.queue_depth().get("done", 0) < 2 and process.poll() is None:
                time.sleep(0.05)
        process.send_signal(number)
        stdout, stderr = process.communicate()

    assert process.returncode == code, stderr
    assert stderr == ""
    assert json.loads(stdout) == {"done": 2, "failed": 0, "lost": 0}


def test_events_go_to_the_endpoint_of_the_environment(cli: Cli, store_url: str) -> None:
    """`--events` sends a `gen_ai.evaluation.result` per score before the command ends; without it nothing is sent."""
    with receiving() as receiver:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{receiver.server_port}"}
        done = cli("analyze", "--store", store_url, "--events", "--limit", "1", **endpoint)
        sent = [
            record.event_name
            for request in receiver.requests
            for logs in request.resource_logs
            for scope in logs.scope_logs
            for record in scope.log_records
        ]
        received = len(receiver.requests)
        assert cli("analyze", "--store", store_url, **endpoint).stdout.startswith("1 done")
        assert len(receiver.requests) == received

    assert done.stdout.startswith("1 done"), done.stderr
    assert set(sent) == {"gen_ai.evaluation.result"}
    assert len(sent) > 5
