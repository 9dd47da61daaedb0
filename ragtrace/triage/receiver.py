"""The webhook that Alertmanager calls: it keeps each alert on disk, says 200, and leaves the answering to a thread."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from ragtrace.errors import ConfigurationError
from ragtrace.triage.alerts import read_payload
from ragtrace.triage.answering import Answerer, Forward
from ragtrace.triage.jobs import Jobs

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

__all__ = ["Receiver"]

_LOG: Final = logging.getLogger(__name__)
_LARGEST: Final = 1_048_576  # bytes of one payload
_AT_ONCE: Final = 16  # connections
_BODY_SECONDS: Final = 20.0


class Receiver:
    """A running webhook at `/alerts`. Close it, or use it as a context manager. `port` is the port that it listens on,
    also where 0 was asked for.

    An alert is on disk before its sender is told 200. Resolved alerts are taken and need no answer. A payload that is
    none gets 400 with the reason, a long one 413, one that cannot be kept now 503.

    Raises: ConfigurationError when the address cannot be listened on or `out` cannot be written.
    """

    def __init__(
        self,
        store_url: str,
        out: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        forward: str | None = None,
        lookback: int | None = None,
    ) -> None:
        sending = Forward(forward) if forward else None
        self._jobs = Jobs(out)
        self._answerer = Answerer(store_url, self._jobs, sending, lookback)
        self._keeping = threading.Lock()
        try:
            self._server = _Server(host, port)
        except (OSError, OverflowError) as error:
            self._jobs.close()
            raise ConfigurationError(
                f"cannot listen on {host}, port {port}: {error}; give another --host or --port"
            ) from error
        self.port = int(self._server.server_port)
        self._server.set_app(self._answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="ragtrace-receiver", daemon=True)
        self._thread.start()
        self._answerer.start()

    def close(self) -> None:
        """Take no more, and end behind the alert at hand; what waits is answered after the next start."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._answerer.close()
        self._jobs.close()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        status, text = self._handled(environ)
        body = f"{text}\n".encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]

    def _handled(self, environ: WSGIEnvironment) -> tuple[str, str]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == "/healthz":
            return "200 OK", "ok"
        if path != "/alerts":
            return "404 Not Found", "alerts go to /alerts"
        if method != "POST":
            return "405 Method Not Allowed", "alerts are posted"
        return self._taken(environ)

    def _taken(self, environ: WSGIEnvironment) -> tuple[str, str]:
        length = environ.get("CONTENT_LENGTH") or ""
        if not (length.isascii() and length.isdigit()):
            return "411 Length Required", "the payload's Content-Length is missing"
        if len(length) > 9 or int(length) > _LARGEST:
            return "413 Content Too Large", f"a payload may have {_LARGEST} bytes"
        body = _read(environ["wsgi.input"], int(length))
        if len(body) < int(length):
            return "408 Request Timeout", f"only {len(body)} of {length} bytes of the payload came"
        try:
            payload = read_payload(body)
        except ConfigurationError as error:
            return "400 Bad Request", str(error)
        try:
            with self._keeping:
                new = sum(self._jobs.add(alert) for alert in payload.alerts if alert.status != "resolved")
        except OSError as error:
            _LOG.error("an alert cannot be kept: %s", error)
            return "503 Service Unavailable", f"the alert cannot be kept now: {error.strerror}; send it again"
        self._answerer.wake()
        return "200 OK", f"{new} new of {len(payload.alerts)} alerts"


def _read(stream: Any, length: int) -> bytes:
    """What of the body comes in time."""
    parts, left, until = [], length, time.monotonic() + _BODY_SECONDS
    with contextlib.suppress(OSError):  # a connection that ended or says nothing
        while left and time.monotonic() < until:
            part = stream.read1(left)
            if not part:
                break
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per connection, a few at once: others wait in the socket's queue."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int) -> None:
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for a place first; where none becomes free, the sender may come again."""
        if not self._places.acquire(timeout=_BODY_SECONDS):
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

    timeout = 10

    def log_message(self, format: str, *args: object) -> None:
        """To our log."""
        _LOG.debug(format, *args)
