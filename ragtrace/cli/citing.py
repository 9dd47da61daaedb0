"""`ragtrace citing`: which services' answers cite, as was learned from them, and how to have it learned anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table
from ragtrace.times import shown_time, written_time

if TYPE_CHECKING:
    from ragtrace.store import Citing

__all__ = ["app"]

_COLUMNS = ("service", "citations are", "since", "last answers", "of them cite")
_NONE = "-"
_WORDS = {True: "judged", False: "not judged", None: "not known yet"}

app = typer.Typer(help="See which services' answers cite, and have it learned anew.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """See which services' answers cite, and have it learned anew."""


@app.command("list")
def list_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show each service: whether its citations are judged, since when, and how many of its last answers cite.

    An application that says whether it cites (RAGTRACE_CITES, cites=) is taken at its word, whatever is learned here.
    """
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        found = opened.citing()
    if as_json:
        print_json({"services": [_plain(name, known) for name, known in found.items()]})
    elif found:
        print_table(_COLUMNS, [_row(name, known) for name, known in found.items()])
    else:
        console().print("nothing is known of any service yet: record requests, then run ragtrace analyze")


@app.command()
def forget(
    service: Annotated[str, typer.Argument(help="The application that stopped to cite, or was wrongly taken to.")],
    store: StoreOption = None,
) -> None:
    """Learn anew whether a service cites, from the requests that begin from now on."""
    from ragtrace.cli.stores import existing
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        known = opened.citing()
        if service not in known:
            raise ConfigurationError.of(
                "service", service, f"one of {', '.join(known) or 'none: nothing is known yet'}"
            )
        counted = opened.forget_citing(service)
    before = "counted as citing" if counted else "did not count as citing"
    console().print(f"{service} {before}; it is learned anew from the requests that begin from now on")


def _plain(service: str, known: Citing) -> dict[str, object]:
    return {
        "service": service,
        "cites": known.cites,
        "since": None if known.since is None else written_time(known.since),
        "answers": known.answers,
        "cited": known.cited,
    }


def _row(service: str, known: Citing) -> tuple[str, ...]:
    since = _NONE if known.since is None else shown_time(known.since)
    return service, _WORDS[known.cites], since, f"{known.answers:,}", f"{known.cited:,}"
