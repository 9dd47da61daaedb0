"""The server of the pages: on this machine alone, unless there are tokens."""

from __future__ import annotations

import gc
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragtrace.errors import ConfigurationError, MissingExtraError
from ragtrace.store import Store
from ragtrace.web._access import Access, Everybody, People, Proxy
from ragtrace.web._app import make_app

if TYPE_CHECKING:
    from ragtrace.coverage.verifier import RelevanceJudge

__all__ = ["WebSettings", "require", "run", "serving"]

_PACKAGES: Final = ("jinja2", "starlette", "uvicorn")

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_AT_ONCE: Final = 64  # connections
_ENDING: Final = 3  # seconds in which pages that are being made may end


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """How the pages are served. tokens: a file of people's tokens; may_judge: whether pages take labels. trace_url:
    where a trace is shown (Jaeger, Tempo, Grafana); its id is appended, or put where `{trace_id}` stands. proxy: one
    that signs people in, whose names stand in the file of tokens without a token. relevance: a judge of relevance by
    name, which explains grades."""

    host: str = "127.0.0.1"
    port: int = 8460
    tokens: Path | None = None
    may_judge: bool = False
    labeler: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    trace_url: str | None = None
    proxy: Proxy | None = None
    relevance: str | None = None

    def __post_init__(self) -> None:
        """Raises: ConfigurationError."""
        if self.tokens is None and self.host not in _LOOPBACK:
            raise ConfigurationError(
                f"everybody who reaches {self.host} would read the store; give --tokens FILE, or serve 127.0.0.1"
            )
        if self.proxy is not None and self.tokens is None:
            raise ConfigurationError("--proxy-header needs --tokens FILE, which says what each name may see")
        if self.trace_url is not None and not self.trace_url.startswith(("http://", "https://")):
            raise ConfigurationError.of("--trace-url", self.trace_url, "an address like http://localhost:16686/trace/")
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("TLS needs both --tls-certificate and --tls-key")

    @property
    def address(self) -> str:
        """Where the pages are."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}/"


def require() -> None:
    """Raises: MissingExtraError unless what serves the pages is installed."""
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise MissingExtraError(package, "web")


def run(store_url: str, settings: WebSettings, ready: Callable[[str], object] = lambda address: None) -> None:
    """Serve until the process is told to stop. ready: called with the address when it is listened on.

    Raises: ConfigurationError, MissingExtraError, StoreError.
    """
    require()
    with _listening(settings) as listener, Store.open(store_url) as store:
        server = _server(store, settings)
        gc.collect()
        gc.freeze()  # what is loaded now stays: looking through it again and again stops a page for 0.1 seconds
        ready(settings.address)
        server.run(sockets=[listener])


@contextmanager
def serving(store_url: str, settings: WebSettings) -> Iterator[str]:
    """Serve from a thread of this process within the block; gives the address. Raises: as `run`."""
    require()
    with _listening(settings) as listener, Store.open(store_url) as store:
        server = _server(store, settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="pages", daemon=True)
        thread.start()
        try:
            yield settings.address
        finally:
            server.should_exit = True
            thread.join(_ENDING * 2)


def _relevance(settings: WebSettings) -> RelevanceJudge | None:
    """The judge that explains grades. Raises: as `load_judges`."""
    if settings.relevance is None:
        return None
    from ragtrace.engines.model_names import load_judges

    return load_judges({"relevant": settings.relevance}).relevant


def _server(store: Store, settings: WebSettings) -> Any:
    import uvicorn

    _log_reading()
    is_secure = settings.certificate is not None
    app = make_app(
        store,
        _access(settings),
        is_local=settings.tokens is None,
        is_secure=is_secure,
        trace_url=settings.trace_url,
        proxy=settings.proxy,
        relevance=_relevance(settings),
    )
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # it would take a sender's word for the address that the proxy is known by
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
            ws="none",
            limit_concurrency=_AT_ONCE,
            timeout_graceful_shutdown=_ENDING,
        )
    )


def _access(settings: WebSettings) -> Access:
    if settings.tokens is None:
        return Everybody(may_judge=settings.may_judge, name=settings.labeler)
    return People(settings.tokens, may_judge=settings.may_judge)


def _listening(settings: WebSettings) -> socket.socket:
    """The socket. Raises: ConfigurationError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(
            f"cannot listen on {settings.host}, port {settings.port}: {error}; give another --host or --port"
        ) from None


def _log_reading() -> None:
    """Who saw what, a line each on stderr with its time."""
    log = logging.getLogger("ragtrace.web")
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
