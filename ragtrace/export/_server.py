"""The exporter's HTTP server: `/metrics` for Prometheus, `/healthz` for a supervisor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final

from prometheus_client import make_wsgi_app

from ragtrace.errors import StoreError
from ragtrace.export._lease import LEASE_SECONDS, LeasedStore
from ragtrace.export._series import MAX_SERIES
from ragtrace.export.exposition import collected, collector
from ragtrace.export.push import PUSH_SECONDS, Pusher, PushTarget, check_period
from ragtrace.http_server import HttpServer, plain

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

__all__ = ["MetricsServer", "serve"]

_RETRY_SECONDS: Final = 5
_AT_ONCE: Final = 64  # connections
_SILENCE: Final = 30.0  # seconds


class MetricsServer:
    """A running exporter. Close it, or use it as a context manager, so that the next one need not wait for its lease.

    `port` is the port that it listens on, also where 0 was asked for.
    """

    def __init__(
        self,
        store: LeasedStore,
        server: HttpServer,
        max_series: int,
        push_to: Sequence[PushTarget] = (),
        push_seconds: float = PUSH_SECONDS,
    ) -> None:
        self.port = server.port
        self._store = store
        self._server = server
        self._max_series = max_series
        self._pushers = [Pusher(store, target, push_seconds, max_series=max_series) for target in push_to]
        server.start(self._answer, "ragtrace-exporter")

    def close(self) -> None:
        """End the server and what pushes, and give the lease back."""
        self._server.close()
        for pusher in self._pushers:
            pusher.close()
        self._store.close()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return self._metrics(environ, start_response)
        if path == "/healthz":
            return plain(start_response, "200 OK", "ok")
        return plain(start_response, "404 Not Found", "metrics are at /metrics")

    def _metrics(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """What the store holds now; 503 with the reason while it cannot be read or another exporter serves it."""
        try:
            with self._store.held() as store:
                metrics = collected(store, self._max_series)
        except StoreError as error:
            return plain(start_response, "503 Service Unavailable", str(error), ("Retry-After", str(_RETRY_SECONDS)))
        body: Iterable[bytes] = make_wsgi_app(collector(metrics))(environ, start_response)
        return body


def serve(
    store_url: str,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    max_series: int = MAX_SERIES,
    lease_seconds: float = LEASE_SECONDS,
    push_to: Sequence[PushTarget] = (),
    push_seconds: float = PUSH_SECONDS,
) -> MetricsServer:
    """Serve the store's metrics from threads of this process. A store that cannot be used now is tried again.

    port: 0 takes a free one. max_series: how many series are shown. lease_seconds: how long
    another exporter waits after this one died without closing. push_to: receivers that get the metrics as well, every
    `push_seconds`, each by a thread of its own; they are closed with the server.
    Raises: ConfigurationError when the address cannot be listened on, `store_url` is no store's address, or
    `push_seconds` is no positive number.
    """
    check_period(push_seconds)
    server = HttpServer(host, port, at_once=_AT_ONCE, silence=_SILENCE)
    try:
        return MetricsServer(LeasedStore(store_url, lease_seconds), server, max_series, push_to, push_seconds)
    except BaseException:
        server.close()
        raise
