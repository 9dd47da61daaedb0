"""Connections on which nothing happens, or too little: they are closed, and stop nobody."""

from __future__ import annotations

import asyncio
import http.client
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from ragtrace.receive import _http as http_server, _limits as limits, server as serving
from tests.receive.server.test_routes import ALPHA, JSON, SCRAPER, SMALL, Receiver
from tests.receive.test_otlp import SPAN, batch

HEAD = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: ".encode()
REFUSED = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """One that everybody may send to."""
    running = Receiver(tmp_path)
    yield running
    running.close()


def connect(receiver: Receiver) -> socket.socket:
    """A connection to it."""
    host, port = receiver.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def to_the_end(connection: socket.socket) -> bytes:
    """All that comes until it is closed."""
    parts = []
    try:
        while part := connection.recv(100_000):
            parts.append(part)
    except ConnectionResetError:  # something that it had sent was not read
        return b"".join(parts)
    return b"".join(parts)


def answer_of(connection: socket.socket) -> bytes:
    """One answer to the end of its body, which is JSON."""
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(1_000)
    return answer


def send_for_ever(connection: socket.socket, sent: bytes) -> None:
    """Again and again, until it is closed."""
    while True:
        connection.sendall(sent)


@pytest.mark.parametrize("sent", [b"", b"P", HEAD, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /", REFUSED + b"x"])
def test_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """One without a request, or with half of its head, or with a body that was refused before, is closed."""
    is_answered = sent.startswith((b"GET", REFUSED))
    receiver = Receiver(tmp_path, limits=replace(SMALL, head=3_600 if is_answered else 0.2))
    monkeypatch.setattr(receiver.server.config, "timeout_keep_alive", 3_600)
    with connect(receiver) as idle:
        while not receiver.server.server_state.connections:
            time.sleep(0.01)
        (served,) = receiver.server.server_state.connections
        served._patience = 0.2
        idle.sendall(sent)
        answer = to_the_end(idle)
    receiver.close()

    assert answer.count(b"HTTP/1.1 ") == is_answered
    assert b"HTTP/1.1 400" not in answer


def test_one_with_a_request(receiver: Receiver) -> None:
    """One whose request takes longer, as its body or its commit, is none of them; nor is one that is used again."""
    body = batch(SPAN)
    with connect(receiver) as slow:
        slow.sendall(HEAD + b"%d\r\nExpect: 100-continue\r\n\r\n" % len(body))
        assert slow.recv(1_000).startswith(b"HTTP/1.1 100")
        (served,) = receiver.server.server_state.connections
        served.loop.call_soon_threadsafe(served.end_idle)
        slow.sendall(body)
        assert answer_of(slow).startswith(b"HTTP/1.1 200")
        slow.sendall(HEAD + b"%d\r\n\r\n" % len(body) + body)
        assert answer_of(slow).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("young", [0, 0.2])
def test_more_than_may_be_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, young: float) -> None:
    """However many are open, others are served: the one that has waited longest gives way, none with a request does."""
    monkeypatch.setattr(http_server, "_YOUNG", young)
    receiver = Receiver(tmp_path, limits=replace(SMALL, idle=5, head=3_600))
    body = batch(SPAN)
    with ExitStack() as open_ones, connect(receiver) as busy:
        busy.sendall(HEAD + b"%d\r\nExpect: 100-continue\r\n\r\n" % len(body))
        assert busy.recv(1_000).startswith(b"HTTP/1.1 100")
        idle = [open_ones.enter_context(connect(receiver)) for _ in range(20)]
        healthy = receiver.send(None, "/healthz")[0]
        sent = receiver.send(batch(SPAN | {"name": "other"}), content_type=JSON)[0]
        ended = [to_the_end(each) for each in idle[:15]]
        busy.sendall(body)
        answer = busy.recv(1_000)
    receiver.close()

    assert (healthy, sent) == (200, 200)
    assert ended == [b""] * 15
    assert answer.startswith(b"HTTP/1.1 200")


def test_one_that_does_not_read(tmp_path: Path) -> None:
    """Who sends request after request, and reads no answer, is cut off."""
    receiver = Receiver(tmp_path, limits=replace(SMALL, head=0.2))
    asked = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000
    with connect(receiver) as deaf, pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
        send_for_ever(deaf, asked)
    healthy = receiver.send(None, "/healthz")[0]
    receiver.close()

    assert healthy == 200


def test_kept_alive(receiver: Receiver) -> None:
    """A connection serves request after request."""
    connection = http.client.HTTPConnection(receiver.url.removeprefix("http://"), timeout=20)
    for _ in range(3):
        connection.request("POST", "/v1/traces", batch(SPAN), {"Content-Type": JSON})
        assert connection.getresponse().read() == b"{}"
    first = connection.sock
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\n"
    assert connection.sock is first
    connection.close()


@pytest.mark.parametrize(("allowed", "most"), [(1_024, 256), (8_192, 1_000), (-1, 1_000)])
def test_descriptors(monkeypatch: pytest.MonkeyPatch, allowed: int, most: int) -> None:
    """Those that wait leave descriptors to all else."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))

    assert limits.affordable(1_000) == most


def test_handshake(tmp_path: Path) -> None:
    """Who connects to TLS and begins none is cut off as well."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("a certificate is made by openssl")
    new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout key -out pem"
    subprocess.run([openssl, *new.split()], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pem", tmp_path / "key")

    async def silent() -> bytes:
        loop = asyncio.get_running_loop()
        serving._limit_handshakes(loop, 0.2)
        async with await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, ssl=context) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            ended = await asyncio.wait_for(reader.read(), 30)
            writer.close()
            return ended

    assert asyncio.run(silent()) == b""


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/healthz", "/metrics", "/other"])
def test_two_lengths(receiver: Receiver, path: str) -> None:
    """A request that says its length in two ways is refused, and nothing behind it is read as another one."""
    method = "POST" if path.startswith("/v1") else "GET"
    with connect(receiver) as sender:
        sender.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 5\r\n"
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        )
        answer = to_the_end(sender)

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"a Content-Length and a Transfer-Encoding" in answer
    assert receiver.stored == 0


@pytest.mark.parametrize(("path", "token"), [("/v1/traces", ALPHA), ("/v1/logs", ALPHA), ("/metrics", SCRAPER)])
def test_two_tokens(tmp_path: Path, path: str, token: str) -> None:
    """A request with two values of Authorization is refused, whichever is right."""
    receiver = Receiver(tmp_path, tokens=True)
    connection = http.client.HTTPConnection(receiver.url.removeprefix("http://"), timeout=20)
    statuses = []
    for values in ([token], [token, token], [token, "wrong"], ["wrong", token], ["wrong"]):
        connection.putrequest("GET" if path == "/metrics" else "POST", path)
        for value in values:
            connection.putheader("Authorization", f"Bearer {value}")
        connection.putheader("Content-Type", JSON)
        connection.putheader("Content-Length", "2")
        connection.endheaders(b"{}")
        answer = connection.getresponse()
        statuses.append((answer.status, b"values of Authorization" in answer.read()))
    connection.close()
    receiver.close()

    assert statuses == [(200, False), (400, True), (400, True), (400, True), (401, False)]
