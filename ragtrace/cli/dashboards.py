"""`ragtrace dashboards`: the dashboards as Grafana's JSON, and drawn without Grafana."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from ragtrace.cli.terminal import console
from ragtrace.times import TIMES

__all__ = ["app"]

app = typer.Typer(help="The dashboards: JSON for Grafana, or one page without it.", no_args_is_help=True)

TraceUrl = Annotated[
    str | None,
    typer.Option("--trace-url", metavar="URL", help="Where a trace is shown, up to its id, which is appended."),
]


@app.command("preview")
def preview(
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
    from ragtrace.dashboards.prometheus import Prometheus, Span
    from ragtrace.dashboards.promql import ANY, TRACE_URL
    from ragtrace.errors import ConfigurationError
    from ragtrace.registry.instruments import BUILD_INFO

    if not set(stratum.split("|")) <= {"random", "flagged"}:
        raise ConfigurationError.of("--stratum", stratum, "random, flagged, or random|flagged")
    start, end = _times(since, until)
    server = Prometheus(prometheus)
    span = Span(
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


@app.command("render")
def render(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write.")] = Path(
        "ragtrace-dashboards"
    ),
    datasource: Annotated[
        str | None, typer.Option("--datasource", metavar="NAME", help="The data source that dashboards open with.")
    ] = None,
    metric_prefix: Annotated[
        str, typer.Option("--metric-prefix", metavar="TEXT", help="What stands before the metrics' names.")
    ] = "",
    trace_url: TraceUrl = None,
) -> None:
    """Write Grafana's JSON of every dashboard, with your own data source, metric prefix and trace URL."""
    from ragtrace.dashboards.files import dashboard_files, write_files

    files = write_files(out, dashboard_files(datasource=datasource, metric_prefix=metric_prefix, trace_url=trace_url))
    console().print(f"wrote {len(files)} dashboards into {out}")
