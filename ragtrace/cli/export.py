"""`ragtrace export`: the metrics of a store for Prometheus, printed once or served."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from enum import StrEnum
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ragtrace.cli.terminal import StoreOption, console, option
from ragtrace.config import SETTINGS

if TYPE_CHECKING:
    from ragtrace.export.exporter import PushTarget

__all__ = ["DEFAULT_PORT", "HostOption", "export", "serve"]

DEFAULT_PORT = 9464

HostOption: TypeAlias = Annotated[str, typer.Option("--host", help="The address to listen on.")]


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
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port to listen on.")] = DEFAULT_PORT,
    otlp: Annotated[
        str | None, typer.Option("--otlp", metavar="URL", help="Push to this OTLP receiver as well.")
    ] = None,
    remote_write: Annotated[
        str | None, typer.Option("--remote-write", metavar="URL", help="Push by Prometheus remote write as well.")
    ] = None,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", help="How often to push.")] = 30.0,
    max_series: Annotated[int, option("max_series", min=1_000)] = SETTINGS["max_series"].default,
) -> None:
    """Serve /metrics from committed results. One exporter per database: a second one waits for the first to end."""
    from ragtrace.cli.terminal import existing
    from ragtrace.errors import ConfigurationError

    if once and (otlp or remote_write):
        raise ConfigurationError("--once prints and ends; to push, leave it out")
    url = existing(store)
    if once:
        _print_once(url, max_series, openmetrics=exposition_format is ExpositionFormat.openmetrics)
    else:
        serve(url, host, port, _targets(otlp, remote_write), every, max_series)


def serve(
    url: str,
    host: str,
    port: int,
    push_to: Sequence[PushTarget] = (),
    push_seconds: float = 30.0,
    max_series: int = 100_000,
) -> None:
    """Serve the metrics of the store until SIGINT or SIGTERM."""
    from ragtrace import export as exporter

    server = exporter.serve(url, host, port, max_series=max_series, push_to=push_to, push_seconds=push_seconds)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        console(stderr=True).print(f"serving http://{host}:{server.port}/metrics, Ctrl-C ends it")
        threading.Event().wait()
    finally:
        signal.signal(signal.SIGTERM, before)
        server.close()


def _targets(otlp: str | None, remote_write: str | None) -> list[PushTarget]:
    targets: list[PushTarget] = []
    if otlp:
        from ragtrace.export.push_targets import OtlpTarget

        targets.append(OtlpTarget(otlp))
    if remote_write:
        from ragtrace.export.push_targets import RemoteWriteTarget

        targets.append(RemoteWriteTarget(remote_write))
    return targets


def _print_once(url: str, max_series: int, *, openmetrics: bool) -> None:
    from ragtrace.export import exposition
    from ragtrace.store import Store

    with Store.open(url) as store:
        body = exposition(store, openmetrics=openmetrics, max_series=max_series)
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
