"""`ragtrace serve` as a process: it says when it listens, ends when it is told to, and says what is wrong."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragtrace.store import Store

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

RECORDED = Path(__file__).parents[1] / "receive" / "recorded" / "langfuse.json"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(url: str, *arguments: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "ragtrace", "serve", "--store", url, *arguments]


@contextmanager
def serving(url: str, port: int, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A receiver that listens."""
    started = command(url, "--port", str(port), *arguments)
    process = subprocess.Popen(started, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert f"taking spans on http://127.0.0.1:{port}/v1/traces" in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def send(port: int) -> None:
    """Send recorded spans, and have them acknowledged."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/traces", RECORDED.read_bytes(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def assemblers(process: subprocess.Popen[str]) -> list[int]:
    """The process ids of the receiver's assemblers."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    found = [int(each) for thread in children.parents[1].glob("*/children") for each in thread.read_text().split()]
    return [each for each in found if b"resource_tracker" not in Path(f"/proc/{each}/cmdline").read_bytes()]


def wait_for(true: Callable[[], object]) -> None:
    """Wait until it is so, or fail after a minute."""
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    pytest.fail("it did not become so within a minute")


def test_an_assembler_is_replaced(tmp_path: Path) -> None:
    """One that is killed leaves its work to the next one; none outlives its receiver, however that ends."""
    url, port = f"sqlite:///{tmp_path}/spans.db", free_port()
    with serving(url, port, "--grpc-port", str(free_port()), "--grace", "0.1", "--assemblers", "2") as process:
        wait_for(lambda: len(assemblers(process)) == 2)
        killed = assemblers(process)
        for each in killed:
            os.kill(each, signal.SIGKILL)
        send(port)
        with Store.open(url) as store:
            wait_for(store.find_requests)
        wait_for(lambda: len(assemblers(process)) == 2)
        left = assemblers(process)
        assert not set(left) & set(killed)
        process.kill()
        process.wait(timeout=20)
        wait_for(lambda: not any(Path(f"/proc/{each}").exists() for each in left))


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_ends(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    """What was acknowledged is stored, and assembled by the next one."""
    url, port = f"sqlite:///{tmp_path}/spans.db", free_port()
    with serving(url, port, "--grpc-port", str(free_port()), "--assemblers", "0") as process:
        send(port)
        process.send_signal(sent)
        assert process.wait(timeout=20) == code
    with Store.open(url) as store:
        assert store.counts()["span_part"] == 2


def test_port_in_use(tmp_path: Path) -> None:
    """One line, for either port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments in (["--port", port], ["--port", str(free_port()), "--grpc-port", port]):
            ended = subprocess.run(
                command(f"sqlite:///{tmp_path}/spans.db", *arguments), capture_output=True, text=True, timeout=60
            )
            assert ended.returncode == 2
            own = [line for line in ended.stderr.splitlines() if line.startswith("ragtrace: ")]
            assert len(own) == 1  # gRPC's core writes a line of its own beside it
            assert own[0].startswith("ragtrace: cannot listen on 127.0.0.1")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--host", "0.0.0.0"], "take spans from everybody on 0.0.0.0; give --tokens FILE"),
        (["--tokens", "nowhere"], "tokens file nowhere cannot be read"),
        (["--tls-key", "key.pem"], "TLS needs both --tls-certificate and --tls-key"),
        (["--grace", "-1"], "--grace"),
        (["--store", "nowhere"], "nowhere"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: list[str], reason: str) -> None:
    """One line with the remedy."""
    started = command(f"sqlite:///{tmp_path}/spans.db", "--port", str(free_port()), "--grpc-port", "0", *arguments)
    ended = subprocess.run(started, capture_output=True, text=True, timeout=60)

    assert ended.returncode == 2
    assert reason in ended.stderr
