"""The server of small endpoints: a WSGI application, answered by threads of this process."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication

__all__ = ["HttpServer", "plain"]

_LOG: Final = logging.getLogger(__name__)
_PLACE_SECONDS: Final = 20.0


class HttpServer:
    """It listens from its making, answers from `start`, and ends with `close`, or as a context manager. `port` is the
    port that it listens on, also where 0 was asked for.

    Args:
        at_once: connections that are answered at a time; others wait in the socket's queue.
        silence: seconds after which a client that says nothing is given up.

    Raises: ConfigurationError when the address cannot be listened on.
    """

    def __init__(self, host: str, port: int, *, at_once: int, silence: float) -> None:
        try:
            self._server = _Server(host, port, at_once, silence)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"cannot listen on {host}, port {port}: {error}; give another --host or --port"
            ) from error
        self.port = int(self._server.server_port)
        self._thread: threading.Thread | None = None

    def start(self, application: WSGIApplication, name: str) -> None:
        """Answer, from threads; the one that listens has this name."""
        self._server.set_app(application)
        thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        thread.start()
        self._thread = thread  # only now: `close` waits for one that runs

    def close(self) -> None:
        """Take no more."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per connection, a few at once."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, at_once: int, silence: float) -> None:
        self._places = threading.BoundedSemaphore(at_once)
        self.silence = silence
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for a place first; where none becomes free, the sender may come again."""
        if not self._places.acquire(timeout=_PLACE_SECONDS):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Give the place back at the end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or said nothing, is no error of ours."""
        _LOG.debug("a connection from %s ended early", client_address, exc_info=True)


class _Handler(WSGIRequestHandler):
    """Gives up on a client that says nothing, and logs at debug level."""

    server: _Server

    def setup(self) -> None:
        """With the server's patience."""
        super().setup()
        self.connection.settimeout(self.server.silence)

    def log_message(self, format: str, *args: object) -> None:
        """To our log."""
        _LOG.debug(format, *args)


def plain(start_response: StartResponse, status: str, text: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    """An answer of one line of text."""
    body = f"{text}\n".encode()
    about = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response(status, [*about, *headers])
    return [body]
