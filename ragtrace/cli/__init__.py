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
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from ragtrace.cli import (
    align,
    analyze,
    calibrate,
    db,
    demo,
    doctor,
    explain,
    exposure,
    gate,
    grade,
    label,
    monitoring,
    receive,
    replay,
    requests,
    services,
    triage,
    verifier,
)
from ragtrace.cli.doctor import version
from ragtrace.config import variable
from ragtrace.errors import RagtraceError
from ragtrace.installation import missing_extra
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


_Verb = Callable[..., Any] | typer.Typer
_VERBS: Final[dict[str, dict[str, _Verb]]] = {
    "Record: requests come in": {
        "demo": demo.demo,
        "serve": receive.serve,
        "import": receive.import_files,
        "build": receive.build,
        "source": services.sources,
    },
    "Judge: what is known of each request": {
        "analyze": analyze.analyze,
        "gold": receive.gold,
        "label": label.app,
        "calibrate": calibrate.calibrate,
        "citing": services.citing,
        "verifier": verifier.app,
    },
    "Look: what broke, where, since when": {
        "web": monitoring.web,
        "show": requests.show,
        "triage": triage.app,
        "explain": explain.explain,
        "probe": requests.probe,
        "grade": grade.app,
        "drift": services.drift,
        "align": align.app,
        "exposure": exposure.app,
        "postmortem": triage.postmortem,
    },
    "Release: a new version": {
        "replay": replay.replay,
        "gate": gate.app,
        "release": services.releases,
    },
    "Operate: the store, metrics and alerts": {
        "doctor": doctor.doctor,
        "db": db.app,
        "jobs": analyze.jobs,
        "export": monitoring.export,
        "alerts": monitoring.alerts,
        "dashboards": monitoring.dashboards,
        "totals": services.totals,
    },
}
"""The verbs in the groups that `ragtrace --help` shows, by name."""

for _panel, _verbs in _VERBS.items():
    for _name, _verb in _verbs.items():
        if isinstance(_verb, typer.Typer):
            app.add_typer(_verb, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, rich_help_panel=_panel)(_verb)


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
