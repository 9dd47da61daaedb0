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
def serving(url: str, port: int, *arguments: str, host: str = "127.0.0.1") -> Iterator[subprocess.Popen[str]]:
    """A receiver that listens."""
    started = command(url, "--port", str(port), *arguments)
    process = subprocess.Popen(started, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert f"taking spans on http://{host}:{port}/v1/traces" in process.stderr.readline()
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
        (["--tls-certificate", "no.pem", "--tls-key", "no.pem"], "TLS with no.pem and no.pem is not possible"),
        (["--tls-certificate", str(RECORDED), "--tls-key", str(RECORDED)], "give a certificate and its key, both PEM"),
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
    assert "Traceback" not in ended.stderr


def test_over_ipv6(tmp_path: Path) -> None:
    """Both ports."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    url, port, grpc_port = f"sqlite:///{tmp_path}/spans.db", free_port(), free_port()
    given = ("--host", "::1", "--grpc-port", str(grpc_port), "--assemblers", "0")
    with serving(url, port, *given, host="[::1]"):
        for each in (port, grpc_port):
            socket.create_connection(("::1", each), timeout=10).close()


AS_HOST = """
import os, signal, socket, sys, threading, urllib.error, urllib.request
from ragtrace import config
from ragtrace.receive import server as serving

_, url, port, grpc_port, sent = sys.argv
settings = serving.ReceiverSettings(port=int(port), grpc_port=int(grpc_port), assemblers=0)

def end():
    os.kill(os.getpid(), int(sent))

def run(ready):
    serving.run(url, config.load(store=url), settings, ready)
"""

AT_ONCE = AS_HOST + "run(end)"

HALF_A_BODY = (
    AS_HOST
    + """
def send():
    with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as sender:
        sender.sendall(
            b"POST /v1/traces HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
            b"Content-Length: 1000\\r\\nExpect: 100-continue\\r\\n\\r\\n"
        )
        print(sender.recv(12).decode(), sender.recv(100).decode().strip())
        end()
        print(sender.recv(12).decode())

serving._GRACE = 1
sending = threading.Thread(target=send)
run(sending.start)
sending.join()
"""
)

CROWDED = (
    AS_HOST
    + """
from ragtrace.receive._limits import ReceiverLimits
from ragtrace.receive import _http as connections

def ask():
    idle = [socket.create_connection(("127.0.0.1", int(port)), timeout=30) for _ in range(3)]
    print(urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30).status, idle[0].recv(1))
    end()

serving.ReceiverLimits, connections._YOUNG = lambda: ReceiverLimits(idle=1), 0
run(threading.Thread(target=ask).start)
"""
)


def hosted(tmp_path: Path, program: str, sent: signal.Signals) -> subprocess.CompletedProcess[str]:
    """A receiver that a program of its own runs."""
    given = (f"sqlite:///{tmp_path}/spans.db", str(free_port()), str(free_port()), str(int(sent)))
    return subprocess.run([sys.executable, "-c", program, *given], capture_output=True, text=True, timeout=40)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, -signal.SIGINT)])
def test_told_to_stop_at_once(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    """Before it hears signals itself, uvicorn is told as well."""
    assert hosted(tmp_path, AT_ONCE, sent).returncode == code


def test_half_a_body(tmp_path: Path) -> None:
    """One that does not come to its end does not keep the receiver; its sender is asked to send it again."""
    ended = hosted(tmp_path, HALF_A_BODY, signal.SIGTERM)

    assert ended.returncode == 0
    assert ended.stdout.splitlines() == ["HTTP/1.1 100 Continue", "HTTP/1.1 503"]
    assert "Traceback" not in ended.stderr


def test_connections_are_bounded(tmp_path: Path) -> None:
    """Beyond it the one that has waited longest for a request is closed, and others are served."""
    assert hosted(tmp_path, CROWDED, signal.SIGTERM).stdout == "200 b''\n"


def test_assemblers_are_bounded(tmp_path: Path) -> None:
    """A number of processes that no machine takes is refused before any begins."""
    done = subprocess.run(
        command(f"sqlite:///{tmp_path}/spans.db", "--assemblers", "100000"), capture_output=True, text=True, timeout=40
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "--assemblers" in done.stderr
    assert "64" in done.stderr
