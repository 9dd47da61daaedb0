"""`ragtrace analyze`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragtrace.store import ATTRIBUTION, Store
from tests.export.receiver import receiving

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_drains_the_queue_and_says_how_much(cli: Cli, store_url: str) -> None:
    """Every job that waits is done, and a second run finds nothing left."""
    first = cli("analyze", "--store", store_url, "--json")
    second = cli("analyze", "--store", store_url, "--json")

    assert json.loads(first.stdout) == {"done": 2, "failed": 0, "lost": 0, "held": 0}, first.stderr
    assert json.loads(second.stdout)["done"] == 0


def test_limit_ends_early(cli: Cli, store_url: str) -> None:
    """`--limit 1` does one job and leaves the other waiting."""
    done = cli("analyze", "--store", store_url, "--limit", "1")

    assert done.stdout.strip() == "1 request analyzed"
    with Store.open(store_url) as store:
        assert store.queue_depth()["pending"] == 1


def test_says_what_other_workers_hold(cli: Cli, store_url: str) -> None:
    """Jobs that a worker had leased when it was killed are not done, and when they can be is said."""
    with Store.open(store_url) as store:
        assert len(store.claim("killed", limit=1, lease_seconds=3600)) == 1
    done = cli("analyze", "--store", store_url)
    assert done.stdout.splitlines()[0] == "1 request analyzed"
    assert "1 more are held by other workers" in done.stdout
    assert json.loads(cli("analyze", "--store", store_url, "--json").stdout)["held"] == 1


def test_progress_is_silent_off_a_terminal(cli: Cli, store_url: str) -> None:
    """With stderr in a pipe nothing is written to it."""
    assert cli("analyze", "--store", store_url).stderr == ""


@pytest.mark.parametrize(
    ("executor", "number", "code"),
    [
        ("thread", signal.SIGINT, 130),
        ("thread", signal.SIGTERM, 0),
        ("processes", signal.SIGINT, 130),
        ("processes", signal.SIGTERM, 0),
        ("ray", signal.SIGTERM, 0),
    ],
)
def test_follow_ends_cleanly_on_a_signal(store_url: str, executor: str, number: signal.Signals, code: int) -> None:
    """`--follow` commits the batch at hand and ends: with 130 on Ctrl-C, which a terminal sends to the processes of
    workers as well, with 0 on SIGTERM."""
    if executor == "ray":
        pytest.importorskip("ray", reason="ray is not installed (pip install 'ragtrace[ray]')")
    command = [sys.executable, "-m", "ragtrace", "analyze", "--store", store_url, "--follow", "--json"]
    command += ["--executor", executor, "--workers", "2"]
    out = subprocess.PIPE
    with subprocess.Popen(command, stdout=out, stderr=out, text=True, start_new_session=True) as process:
        with Store.open(store_url) as store:
            while store.queue_depth().get("done", 0) < 2 and process.poll() is None:
                time.sleep(0.05)
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        stdout, stderr = process.communicate()

    assert process.returncode == code, stderr
    told = [line for line in stderr.splitlines() if not line.endswith("waits for room in Ray's cluster")]
    assert told == []  # but for actors that a busy machine has not started yet
    assert json.loads(stdout) == {"done": 2, "failed": 0, "lost": 0, "held": 0}


@pytest.mark.parametrize("executor", ["thread", "processes", pytest.param("ray", marks=pytest.mark.alone)])
def test_workers_that_cannot_start_are_one_line(cli: Cli, store_url: str, executor: str) -> None:
    """Exit code 2 and what is wrong with the model, however many fail of it."""
    if executor == "ray":
        pytest.importorskip("ray", reason="ray is not installed (pip install 'ragtrace[ray]')")
    options = ["--executor", executor, "--workers", "2", "--verifier", "./nowhere", "--json"]
    done = cli("analyze", "--store", store_url, *options)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "ragtrace: no model folder at 'nowhere'; give an existing folder or a Hugging Face model name\n"
    )


@pytest.mark.parametrize("executor", ["thread", "processes"])
def test_events_go_to_the_endpoint_of_the_environment(cli: Cli, store_url: str, executor: str) -> None:
    """`--events` sends a `gen_ai.evaluation.result` per score before the command ends; without it nothing is sent."""
    with receiving() as receiver:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{receiver.server_port}"}
        done = cli("analyze", "--store", store_url, "--events", "--limit", "1", "--executor", executor, **endpoint)
        sent = [
            record.event_name
            for request in receiver.requests
            for logs in request.resource_logs
            for scope in logs.scope_logs
            for record in scope.log_records
        ]
        received = len(receiver.requests)
        assert cli("analyze", "--store", store_url, **endpoint).stdout.startswith("1 request analyzed")
        assert len(receiver.requests) == received

    assert done.stdout.startswith("1 request analyzed"), done.stderr
    assert set(sent) == {"gen_ai.evaluation.result"}
    assert len(sent) > 5


def test_explanations_need_models(cli: Cli, store_url: str) -> None:
    """Without a model they wait, with one they are done; a table of flags that cannot be read is one line."""
    drawn = {"RAGTRACE_EXPLAIN_RATE": "1"}
    assert json.loads(cli("analyze", "--store", store_url, "--json", **drawn).stdout)["done"] == 2
    with Store.open(store_url) as store:
        assert store.queue_depth(ATTRIBUTION)["pending"] == 2
    refused = cli("analyze", "--store", store_url, "--explain", "vip=all")
    assert refused.returncode == 2
    assert refused.stderr.startswith("ragtrace: explain 'vip=all' is not usable; give FLAG=PART+PART")
    lacking = cli("analyze", "--store", store_url, "--generator", "./nowhere")
    assert lacking.returncode == 2
    assert "no model folder at" in lacking.stderr


def test_requests_are_explained_by_the_model_that_is_given(cli: Cli, store_url: str, tiny_causal_lm: Path) -> None:
    """The explanation is in the store, with what it cost."""
    options = ["--generator", str(tiny_causal_lm), "--explain-rate", "1", "--explain-budget", "8", "--json"]
    done = cli("analyze", "--store", store_url, *options)
    assert json.loads(done.stdout) == {"done": 4, "failed": 0, "lost": 0, "held": 0}, done.stderr
    with Store.open(store_url) as store:
        [(_, found), _] = list(store.analyses(kind=ATTRIBUTION))
        assert found.explanation is not None
        assert found.explanation.generator is not None
        assert found.explanation.generator.model == tiny_causal_lm.name
        assert store.spent()
