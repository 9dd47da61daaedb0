"""`ragtrace export`."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

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
