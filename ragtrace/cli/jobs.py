"""`ragtrace jobs`: the queue of analyses, for the hand: look, run dead jobs again, take jobs out."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table
from ragtrace.errors import ConfigurationError
from ragtrace.times import shown_span

if TYPE_CHECKING:
    from ragtrace.store import JobRow, JobState

__all__ = ["app"]

_COLUMNS: Final = ("job", "request", "kind", "service", "state", "tries", "since", "next", "last error")
_ERROR: Final = 60  # characters of an error in the table
_NONE: Final = "-"

app = typer.Typer(help="Look at the queue of analyses, run dead jobs again, take jobs out.", no_args_is_help=True)

IdsArgument = Annotated[list[int] | None, typer.Argument(metavar="JOB...", help="Numbers of jobs.", show_default=False)]
AllOption = Annotated[bool, typer.Option("--all", help="All that fit, in place of numbers.")]
KindOption = Annotated[str | None, typer.Option("--kind", help="coverage or attribution.  [default: both]")]
ServiceOption = Annotated[str | None, typer.Option("--service", help="Of this application alone.")]


@app.callback()
def _group() -> None:
    """Look at the queue of analyses, run dead jobs again, take jobs out."""


@app.command("list")
def list_jobs(
    state: Annotated[
        str | None, typer.Option("--state", help="pending, leased, done or dead.  [default: all but done]")
    ] = None,
    kind: KindOption = None,
    service: ServiceOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, the newest first.")] = 50,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print jobs, the newest first."""
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store

    kind = _kind(kind)
    wanted = [_state(state)] if state is not None else [each for each in _states() if each != "done"]
    with Store.open(existing(store)) as opened:
        found = [row for each in wanted for row in opened.jobs(state=each, kind=kind, service=service, limit=limit)]
    found = sorted(found, key=lambda row: -row.id)[:limit]
    if as_json:
        print_json([asdict(row) for row in found])
    elif not found:
        console().print("no such jobs")
    else:
        now = time.time()
        print_table(_COLUMNS, (_row(row, now) for row in found))


@app.command()
def retry(
    jobs: IdsArgument = None,
    every: AllOption = False,
    kind: KindOption = None,
    service: ServiceOption = None,
    store: StoreOption = None,
) -> None:
    """Let dead jobs run again, with all their attempts."""
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store

    ids, kind = _chosen("retry", jobs, every=every), _kind(kind)
    with Store.open(existing(store)) as opened:
        count = opened.retry_jobs(ids, kind=kind, service=service)
    _said("enqueued again", count, ids)


@app.command()
def drop(
    jobs: IdsArgument = None,
    every: AllOption = False,
    state: Annotated[str, typer.Option("--state", help="dead, pending or done.")] = "dead",
    kind: KindOption = None,
    service: ServiceOption = None,
    store: StoreOption = None,
) -> None:
    """Take jobs out of the queue. Their requests stay, unanalyzed."""
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store

    ids, wanted, kind = _chosen("drop", jobs, every=every), _state(state), _kind(kind)
    if wanted == "leased":
        raise ConfigurationError.of("--state", state, "dead, pending or done: a worker has leased jobs in hand")
    with Store.open(existing(store)) as opened:
        count = opened.drop_jobs(ids, state=wanted, kind=kind, service=service)
    _said("dropped", count, ids)


def _states() -> tuple[JobState, ...]:
    from ragtrace.store import JobState

    return get_args(JobState)


def _state(given: str) -> JobState:
    for state in _states():
        if given == state:
            return state
    raise ConfigurationError.of("--state", given, ", ".join(_states()))


def _kind(given: str | None) -> str | None:
    from ragtrace.store import ATTRIBUTION, COVERAGE

    if given not in (None, COVERAGE, ATTRIBUTION):
        raise ConfigurationError.of("--kind", given, f"{COVERAGE} or {ATTRIBUTION}")
    return given


def _chosen(verb: str, jobs: list[int] | None, *, every: bool) -> list[int] | None:
    """The numbers that were given; None for all."""
    if bool(jobs) == every:
        raise ConfigurationError(f"name the jobs (ragtrace jobs {verb} 12 13) or give --all, one of the two")
    return None if every else jobs


def _said(what: str, count: int, ids: list[int] | None) -> None:
    left = 0 if ids is None else len(set(ids)) - count
    others = f"; {left:,} {'is' if left == 1 else 'are'} in another state or not there" if left else ""
    typer.echo(f"{count:,} {what}{others}")


def _row(row: JobRow, now: float) -> tuple[str, ...]:
    due = row.lease_expires_at if row.state == "leased" else row.available_at if row.state == "pending" else None
    return (
        str(row.id),
        row.request_id[:16],
        row.kind,
        row.service,
        row.state + (" *" if row.flagged else ""),
        str(row.attempts),
        shown_span(max(0.0, now - row.created_at)),
        _NONE if due is None else "now" if due <= now else shown_span(due - now),
        (row.error or _NONE)[:_ERROR],
    )
