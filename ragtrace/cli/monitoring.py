"""`ragtrace export|web|alerts|dashboards`: a store's metrics for Prometheus and its pages for people, served; and the
rules of Prometheus, routes of Alertmanager and dashboards of Grafana, made and tried.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from ragtrace.cli.terminal import CertificateOption, KeyOption, StoreOption, console, option
from ragtrace.config import SETTINGS
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtrace.alerts import Checked
    from ragtrace.export.exporter import PushTarget
    from ragtrace.web import WebSettings

__all__ = ["DEFAULT_PORT", "WEB_PORT", "HostOption", "alerts", "dashboards", "export", "serve", "serve_pages", "web"]

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
        from ragtrace.export.push import OtlpTarget

        targets.append(OtlpTarget(otlp))
    if remote_write:
        from ragtrace.export.push import RemoteWriteTarget

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


_FOLDER: Final = Path("ragtrace-alerts")

alerts = typer.Typer(help="Make, check and test the alerting rules and the routes.", no_args_is_help=True)

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="A file with your own objectives, windows, owners, segments and receivers."
    ),
]
ScaleOption = Annotated[
    float,
    typer.Option("--time-scale", metavar="FACTOR", help="Divide all durations by this, to replay hours in minutes."),
]


@alerts.callback()
def _alerts_group() -> None:
    """Make, check and test the alerting rules and the routes."""


@alerts.command("render")
def render_alerts(
    config: ConfigOption = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder that gets the files.")] = _FOLDER,
    time_scale: ScaleOption = 1.0,
) -> None:
    """Write recording rules, alerting rules, Alertmanager's configuration and the scenarios that test them."""
    from ragtrace.alerts import render as rendered, write

    files = rendered(config, time_scale=time_scale)
    try:
        written = write(out, files)
    except OSError as error:
        raise ConfigurationError(f"cannot write into {out}: {error.strerror}; give another --out") from error
    for path in written:
        console().print(f"wrote {path}")


@alerts.command("check")
def check_alerts(config: ConfigOption = None, time_scale: ScaleOption = 1.0) -> None:
    """Check rules and routes with promtool and amtool, or as far as it goes without them."""
    from ragtrace.alerts import check as checked, render as rendered, write

    with TemporaryDirectory() as folder:
        write(Path(folder), rendered(config, time_scale=time_scale))
        _report(*checked(Path(folder)))


@alerts.command("test")
def run_scenarios(config: ConfigOption = None) -> None:
    """Run the scenarios (faults by stage, low traffic, silence) against the rules with promtool."""
    from ragtrace.alerts import render as rendered, run_tests, write

    with TemporaryDirectory() as folder:
        write(Path(folder), rendered(config))
        _report(run_tests(Path(folder)))


def _report(*found: Checked) -> None:
    for each in found:
        console().print(f"{each.by}: {'good' if each.good else 'failed'}\n{each.said}")
    if not all(each.good for each in found):
        raise typer.Exit(1)


dashboards = typer.Typer(help="The dashboards: JSON for Grafana.", no_args_is_help=True)

TraceUrl = Annotated[
    str | None,
    typer.Option("--trace-url", metavar="URL", help="URL of a trace in your tracing tool; the trace's id is appended."),
]


@dashboards.command("render")
def render_dashboards(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write.")] = Path(
        "ragtrace-dashboards"
    ),
    datasource: Annotated[
        str | None,
        typer.Option("--datasource", metavar="NAME", help="Name of the Grafana data source that the dashboards use."),
    ] = None,
    metric_prefix: Annotated[
        str, typer.Option("--metric-prefix", metavar="TEXT", help="Prefix of the metrics' names in your Prometheus.")
    ] = "",
    trace_url: TraceUrl = None,
) -> None:
    """Write Grafana's JSON of every dashboard, with your own data source, metric prefix and trace URL."""
    from ragtrace.dashboards import dashboard_files, write_files

    files = write_files(out, dashboard_files(datasource=datasource, metric_prefix=metric_prefix, trace_url=trace_url))
    console().print(f"wrote {len(files)} dashboards into {out}")


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
    certificate: CertificateOption = None,
    key: KeyOption = None,
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
