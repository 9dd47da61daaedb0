"""`ragtrace alerts|dashboards`: rules of Prometheus, routes of Alertmanager, dashboards of Grafana, made and tried."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragtrace.cli.terminal import console
from ragtrace.errors import ConfigurationError
from ragtrace.times import TIMES

if TYPE_CHECKING:
    from ragtrace.alerts import Checked

__all__ = ["alerts", "dashboards"]

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


dashboards = typer.Typer(help="The dashboards: JSON for Grafana, or one page without it.", no_args_is_help=True)

TraceUrl = Annotated[
    str | None,
    typer.Option("--trace-url", metavar="URL", help="URL of a trace in your tracing tool; the trace's id is appended."),
]


@dashboards.command("preview")
def preview_dashboards(
    prometheus: Annotated[str, typer.Option("--prometheus", metavar="URL", help="The Prometheus server.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The HTML file to write.")] = Path(
        "ragtrace-dashboards.html"
    ),
    since: Annotated[str, typer.Option("--since", metavar="TIME", help=f"From when on: {TIMES}.")] = "6h",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help=f"Until when: {TIMES}.")] = "now",
    service: Annotated[str | None, typer.Option("--service", help="Only this service.")] = None,
    segment: Annotated[str | None, typer.Option("--segment", help="Only this segment.")] = None,
    stratum: Annotated[str, typer.Option("--stratum", help="random, flagged, or random|flagged.")] = "random",
    trace_url: TraceUrl = None,
) -> None:
    """Draw every panel from a live Prometheus into one HTML file that needs nothing else."""
    from ragtrace.dashboards.preview import preview as draw
    from ragtrace.dashboards.prometheus import PreviewScope, Prometheus
    from ragtrace.dashboards.promql import ANY, TRACE_URL
    from ragtrace.errors import ConfigurationError
    from ragtrace.registry.instruments import BUILD_INFO

    if not set(stratum.split("|")) <= {"random", "flagged"}:
        raise ConfigurationError.of("--stratum", stratum, "random, flagged, or random|flagged")
    start, end = _times(since, until)
    server = Prometheus(prometheus)
    span = PreviewScope(
        start,
        end,
        scrape=server.scrape_interval(BUILD_INFO.name),
        service=re.escape(service) if service else ANY,
        segment=re.escape(segment) if segment else ANY,
        stratum=stratum,
    )
    page = draw(server, span, trace_url=trace_url or TRACE_URL)
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {out}: {error}; give another --out") from error
    console().print(f"wrote {out}; open it in a browser")


def _times(since: str, until: str) -> tuple[float, float]:
    """Both ends in seconds since the epoch. Raises: ConfigurationError."""
    import time

    from ragtrace.errors import ConfigurationError
    from ragtrace.times import parse_time

    now = time.time_ns()
    start, end = (parse_time(name, text, now) / 1e9 for name, text in (("--since", since), ("--until", until)))
    if start >= end:
        raise ConfigurationError.of("--since", since, f"a time before --until ({until})")
    return start, end


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
    from ragtrace.dashboards.files import dashboard_files, write_files

    files = write_files(out, dashboard_files(datasource=datasource, metric_prefix=metric_prefix, trace_url=trace_url))
    console().print(f"wrote {len(files)} dashboards into {out}")
