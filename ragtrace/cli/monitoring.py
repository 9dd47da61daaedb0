"""`ragtrace alerts|dashboards`: rules of Prometheus, routes of Alertmanager, dashboards of Grafana, made and tried."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragtrace.cli.terminal import console
from ragtrace.errors import ConfigurationError

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
