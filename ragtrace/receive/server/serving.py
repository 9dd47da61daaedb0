"""Runs the receiver: the servers, the thread that commits, and the processes that assemble."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ragtrace.config import Config
from ragtrace.errors import ConfigurationError, MissingExtraError
from ragtrace.receive.server import rpc as rpc_server
from ragtrace.receive.server.access import Access, Everybody, Tokens
from ragtrace.receive.server.app import LARGEST, make_app
from ragtrace.receive.server.assemblers import Assemblers
from ragtrace.receive.server.intake import Intake
from ragtrace.receive.server.meter import Meter
from ragtrace.receive.server.taking import Taking
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Store

__all__ = ["Settings", "run"]

_GRACE: Final = 5.0  # seconds in which calls that are running may end
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the receiver runs. Times in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 4318
    grpc_port: int | None = 4317
    tokens: Path | None = None
    metrics_tokens: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    grace: float = 5.0
    ttl: float = 60.0
    keep: float = 3600.0
    room: int = 64 << 20
    assemblers: int = 1

    def __post_init__(self) -> None:
        """Raises: ConfigurationError."""
        for name in ("grace", "ttl", "keep"):
            if not 0 <= getattr(self, name) <= 86_400:
                raise ConfigurationError.of(f"--{name}", getattr(self, name), "seconds from 0 to a day")
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("TLS needs both --tls-certificate and --tls-key")
        if self.tokens is None and self.host not in _LOOPBACK:
            raise ConfigurationError(
                f"the receiver would take spans from everybody on {self.host}; give --tokens FILE, or serve 127.0.0.1"
            )


def run(store_url: str, config: Config, settings: Settings, ready: Callable[[], object] = lambda: None) -> None:
    """Serve until the process is told to stop (SIGINT, SIGTERM); what was accepted is then committed.

    ready: called when both ports are listened on.

    Raises: ConfigurationError, MissingExtraError, StoreError, OSError.
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingExtraError("uvicorn", "serve") from None
    access: Access = Everybody() if settings.tokens is None else Tokens(settings.tokens)
    scrapers = _scrapers(settings)
    meter = Meter()
    with _listening(settings) as listener, Store.open(store_url) as store:
        intake = Intake(store, grace=settings.grace, ttl=settings.ttl, most=settings.room, committed=meter.committed)
        meter.watch(intake, store)
        taking = Taking(intake, access, ContentPolicy(config), meter)
        assemblers = Assemblers(settings.assemblers, store_url, config, keep=settings.keep, counted=meter.assembled)
        try:
            assemblers.start()
            http = uvicorn.Config(
                make_app(store, intake, taking, meter, scrapers),
                log_level="warning",
                access_log=False,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.key,
            )
            # uvicorn raises the signal that ended it again, after it has ended: only then is what waits committed.
            earlier = signal.signal(signal.SIGTERM, lambda *_: None)
            try:
                asyncio.run(_serve(uvicorn.Server(http), listener, taking, settings, ready))
            finally:
                signal.signal(signal.SIGTERM, earlier)
        finally:
            intake.close()
            assemblers.stop()


def _scrapers(settings: Settings) -> Access | None:
    """Who may read the metrics: all where all may send, else who has a token for it. Raises: ConfigurationError."""
    if settings.metrics_tokens is not None:
        return Tokens(settings.metrics_tokens)
    return Everybody() if settings.tokens is None else None


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket of HTTP. Raises: ConfigurationError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}; give another --host or --port"
        ) from None
    with listener:
        yield listener


async def _serve(
    server: Any,
    listener: socket.socket,
    taking: Taking,
    settings: Settings,
    ready: Callable[[], object],
) -> None:
    """HTTP, and gRPC beside it, until the process is told to stop."""
    rpc = None
    if settings.grpc_port is not None:
        address = f"{settings.host}:{settings.grpc_port}"
        rpc, _ = await rpc_server.start(
            taking, address, largest=LARGEST, certificate=settings.certificate, key=settings.key
        )
    ready()
    try:
        await server.serve(sockets=[listener])
    finally:
        if rpc is not None:
            await rpc.stop(grace=_GRACE)
