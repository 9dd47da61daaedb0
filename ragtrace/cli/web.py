"""`ragtrace web`: pages over the store."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ragtrace.cli.export import HostOption
from ragtrace.cli.terminal import StoreOption, console, option
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtrace.web import WebSettings

__all__ = ["WEB_PORT", "serve_pages", "web"]

WEB_PORT = 8460


def web(
    store: StoreOption = None,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The port to listen on.")] = WEB_PORT,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens",
            metavar="FILE",
            help="A file with NAME TOKEN tenant=TENANT role=numbers|content|judge on each line.  [default: no tokens, "
            "and this machine alone]",
        ),
    ] = None,
    proxy_header: Annotated[
        str | None,
        typer.Option(
            "--proxy-header",
            metavar="NAME",
            help="The header in which a proxy that signs people in names them; with - as token in --tokens.",
        ),
    ] = None,
    proxy_from: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy-from",
            metavar="ADDRESS",
            help="From where the proxy asks; may be repeated. Nobody else is believed.  [default: 127.0.0.1 and ::1]",
        ),
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Take labels and judgments of alerts; else read only.")
    ] = False,
    labeler: Annotated[str | None, option("labeler", show_default=False)] = None,
    certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", metavar="FILE", help="The certificate for TLS, as PEM.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate, as PEM.")
    ] = None,
    relevance: Annotated[
        str | None,
        typer.Option(
            "--relevance",
            metavar="MODEL",
            help="Explain which words gave a chunk its grade, by this judge of relevance: builtin, a folder, a name, "
            "or chat:URL#NAME.",
        ),
    ] = None,
    trace_url: Annotated[
        str | None,
        typer.Option(
            "--trace-url",
            metavar="URL",
            help="Where a trace is shown (Jaeger, Tempo, Grafana); the trace's id is appended, or put at {trace_id}.",
        ),
    ] = None,
) -> None:
    """Serve pages over the store: which stage broke, where, since which release, and the requests themselves.

    Who read which request is written to stderr.
    """
    from ragtrace.cli.terminal import existing
    from ragtrace.web import Proxy, WebSettings

    if proxy_from and proxy_header is None:
        raise ConfigurationError("--proxy-from needs --proxy-header, the header in which that proxy names people")
    proxy = Proxy(proxy_header) if proxy_header is not None else None
    if proxy is not None and proxy_from:
        proxy = replace(proxy, addresses=tuple(proxy_from))
    settings = WebSettings(
        host=host,
        port=port,
        tokens=tokens,
        may_judge=judge,
        labeler=labeler,
        certificate=certificate,
        key=key,
        trace_url=trace_url,
        proxy=proxy,
        relevance=relevance,
    )
    serve_pages(existing(store), settings)


def serve_pages(url: str, settings: WebSettings) -> None:
    """Serve the pages until SIGINT or SIGTERM."""
    from ragtrace.web import run

    before = signal.signal(signal.SIGTERM, _end)
    try:
        run(url, settings, lambda address: console(stderr=True).print(f"open {address} (Ctrl-C ends it)"))
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
