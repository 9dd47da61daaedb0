"""`ragtrace analyze`: works through the queue of analysis jobs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, progress

if TYPE_CHECKING:
    from ragtrace.types import Analysis, RequestRecord

__all__ = ["analyze"]


def analyze(
    store: StoreOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new jobs until Ctrl-C or SIGTERM.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="End after so many jobs.")] = None,
    events: Annotated[
        bool,
        typer.Option(
            "--events",
            envvar="RAGTRACE_EVENTS",
            help="Also send each score as an OpenTelemetry event over OTLP (OTEL_EXPORTER_OTLP_ENDPOINT).",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score the recorded requests that wait in the queue. Killed at any moment, it can be run again."""
    from ragtrace.analyze import worker
    from ragtrace.cli.stores import existing
    from ragtrace.config import load
    from ragtrace.store import Store

    url = existing(store)
    with _events(events) as on_result, Store.open(url) as opened, _Ending() as ending, progress() as bar:
        waiting = opened.queue_depth().get("pending", 0)
        task = bar.add_task("analyzing", total=None if follow else min(waiting, limit or waiting))
        summary = worker.run(
            opened,
            follow=follow,
            limit=limit,
            low_score=load().low_score,
            on_progress=lambda so_far: bar.update(task, completed=so_far.done + so_far.failed),
            on_result=on_result,
            stop=lambda: ending.signal is not None,
        )
    counts = {"done": summary.done, "failed": summary.failed, "lost": summary.lost}
    if as_json:
        print_json(counts)
    else:
        console().print(", ".join(f"{count} {name}" for name, count in counts.items()))
    if ending.signal == signal.SIGINT:
        raise typer.Exit(130)


@contextmanager
def _events(wanted: bool) -> Iterator[Callable[[RequestRecord, Analysis], None] | None]:
    """What sends a result's events; those that wait are sent at the end."""
    if not wanted:
        yield None
        return
    from ragtrace.export.events import EvaluationEvents

    events = EvaluationEvents.open()
    try:
        yield events.emit
    finally:
        events.close()


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
