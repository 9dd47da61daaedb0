"""The exporter: it holds the store's lease, serves `/metrics` and `/healthz`, and pushes to receivers.

Two exporters never serve the same counters: only the one that has the lease answers and pushes. All series are
cumulative, so that a push that failed needs no repetition: the next one carries what it would have said, and more.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import make_wsgi_app
from prometheus_client.metrics_core import Metric

from ragtrace.errors import ConfigurationError, StoreError, StoreUnavailable
from ragtrace.export._series import MAX_SERIES
from ragtrace.export.exposition import collected, collector
from ragtrace.http_server import HttpServer, plain
from ragtrace.store import Heartbeat, Store

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

__all__ = [
    "LEASE_SECONDS",
    "PUSH_SECONDS",
    "LeasedStore",
    "MetricsServer",
    "PushFailed",
    "PushTarget",
    "Pusher",
    "serve",
]

LEASE_SECONDS: Final = 30.0
PUSH_SECONDS: Final = 30.0
_LONGEST: Final = 300.0  # seconds between two tries, unless the receiver asks for more
_ASKED: Final = 3600.0  # the longest Retry-After that is believed
_GRACE_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 15.0  # a little longer than a request may take
_RETRY_SECONDS: Final = 5
_AT_ONCE: Final = 64  # connections
_SILENCE: Final = 30.0  # seconds
_NAME: Final = "exporter"  # of the lease
_LOG: Final = logging.getLogger(__name__)


class LeasedStore:
    """A store that is opened for each use, and used only under the lease.

    Opened each time (milliseconds), it is always the database that the address names now: replaced, migrated or mended
    meanwhile. A thread of its own renews the lease between two uses, so that a slow scrape interval does not lose it.
    Raises: ConfigurationError when `url` is no store's address.
    """

    def __init__(self, url: str, seconds: float = LEASE_SECONDS) -> None:
        self._url = url
        self._seconds = seconds
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._lock = threading.Lock()
        self._trouble: str | None = None
        self._renew()
        self._heartbeat = Heartbeat("the exporter", seconds, self._renew)

    @contextmanager
    def held(self) -> Iterator[Store]:
        """The store, under the lease, by one thread at a time.

        Raises: StoreError when the store cannot be used, or another exporter has the lease.
        """
        with self._lock, Store.open(self._url) as store:
            if not store.acquire(_NAME, self._owner, self._seconds):
                raise StoreUnavailable(
                    f"another exporter serves this store; end it, or wait up to {self._seconds:g} s after its end"
                )
            yield store

    def close(self) -> None:
        """Give the lease back."""
        self._heartbeat.close()
        try:
            with self._lock, Store.open(self._url) as store:
                store.release(_NAME, self._owner)
        except StoreError as error:
            _LOG.warning("the exporter's lease was not given back, it runs out by itself: %s", error)

    def _renew(self) -> bool:
        """Take or prolong the lease, again and again; what is in the way is logged once, until it changes."""
        try:
            with self.held():
                trouble = None
        except StoreError as error:
            trouble = str(error)
        if trouble is not None and trouble != self._trouble:
            _LOG.warning("metrics are not served: %s", trouble)
        self._trouble = trouble
        return True


class PushFailed(Exception):
    """A receiver did not take the metrics. retry_after: in how many seconds it wants the next try, where it said so."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PushTarget(Protocol):
    """Where metrics are pushed to."""

    @property
    def shown(self) -> str:
        """The address without a password."""
        ...

    def send(self, metrics: Sequence[Metric], at: float) -> None:
        """Send the families, whose values are those of `at` (Unix seconds). Raises: PushFailed."""
        ...

    def close(self) -> None:
        """End, and cut short a `send` that waits to try again."""
        ...


def _check_period(seconds: float) -> None:
    """Raises: ConfigurationError for a period that is no positive number."""
    if not 0 < seconds < float("inf"):
        raise ConfigurationError.of("push seconds", seconds, "a number above 0")


class Pusher:
    """A thread that pushes to one target. A failure is logged once, until it changes, and the pauses grow.

    Raises: ConfigurationError for a period that is no positive number.
    """

    def __init__(
        self, store: LeasedStore, target: PushTarget, seconds: float = PUSH_SECONDS, *, max_series: int = MAX_SERIES
    ) -> None:
        _check_period(seconds)
        self._store = store
        self._target = target
        self._seconds = seconds
        self._max_series = max_series
        self._failures = 0
        self._trouble: str | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ragtrace-exporter-push", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. What was not pushed is pushed by the next exporter, since counters stand in the store."""
        self._closed.set()
        self._thread.join(_GRACE_SECONDS)  # cutting short what would end by itself only makes noise
        self._target.close()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        pause = 0.0
        while not self._closed.wait(pause):
            pause = self._push()

    def _push(self) -> float:
        """Push once; the seconds until the next try."""
        started = time.monotonic()
        try:
            with self._store.held() as store:  # held while reading only: sending must keep no scrape waiting
                metrics, at = collected(store, self._max_series), time.time()
            self._target.send(metrics, at)
        except StoreError as error:
            self._note(str(error))
            return self._seconds
        except PushFailed as error:
            self._failures += 1
            self._note(str(error))
            return self._pause(error.retry_after)
        except Exception as error:  # what we did not foresee must not end the thread
            self._failures += 1
            self._note(f"{type(error).__name__}: {error}")
            return self._pause(None)
        self._failures = 0
        self._note(None)
        return max(0.0, self._seconds - (time.monotonic() - started))

    def _pause(self, asked: float | None) -> float:
        grown = max(self._seconds, min(self._seconds * 2.0 ** min(self._failures - 1, 10), _LONGEST))
        return max(grown, min(asked or 0.0, _ASKED))

    def _note(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self._trouble and not self._closed.is_set():
            _LOG.warning("metrics are not pushed to %s: %s", self._target.shown, trouble)
        if trouble is None and self._trouble is not None:
            _LOG.info("metrics are pushed to %s again", self._target.shown)
        self._trouble = trouble


class MetricsServer(HttpServer):
    """A running exporter. Close it, or use it as a context manager, so that the next one need not wait for its lease.

    `port` is the port that it listens on, also where 0 was asked for.
    """

    def __init__(
        self,
        store_url: str,
        host: str,
        port: int,
        max_series: int,
        lease_seconds: float = LEASE_SECONDS,
        push_to: Sequence[PushTarget] = (),
        push_seconds: float = PUSH_SECONDS,
    ) -> None:
        super().__init__(host, port, at_once=_AT_ONCE, silence=_SILENCE)
        try:
            self._store = LeasedStore(store_url, lease_seconds)
        except BaseException:
            super().close()
            raise
        self._max_series = max_series
        self._pushers = [Pusher(self._store, target, push_seconds, max_series=max_series) for target in push_to]
        self.start(self._answer, "ragtrace-exporter")

    def close(self) -> None:
        """End the server and what pushes, and give the lease back."""
        super().close()
        for pusher in self._pushers:
            pusher.close()
        self._store.close()

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
    _check_period(push_seconds)
    return MetricsServer(store_url, host, port, max_series, lease_seconds, push_to, push_seconds)
