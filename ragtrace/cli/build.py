"""`ragtrace build`: the worker that builds and stores what applications with `build="worker"` have handed over."""

from __future__ import annotations

import signal
import time
from typing import Annotated, Final

import typer

from ragtrace.cli.terminal import Ending, JsonOption, StoreOption, console, option, print_json, shown

__all__ = ["build"]

_PAUSE: Final = 0.5  # seconds between two looks
_RETRY: Final = (1.0, 60.0)  # seconds until the store is tried again, longer each time


def build(
    store: StoreOption = None,
    spool: Annotated[str | None, option("spool", metavar="FOLDER")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more until Ctrl-C or SIGTERM.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Build and store the requests that applications on this machine have handed over (`build="worker"`).

    It runs as the user that the applications run as. Killed at any moment, it can be run again.
    """
    from ragtrace import config
    from ragtrace.collect import Builder, default_folder, fallback_folder
    from ragtrace.store import Store

    settings = config.load(store=store, spool=spool)
    url = settings.store
    folders = list(dict.fromkeys((default_folder(url, settings.spool), fallback_folder(url))))
    if not any(folder.is_dir() for folder in folders):
        console(stderr=True).print(
            f"nothing has been handed over yet: {folders[0]} is not there; give the URL of the store and the spool "
            "exactly as the application has them",
            soft_wrap=True,
        )
    builder = Builder(lambda: Store.open(url), folders, _RETRY)
    with Ending() as ending:
        try:
            while ending.signal is None:
                if not builder.step():
                    if not follow:
                        break
                    time.sleep(_PAUSE)
        finally:
            waiting = builder.waiting
            builder.close()
    if as_json:
        print_json({"stored": builder.stored, "waiting_bytes": waiting})
    else:
        left = f"; {waiting:,} bytes wait in {folders[0]}: the store takes nothing (see above)" if waiting else ""
        console().print(f"{builder.stored:,} stored in {shown(url)}{left}", soft_wrap=True)
    if ending.signal == signal.SIGINT:
        raise typer.Exit(130)
    if waiting:
        raise typer.Exit(1)
