"""`ragtrace source`: what ingestion jobs say of the sources of documents."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table
from ragtrace.times import TIMES, parse_time, shown_span, shown_time, written_time

if TYPE_CHECKING:
    from ragtrace.store import SourceState

__all__ = ["app"]

_COLUMNS = ("service", "source", "reported", "documents", "change", "newest document", "delay")
_NONE = "-"

app = typer.Typer(help="Say and see how fresh and how complete the sources of documents are.", no_args_is_help=True)

SourceArgument = Annotated[str, typer.Argument(help="The source, as ingestion names it.")]
ServiceOption = Annotated[str, typer.Option("--service", help="The application that searches in the index.")]


@app.callback()
def _group() -> None:
    """Say and see how fresh and how complete the sources of documents are."""


@app.command()
def report(
    source: SourceArgument,
    service: ServiceOption,
    documents: Annotated[
        int | None, typer.Option("--documents", help="How many documents of the source the index holds now.")
    ] = None,
    newest: Annotated[
        str | None, typer.Option("--newest", metavar="TIME", help=f"When its newest document changed: {TIMES}.")
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option("--delay", metavar="SECONDS", help="From a change in the source until it could be found."),
    ] = None,
    at: Annotated[str, typer.Option("--at", metavar="TIME", help=f"When the job ended: {TIMES}.")] = "now",
    store: StoreOption = None,
) -> None:
    """Say what an ingestion job has done, after each of its runs."""
    from ragtrace.cli.stores import existing
    from ragtrace.record.reports import read_report
    from ragtrace.store import Store

    said = read_report(
        service,
        source,
        documents=documents,
        newest_at=None if newest is None else parse_time("--newest", newest),
        delay_seconds=delay,
        reported_at=parse_time("--at", at),
    )
    with Store.open(existing(store)) as opened:
        opened.write([said])
    console().print(f"{said.service} {said.source} reported at {shown_time(said.reported_at)}")


@app.command("list")
def list_(
    service: Annotated[str | None, typer.Option("--service", help="Only this service.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show each source by its last reports. A change that is unusual for the source is marked."""
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        found = opened.sources(service)
    now = time.time_ns()
    if as_json:
        print_json({"sources": [_plain(each, now) for each in found]})
    elif found:
        print_table(_COLUMNS, [_row(each, now) for each in found])
    else:
        of = "" if service is None else f" of service {service!r}"
        console().print(
            f"no source{of} is reported yet: ragtrace source report SOURCE --service NAME, or ragtrace.source_report"
        )


@app.command()
def forget(source: SourceArgument, service: ServiceOption, store: StoreOption = None) -> None:
    """Delete all reports on a source that is no longer ingested, so that it is not taken for a stale one."""
    from ragtrace.cli.stores import existing
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        if not opened.forget_source(service, source):
            known = sorted(each.source for each in opened.sources(service))
            raise ConfigurationError.of("source", source, f"one of {service}: {', '.join(known) or 'none is reported'}")
    console().print(f"{service} {source} is forgotten")


def _plain(state: SourceState, now: int) -> dict[str, Any]:
    return {
        "service": state.service,
        "source": state.source,
        "reported_at": written_time(state.reported_at),
        "documents": state.documents,
        "usual_documents": state.usual_documents,
        "change": state.change,
        "is_unusual": state.is_unusual,
        "newest_at": None if state.newest_at is None else written_time(state.newest_at),
        "newest_age_seconds": None if state.newest_at is None else (now - state.newest_at) / 1e9,
        "delay_seconds": state.delay_seconds,
    }


def _row(state: SourceState, now: int) -> tuple[str, ...]:
    return (
        state.service,
        state.source,
        _age(state.reported_at, now),
        _NONE if state.documents is None else f"{state.documents:,}",
        _change(state),
        _NONE if state.newest_at is None else _age(state.newest_at, now),
        _NONE if state.delay_seconds is None else shown_span(state.delay_seconds),
    )


def _age(at: int, now: int) -> str:
    return f"{shown_span(max(0, now - at) / 1e9)} ago"


def _change(state: SourceState) -> str:
    if state.change is None:
        return "unusual" if state.is_unusual else _NONE
    return f"{state.change:+.0%}{' unusual' if state.is_unusual else ''}"
