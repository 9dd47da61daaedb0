"""`ragtrace analyze`: works through the queue of analysis jobs."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Annotated, Any, Self

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, progress

__all__ = ["analyze"]


def analyze(
    store: StoreOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new jobs until Ctrl-C or SIGTERM.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="End after so many jobs.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Score the recorded requests that wait in the queue. Killed at any moment, it can be run again."""
    from ragtrace.analyze import worker
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened, _Ending() as ending, progress() as bar:
        waiting = opened.queue_depth().get("pending", 0)
        task = bar.add_task("analyzing", total=None if follow else min(waiting, limit or waiting))
        summary = worker.run(
            opened,
            follow=follow,
            limit=limit,
            on_progress=lambda so_far: bar.update(task, completed=so_far.done + so_far.failed),
            stop=lambda: ending.signal is not None,
        )
    counts = {"done": summary.done, "failed": summary.failed, "lost": summary.lost}
    if as_json:
        print_json(counts)
    else:
        console().print(", ".join(f"{count} {name}" for name, count in counts.items()))
    if ending.signal == signal.SIGINT:
        raise typer.Exit(130)


class _Ending:
    """Notes SIGINT or SIGTERM, so that the batch at hand is committed first. A second SIGINT ends at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
