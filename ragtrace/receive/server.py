"""The running receiver: its servers, the thread that commits, and assemblers in processes of their own.

Reading spans takes the interpreter longer than receiving them. An assembler is told to stop through its pipe, and stops
as well when the pipe breaks, since the receiver is gone then. One that ends before its time is replaced. What it had
taken is due again when its lease runs out.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from ragtrace.config import Config
from ragtrace.errors import ConfigurationError, MissingExtraError, RagtraceError
from ragtrace.receive import _rpc as rpc_server
from ragtrace.receive._assembly import Assembler, Counted, Fate
from ragtrace.receive._ingest import Ingestor, Intake
from ragtrace.receive._limits import ReceiverLimits
from ragtrace.receive._meter import Meter
from ragtrace.receive._tenants import Access, Claim, Everybody, Tokens
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Store

__all__ = ["Assemblers", "ReceiverSettings", "address", "run"]

_LOG: Final = logging.getLogger("ragtrace.receive")
_STOP: Final = "stop"
_LOOK: Final = 0.2  # seconds between two looks whether to stop
_PAUSE: Final = 2.0  # seconds before one that ended is replaced
_PATIENCE: Final = 60.0  # seconds for the page at hand, when told to stop
_ENDING: Final = 5.0  # seconds to end, with nothing left to do


class Assemblers:
    """So many processes. config, keep, counted: as for `Assembler`. access: says what the spans of a tenant may say, in
    each process as in this one, and reads its file again in each."""

    def __init__(
        self, count: int, store_url: str, config: Config, *, keep: float, access: Access, counted: Counted
    ) -> None:
        self._given = (store_url, config, keep, access)
        self._counted = counted
        self._stop = Event()
        self._threads = [Thread(target=self._keep_one, name=f"ragtrace-assembler-{each}") for each in range(count)]

    def start(self) -> None:
        """Start them."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Have them write the page that they have at hand, and wait for their end."""
        self._stop.set()
        for each in self._threads:
            if each.is_alive():
                each.join()

    def _keep_one(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share connections and threads
        while not self._stop.is_set():
            ours, theirs = context.Pipe()
            process = context.Process(target=_assemble, args=(theirs, *self._given), daemon=True)
            try:
                process.start()
            except OSError as error:  # no memory or no descriptors now; there may be later
                _LOG.warning("an assembler cannot be started: %s", error)
                ours.close()
                theirs.close()
                self._stop.wait(_PAUSE)
                continue
            theirs.close()
            self._listen(ours)
            process.join(_ENDING)
            if process.is_alive():
                process.kill()
                process.join()
            ours.close()
            if not self._stop.is_set():
                _LOG.warning("an assembler ended with exit code %s; another one takes its place", process.exitcode)
                self._stop.wait(_PAUSE)

    def _listen(self, channel: Connection) -> None:
        """Count what a process says until it ends; once told to stop, it has a while for that."""
        try:
            while not self._stop.is_set():
                if channel.poll(_LOOK):
                    self._counted(*channel.recv())
            channel.send(_STOP)
            deadline = time.monotonic() + _PATIENCE
            while channel.poll(max(0.0, deadline - time.monotonic())):
                self._counted(*channel.recv())
        except (EOFError, OSError):  # it has ended
            return


def _assemble(channel: Connection, store_url: str, config: Config, keep: float, access: Access) -> None:
    """One process: assemble until it is told to stop, or its receiver is gone."""
    stop = Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the receiver's to hear
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    Thread(target=_wait, args=(channel, stop), daemon=True).start()
    try:
        with Store.open(store_url) as store:
            told = partial(_tell, channel)
            Assembler(store, config, keep=keep, rights=access.rights, counted=told).run(stop)
    except RagtraceError as error:
        _LOG.warning("spans wait: %s", error)
        raise SystemExit(1) from None


def _tell(channel: Connection, fate: Fate | Claim, count: int) -> None:
    try:
        channel.send((fate, count))
    except OSError:
        _LOG.debug("nobody counts %d traces that were %s", count, fate)


def _wait(channel: Connection, stop: Event) -> None:
    try:
        channel.recv()
    except (EOFError, OSError):
        _LOG.debug("the receiver is gone")
    stop.set()


_GRACE: Final = 5  # seconds in which requests that are running may end
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
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
    assemblers: int = 2

    def __post_init__(self) -> None:
        """Raises: ConfigurationError."""
        for name in ("grace", "ttl", "keep"):
            if not 0 <= getattr(self, name) <= 86_400:
                raise ConfigurationError.of(f"--{name}", getattr(self, name), "seconds from 0 to a day")
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("TLS needs both --tls-certificate and --tls-key")
        if self.certificate is not None and self.key is not None:
            _check_pair(self.certificate, self.key)
        if self.tokens is None and self.host not in _LOOPBACK:
            raise ConfigurationError(
                f"the receiver would take spans from everybody on {self.host}; give --tokens FILE, or serve 127.0.0.1"
            )


def _check_pair(certificate: Path, key: Path) -> None:
    """Raises: ConfigurationError."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise ConfigurationError(
            f"TLS with {certificate} and {key} is not possible: {error}; give a certificate and its key, both PEM, the "
            "key without a password"
        ) from None


def address(host: str, port: int) -> str:
    """Host and port as an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def run(store_url: str, config: Config, settings: ReceiverSettings, ready: Callable[[], object] = lambda: None) -> None:
    """Serve until the process is told to stop (SIGINT, SIGTERM); what was accepted is then committed.

    ready: called when both ports are listened on.

    Raises: ConfigurationError, MissingExtraError, StoreError, OSError.
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingExtraError("uvicorn", "serve") from None
    from ragtrace.receive._http import connections, make_app

    access: Access = Everybody() if settings.tokens is None else Tokens(settings.tokens)
    scrapers = _scrapers(settings)
    meter = Meter()
    with _listening(settings) as listener, Store.open(store_url) as store:
        limits = ReceiverLimits()
        intake = Intake(
            store,
            grace=settings.grace,
            ttl=settings.ttl,
            most=settings.room,
            share=limits.room,
            committed=meter.committed,
        )
        meter.watch(lambda: intake.load)
        ingestor = Ingestor(intake, access, ContentPolicy(config), meter, limits)
        assemblers = Assemblers(
            settings.assemblers, store_url, config, keep=settings.keep, access=access, counted=meter.assembled
        )
        http = uvicorn.Server(
            uvicorn.Config(
                make_app(store, intake, ingestor, meter, scrapers),
                log_level="warning",
                access_log=False,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.key,
                http=connections(limits),
                ws="none",
                timeout_graceful_shutdown=_GRACE,
            )
        )
        try:
            with _told_to_stop(http):
                assemblers.start()
                asyncio.run(_serve(http, listener, ingestor, settings, ready))
        finally:
            intake.close()
            assemblers.stop()


@contextmanager
def _told_to_stop(server: Any) -> Iterator[None]:
    """End the server at a signal, also before it hears them itself. It raises the one that ended it again, after it
    has ended: gRPC may end by then as well, and Ctrl-C goes on afterwards.
    """
    heard: list[int] = []

    def end(number: int, frame: object) -> None:
        heard.append(number)
        server.should_exit = True

    earlier = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in earlier.items():
            signal.signal(each, handler)
    if signal.SIGINT in heard:
        raise KeyboardInterrupt


def _scrapers(settings: ReceiverSettings) -> Access | None:
    """Who may read the metrics: all where all may send, else who has a token for it. Raises: ConfigurationError."""
    if settings.metrics_tokens is not None:
        return Tokens(settings.metrics_tokens, has_rights=False)
    return Everybody() if settings.tokens is None else None


@contextmanager
def _listening(settings: ReceiverSettings) -> Iterator[socket.socket]:
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
    ingestor: Ingestor,
    settings: ReceiverSettings,
    ready: Callable[[], object],
) -> None:
    """HTTP, and gRPC beside it, until the process is told to stop."""
    rpc = None
    if settings.grpc_port is not None:
        where = address(settings.host, settings.grpc_port)
        rpc, _ = await rpc_server.start(ingestor, where, certificate=settings.certificate, key=settings.key)
    ready()
    try:
        if settings.certificate is not None:
            _limit_handshakes(asyncio.get_running_loop(), ingestor.limits.handshake)
        await server.serve(sockets=[listener])
    finally:
        if rpc is not None:
            await rpc.stop(grace=_GRACE)


def _limit_handshakes(loop: Any, seconds: float) -> None:
    """Have TLS begin in time; uvicorn leaves asyncio's minute."""
    loop.create_server = partial(loop.create_server, ssl_handshake_timeout=seconds)
