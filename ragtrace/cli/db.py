"""`ragtrace db`: the schema of a store, and its upkeep."""

from __future__ import annotations

import typer

from ragtrace.cli import upkeep
from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json

__all__ = ["app"]

app = typer.Typer(
    help="Look after a store: its schema, what is old, what nobody uses, what must go, what is broken.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Look after a store: its schema, what is old, what nobody uses, what must go, what is broken."""


@app.command()
def upgrade(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Bring the database to the schema of this ragtrace; make it when it does not exist."""
    from ragtrace import config
    from ragtrace.store import migrate

    revision = migrate(config.load(store=store).store)
    if as_json:
        print_json({"revision": revision})
    else:
        console().print(f"schema revision {revision}")


app.command("prune")(upkeep.prune)
app.command("vacuum")(upkeep.vacuum)
app.command("erase")(upkeep.erase)
app.command("check")(upkeep.check)
app.command("audit")(upkeep.audit)
