"""The client of HTTP: what it sends, what it reads, what its errors show."""

from __future__ import annotations

import base64
import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from ragtrace import http_client
from ragtrace.errors import ConfigurationError
from ragtrace.http_client import HttpClient, NoAnswer, retry_after

SECRET = "hidden-words"


class Server(ThreadingHTTPServer):
    """Answers by its path, and notes who asked for what with which authorization."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.heard: list[tuple[str, str, str | None]] = []
        self.elsewhere = ""
        self.connections = 0

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """Count it."""
        self.connections += 1
        return super().get_request()


class Handler(BaseHTTPRequestHandler):
    """`/away` is elsewhere, `/packed` is gzip, `/slow` never comes; all else says what was posted."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Note it, and answer."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.heard.append((self.command, self.path, self.headers["Authorization"]))
        if self.path == "/slow":
            threading.Event().wait(1.0)
            return
        packed = self.path == "/packed"
        answer = gzip.compress(b"0" * 5000) if packed else body or b"nothing"
        self.send_response(302 if self.path == "/away" else 200)
        for name, value in {
            "Content-Length": str(len(answer)),
            "Location": self.server.elsewhere,
            "Retry-After": "7",
            **({"Content-Encoding": "gzip"} if packed else {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Server]:
    """A server that ends with the block."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@pytest.fixture
def server() -> Iterator[Server]:
    """One server."""
    with serving() as running:
        yield running


def client(server: Server, login: str = "", **options: object) -> HttpClient:
    """A client of a server."""
    return HttpClient(urlsplit(server.url.replace("://", f"://{login}")), **options)  # type: ignore[arg-type]


def test_an_answer_has_what_was_sent(server: Server) -> None:
    """The body goes out and comes back as it is, with the pause that is asked for."""
    answer = client(server).request("POST", f"{server.url}/echo", b"\x00\xff")
    assert (answer.status, answer.body, answer.retry_after) == (200, b"\x00\xff", 7.0)


@pytest.mark.parametrize(
    ("login", "headers", "sent"),
    [
        ("me:p%40ss@", {}, f"Basic {base64.b64encode(b'me:p@ss').decode()}"),
        ("me:p%40ss@", {"Authorization": "Bearer abc"}, "Bearer abc"),
        ("", {}, None),
    ],
)
def test_a_login_is_sent_and_not_part_of_the_address(
    login: str, headers: dict[str, str], sent: str | None, server: Server
) -> None:
    """As basic authentication, unless the headers have another one."""
    asking = client(server, login, headers=headers)
    asking.request("GET", f"{asking.address}/x")
    assert (asking.address, server.heard) == (server.url, [("GET", "/x", sent)])


def test_redirects_are_left_alone(server: Server) -> None:
    """Whoever posts gets them as they are."""
    server.elsewhere = f"{server.url}/other"
    assert client(server).request("POST", f"{server.url}/away", b"x").status == 302
    assert [path for _, path, _ in server.heard] == ["/away"]


def test_redirects_are_followed_on_one_server(server: Server) -> None:
    """Where it is said: with the authorization, by a path as well."""
    server.elsewhere = "/other"
    asking = client(server, "me:p@", is_redirected=True)
    assert asking.request("GET", f"{server.url}/away").status == 200
    assert [path for _, path, _ in server.heard] == ["/away", "/other"]


def test_no_redirect_leads_to_another_server(server: Server) -> None:
    """Neither to another host nor to another port: that one is not asked, and the message shows no secret."""
    with serving() as other:
        asking = client(server, f"me:{SECRET}@", is_redirected=True)
        for host in ("localhost", "127.0.0.1"):
            server.elsewhere = f"http://{host}:{other.server_port}/other"
            with pytest.raises(NoAnswer, match=f"leads to http://{host}:{other.server_port}, another server") as told:
                asking.request("GET", f"{server.url}/away")
            assert SECRET not in str(told.value)
        assert other.heard == []


@pytest.mark.parametrize(
    ("asked", "target", "is_followed"),
    [
        ("http://wiki.example/api", "https://wiki.example/api", True),
        ("https://wiki.example/api", "http://wiki.example/api", False),
        ("https://wiki.example/api", "https://wiki.example.evil.example/api", False),
        ("https://wiki.example/api", "//WIKI.example/w", True),
        ("https://wiki.example/api", "https://me@other.example/", False),
    ],
)
def test_a_redirect_may_only_become_safer(asked: str, target: str, is_followed: bool) -> None:
    """From http to https of the same host, never back."""
    import httpx2

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(302, headers={"Location": target}) if str(request.url) == asked else httpx2.Response(200)

    transport = httpx2.MockTransport(answer)
    hooks = {"response": [http_client._refuse_elsewhere]}
    with httpx2.Client(transport=transport, follow_redirects=True, event_hooks=hooks) as asking:
        if is_followed:
            assert asking.get(asked).status_code == 200
        else:
            with pytest.raises(NoAnswer, match="another server"):
                asking.get(asked)


def test_an_answer_is_read_up_to_a_bound(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what it unpacks to: a few bytes can be gigabytes."""
    assert len(client(server).request("GET", f"{server.url}/packed").body) == 5000
    monkeypatch.setattr(http_client, "_LARGEST", 4000)
    with pytest.raises(NoAnswer, match="more than 4,000 bytes"):
        client(server).request("GET", f"{server.url}/packed")


def test_a_silent_server_is_given_up(server: Server) -> None:
    """After the seconds that are given; it was there, though."""
    with pytest.raises(NoAnswer) as told:
        client(server, seconds=0.2).request("GET", f"{server.url}/slow")
    assert not told.value.is_absent


def test_a_server_that_is_not_there_is_absent() -> None:
    """Whoever tries again tries that less often."""
    with pytest.raises(NoAnswer) as told:
        HttpClient(urlsplit("http://127.0.0.1:9")).request("GET", "http://127.0.0.1:9/")
    assert told.value.is_absent


@pytest.mark.parametrize("header", [f"Bearer {SECRET}\r\nX: 1", f"Bearer {SECRET}\x00"])
def test_a_header_that_cannot_be_sent_is_shown_nowhere(header: str, server: Server) -> None:
    """Nothing of it is in the message, nor behind it."""
    with pytest.raises(NoAnswer, match="header") as told:
        client(server, headers={"Authorization": header}).request("GET", server.url)
    assert SECRET not in str(told.value)
    assert told.value.__suppress_context__
    assert server.heard == []


def test_the_environments_proxies_are_used_where_it_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's server next door is asked directly, whatever the environment says."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, server.url)
    target = HttpClient(urlsplit("http://example.invalid"), is_proxied=True)
    assert target.request("GET", "http://example.invalid/x").status == 200
    assert server.heard[0][1] == "http://example.invalid/x"
    with pytest.raises(NoAnswer):
        HttpClient(urlsplit("http://example.invalid")).request("GET", "http://example.invalid/x")


@pytest.mark.parametrize("proxy", ["socks4://127.0.0.1:1080", "foo://ada:secret@127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_is_named(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's proxy is refused before anything is asked, without its password and without a traceback."""
    monkeypatch.setenv("ALL_PROXY", proxy)
    monkeypatch.setenv("all_proxy", proxy)
    with pytest.raises(ConfigurationError, match="a proxy of the environment cannot be used") as caught:
        HttpClient(urlsplit("http://127.0.0.1:1"), is_proxied=True)
    assert "secret" not in str(caught.value)
    HttpClient(urlsplit("http://127.0.0.1:1")).close()


def test_a_name_that_no_host_can_have_is_no_answer() -> None:
    """An address with an empty label is told like a server that is not there."""
    client = HttpClient(urlsplit("http://a..b"))
    with pytest.raises(NoAnswer):
        client.request("GET", "http://a..b/")


@pytest.mark.parametrize(("connections", "opened"), [(1, 1), (0, 3)])
def test_connections_stay_open_where_it_is_said(connections: int, opened: int, server: Server) -> None:
    """Several requests take one connection, or one each."""
    asking = client(server, connections=connections)
    for _ in range(3):
        asking.request("GET", f"{server.url}/x")
    asking.close()
    assert server.connections == opened


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), (" 0.5 ", 0.5), ("-3", 0.0), ("nan", None), ("soon", None), ("", None), (None, None)],
)
def test_retry_after_is_read(value: str | None, seconds: float | None) -> None:
    """A number of seconds; what is none says nothing."""
    assert retry_after(value) == seconds


def test_retry_after_may_be_a_date() -> None:
    """A date in the past is no pause, one in the future is the time until then."""
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    later = retry_after("Wed, 21 Oct 2099 07:28:00 GMT")
    assert later is not None
    assert later > 1e9
