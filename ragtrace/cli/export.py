"""`ragtrace export`: the metrics of a store for Prometheus, printed once or served."""

from __future__ import annotations

import signal
import sys
import threading
from enum import StrEnum
from types import FrameType
from typing import Annotated, TypeAlias

import typer

from ragtrace.cli.terminal import StoreOption, console

__all__ = ["DEFAULT_PORT", "HostOption", "PortOption", "export", "serve"]

DEFAULT_PORT = 9464

HostOption: TypeAlias = Annotated[str, typer.Option("--host", help="The address to listen on.")]
PortOption: TypeAlias = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port to listen on.")]


class ExpositionFormat(StrEnum):
    """The two text formats that Prometheus reads."""

    text = "text"
    openmetrics = "openmetrics"


def export(
    store: StoreOption = None,
    once: Annotated[bool, typer.Option("--once", help="Print the exposition and end.")] = False,
    exposition_format: Annotated[
        ExpositionFormat,
        typer.Option("--format", help="What --once prints; the server follows the Accept header."),
    ] = ExpositionFormat.text,
    host: HostOption = "127.0.0.1",
    port: PortOption = DEFAULT_PORT,
) -> None:
    """Serve /metrics from committed results. One exporter per database: a second one waits for the first to end."""
    from ragtrace.cli.stores import existing

    url = existing(store)
    if once:
        _print_once(url, openmetrics=exposition_format is ExpositionFormat.openmetrics)
    else:
        serve(url, host, port)


def serve(url: str, host: str, port: int) -> None:
    """Serve the metrics of the store until SIGINT or SIGTERM."""
    from ragtrace import export as exporter

    server = exporter.serve(url, host, port)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        console(stderr=True).print(f"serving http://{host}:{server.port}/metrics, Ctrl-C ends it")
        threading.Event().wait()
    finally:
        signal.signal(signal.SIGTERM, before)
        server.close()


def _print_once(url: str, *, openmetrics: bool) -> None:
    from ragtrace.export import exposition
    from ragtrace.store import Store

    with Store.open(url) as store:
        body = exposition(store, openmetrics=openmetrics)
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
