"""`ragtrace alerts`: the rules of Prometheus and the routes of Alertmanager, from the objectives."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragtrace.cli.terminal import console
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtrace.alerts import Checked

__all__ = ["app"]

_FOLDER: Final = Path("ragtrace-alerts")

app = typer.Typer(help="Make, check and test the alerting rules and the routes.", no_args_is_help=True)

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Objectives, windows, owners, segments and receivers of your own."),
]
ScaleOption = Annotated[
    float,
    typer.Option("--time-scale", metavar="FACTOR", help="Divide all durations by it, to replay hours in minutes."),
]


@app.callback()
def _group() -> None:
    """Make, check and test the alerting rules and the routes."""


@app.command()
def render(
    config: ConfigOption = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder that gets the files.")] = _FOLDER,
    time_scale: ScaleOption = 1.0,
) -> None:
    """Write recording rules, alerting rules, Alertmanager's configuration and the scenarios that test them."""
    from ragtrace.alerts import render as rendered
    from ragtrace.alerts import write

    files = rendered(config, time_scale=time_scale)
    try:
        written = write(out, files)
    except OSError as error:
        raise ConfigurationError(f"cannot write into {out}: {error.strerror}; give another --out") from error
    for path in written:
        console().print(f"wrote {path}")


@app.command()
def check(config: ConfigOption = None, time_scale: ScaleOption = 1.0) -> None:
    """Check rules and routes with promtool and amtool, or as far as it goes without them."""
    from ragtrace.alerts import check as checked
    from ragtrace.alerts import render as rendered
    from ragtrace.alerts import write

    with TemporaryDirectory() as folder:
        write(Path(folder), rendered(config, time_scale=time_scale))
        _report(*checked(Path(folder)))


@app.command("test")
def run_scenarios(config: ConfigOption = None) -> None:
    """Run the scenarios (faults by stage, low traffic, silence) against the rules with promtool."""
    from ragtrace.alerts import render as rendered
    from ragtrace.alerts import run_tests, write

    with TemporaryDirectory() as folder:
        write(Path(folder), rendered(config))
        _report(run_tests(Path(folder)))


def _report(*found: Checked) -> None:
    for each in found:
        console().print(f"{each.by}: {'good' if each.good else 'failed'}\n{each.said}")
    if not all(each.good for each in found):
        raise typer.Exit(1)
