"""The server of small endpoints: where it listens, how many it answers, whom it gives up."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.http_server import HttpServer, plain

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


@contextmanager
def running(application: WSGIApplication, *, at_once: int = 4, silence: float = 20.0) -> Iterator[HttpServer]:
    """A server that ends with the block."""
    server = HttpServer("127.0.0.1", 0, at_once=at_once, silence=silence)
    server.start(application, "test-server")
    try:
        yield server
    finally:
        server.close()


def said(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Its path."""
    return plain(start_response, "200 OK", environ["PATH_INFO"], ("X-More", "1"))


def get(port: int, path: str = "/x") -> tuple[str, dict[str, str]]:
    """What stands at a path, and the headers."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return answer.read().decode(), dict(answer.headers)


def test_a_line_of_text_is_answered() -> None:
    """With its length and what is said beside it."""
    with running(said) as server:
        text, headers = get(server.port, "/here")
    assert (text, headers["Content-Length"], headers["X-More"]) == ("/here\n", "6", "1")


def test_a_taken_port_is_refused() -> None:
    """The message names the options that mend it; a server that never answered can be closed."""
    first = HttpServer("127.0.0.1", 0, at_once=1, silence=1.0)
    with pytest.raises(ConfigurationError, match="give another --host or --port"):
        HttpServer("127.0.0.1", first.port, at_once=1, silence=1.0)
    first.close()


def test_so_many_are_answered_at_once() -> None:
    """One more waits until a place is free, and is answered then."""
    inside, go = threading.Semaphore(0), threading.Event()
    heard: list[str] = []

    def slow(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        heard.append(environ["PATH_INFO"])
        inside.release()
        assert go.wait(20.0)
        return said(environ, start_response)

    with running(slow, at_once=2) as server:
        asking = [threading.Thread(target=get, args=(server.port,)) for _ in range(3)]
        for each in asking:
            each.start()
        assert all(inside.acquire(timeout=20.0) for _ in range(2))
        assert not inside.acquire(timeout=0.2)
        go.set()
        for each in asking:
            each.join()
    assert len(heard) == 3


def test_a_client_that_says_nothing_is_given_up() -> None:
    """Its place is another one's then."""
    with running(said, at_once=1, silence=0.2) as server, socket.create_connection(("127.0.0.1", server.port)) as mute:
        mute.settimeout(20.0)
        assert mute.recv(1) == b""
        assert get(server.port)[0] == "/x\n"
