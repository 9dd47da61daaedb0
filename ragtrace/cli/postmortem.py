"""`ragtrace postmortem`: the template of a postmortem, filled with what the store knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtrace.cli.terminal import StoreOption
from ragtrace.cli.triage import ServiceOption, SinceOption, UntilOption

__all__ = ["postmortem"]


def postmortem(
    service: ServiceOption,
    since: SinceOption,
    until: UntilOption = "now",
    segment: Annotated[str | None, typer.Option("--segment", help="A segment.  [default: all of the service]")] = None,
    alert: Annotated[
        str | None, typer.Option("--alert", metavar="FILE", help="The webhook JSON of the alert, for the timeline.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write it, in place of printing.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Write a postmortem's draft: failure chain, timeline, blast radius, proof of recovery, prevention."""
    from ragtrace.cli.stores import existing
    from ragtrace.cli.triage import first_alert, window_of
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store
    from ragtrace.triage.postmortem import postmortem as drafted

    window = window_of(since, until)
    given = first_alert(alert) if alert else None
    with Store.open(existing(store)) as opened:
        text = drafted(opened, service, segment, window, alert=given)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {str(out)!r}: {error.strerror}; give another --out") from error
    typer.echo(f"wrote {out}")
