"""`ragtrace export`."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.export.receiver import receiving

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_once_prints_the_text_format(cli: Cli, store_url: str) -> None:
    """`--once` prints the exposition of committed rows and ends."""
    done = cli("export", "--store", store_url, "--once")

    assert done.returncode == 0, done.stderr
    assert "ragtrace_requests_total{" in done.stdout
    assert "# EOF" not in done.stdout


def test_once_prints_openmetrics_on_request(cli: Cli, store_url: str) -> None:
    """`--format openmetrics` prints what OpenMetrics asks for, its end mark included."""
    done = cli("export", "--store", store_url, "--once", "--format", "openmetrics")

    assert done.stdout.endswith("# EOF\n"), done.stderr


def test_closed_pipe_is_quiet(store_url: str) -> None:
    """A reader that goes away early causes no traceback."""
    command = [sys.executable, "-m", "ragtrace", "export", "--store", store_url, "--once"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        stderr = process.stderr.read()

    assert stderr == ""
    assert process.returncode == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_serves_until_a_signal(store_url: str, number: signal.Signals, code: int) -> None:
    """Without `--once` the metrics are served until Ctrl-C (130) or SIGTERM (0), and the lease is given back."""
    command = [sys.executable, "-m", "ragtrace", "export", "--store", store_url, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        url = line.split()[1].rstrip(",")
        with urllib.request.urlopen(url, timeout=30) as response:
            body = response.read().decode()
        process.send_signal(number)
        rest = process.stderr.read()

    assert "ragtrace_requests_total{" in body
    assert process.returncode == code, rest
    assert rest == ""


def test_once_and_pushing_exclude_each_other(cli: Cli, store_url: str) -> None:
    """What ends at once pushes nothing; it is said how to push."""
    done = cli("export", "--store", store_url, "--once", "--otlp", "http://localhost:4318")

    assert done.returncode == 2
    assert "--once prints and ends; to push, leave it out" in done.stderr


@pytest.mark.parametrize(("option", "path"), [("--otlp", ""), ("--remote-write", "/api/v1/write")])
def test_pushes_until_a_signal(store_url: str, option: str, path: str) -> None:
    """The receiver gets metrics every so many seconds, and SIGTERM ends the pushing at once and quietly."""
    if option == "--remote-write":
        pytest.importorskip("cramjam", reason="pip install ragtrace[remote-write]")
    with receiving() as receiver:
        command = [sys.executable, "-m", "ragtrace", "export", "--store", store_url, "--port", "0"]
        command += [option, receiver.url + path, "--every", "0.05"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            process.stderr.readline()
            deadline = time.monotonic() + 60
            while len(receiver.posted) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
    assert len(receiver.posted) >= 3
    assert (process.returncode, rest) == (0, "")


def test_an_address_that_is_none_is_refused(cli: Cli, store_url: str) -> None:
    """Before anything is served, and without a traceback."""
    done = cli("export", "--store", store_url, "--otlp", "collector:4318")

    assert done.returncode == 2
    assert "http://localhost:4318" in done.stderr
    assert "Traceback" not in done.stderr
