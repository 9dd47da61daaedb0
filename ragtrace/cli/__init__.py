"""The command line: one module per group of verbs, each of which imports what it needs when it runs.

A RagtraceError becomes one line on stderr and exit code 2 (`RAGTRACE_DEBUG=1` shows the traceback), and so does a
package of the extra `analyze` that is not there; Ctrl-C ends with 130. Any other exception is a fault of ragtrace: its
traceback, and `FAULT`.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from ragtrace.cli import (
    align,
    analyze,
    calibrate,
    changes,
    db,
    demo,
    doctor,
    export,
    exposure,
    gate,
    grade,
    label,
    monitoring,
    receive,
    requests,
    services,
    triage,
    verifier,
    web,
)
from ragtrace.cli.doctor import version
from ragtrace.config import variable
from ragtrace.errors import RagtraceError
from ragtrace.extras import missing_extra
from ragtrace.safe_text import harmless

__all__ = ["FAULT", "app", "main"]

FAULT: Final = 70
"""The exit code of a fault of ragtrace itself (EX_SOFTWARE of sysexits.h): Python's own 1 would say "blocked" in CI."""

_MARKUP: Final = re.compile(r"\[(?=[a-z#/@])")

app = typer.Typer(
    help="Records what a RAG request did, measures each stage, and names the first stage that broke.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ragtrace {version()}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options that stand before the verb."""


app.command("demo")(demo.demo)
app.command("analyze")(analyze.analyze)
app.command("export")(export.export)
app.command("show")(requests.show)
app.command("probe")(requests.probe)
app.command("explain")(requests.explain)
app.command("drift")(changes.drift)
app.add_typer(triage.app, name="triage")
app.command("postmortem")(triage.postmortem)
app.add_typer(label.app, name="label")
app.command("calibrate")(calibrate.calibrate)
app.command("replay")(gate.replay)
app.add_typer(gate.app, name="gate")
app.add_typer(align.app, name="align")
app.add_typer(exposure.app, name="exposure")
app.add_typer(grade.app, name="grade")
app.add_typer(changes.releases, name="release")
app.add_typer(changes.sources, name="source")
app.add_typer(services.citing, name="citing")
app.add_typer(services.totals, name="totals")
app.add_typer(monitoring.alerts, name="alerts")
app.add_typer(monitoring.dashboards, name="dashboards")
app.add_typer(verifier.app, name="verifier")
app.command("serve")(receive.serve)
app.command("web")(web.web)
app.command("import")(receive.import_files)
app.add_typer(receive.gold, name="gold")
app.add_typer(analyze.jobs, name="jobs")
app.add_typer(db.app, name="db")
app.command("doctor")(doctor.doctor)


def _with_brackets(command: Any) -> Any:
    """The command with what stands in brackets in the help of its options, such as `[default: all]`: typer would take
    that for markup, and show nothing."""
    for each in command.params:
        if getattr(each, "help", None):
            each.help = _MARKUP.sub(r"\\[", each.help)
    for each in getattr(command, "commands", {}).values():
        _with_brackets(each)
    return command


def main() -> int:
    """Run the command line on `sys.argv` and return the exit code."""
    try:
        _with_brackets(get_command(app))(prog_name="ragtrace")
    except Exception as error:
        refusal = error if isinstance(error, RagtraceError) else missing_extra(error)
        if refusal is None or os.environ.get(variable("debug")) == "1":
            traceback.print_exc()
        if refusal is None:
            print("ragtrace: the error above is a fault of ragtrace; please report it", file=sys.stderr)
            return FAULT
        print(f"ragtrace: {harmless(' '.join(str(refusal).split()))}", file=sys.stderr)
        return 2
    return 0
