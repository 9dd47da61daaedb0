"""`ragtrace release`: which version of a component came into use when."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table
from ragtrace.times import TIMES, parse_time, shown_time, written_time

if TYPE_CHECKING:
    from ragtrace.store import Release

__all__ = ["app"]

_COLUMNS = ("service", "component", "version", "in use since", "recorded", "first request")
_LONGEST = 200  # characters of a name
_EARLIEST = 1 - 2**63  # nanoseconds, 1677-09-21: a store keeps no earlier time

app = typer.Typer(help="Say and see which version of a component came into use when.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Say and see which version of a component came into use when."""


@app.command()
def record(
    service: Annotated[str, typer.Option("--service", help="The application.")],
    component: Annotated[str, typer.Option("--component", help="Its part: `reranker`, `index`, `model`, ...")],
    version: Annotated[str, typer.Option("--version", help="As its requests carry it.")],
    at: Annotated[str, typer.Option("--at", metavar="TIME", help=f"When it came into use: {TIMES}.")] = "now",
    store: StoreOption = None,
) -> None:
    """Say that a version of a component has come into use. Said again, the new time replaces the former one."""
    from ragtrace.cli.stores import existing
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store

    when = parse_time("--at", at)
    if when < _EARLIEST:
        raise ConfigurationError.of("--at", at, "a time from 1678 on")
    names = {"service": service, "component": component, "version": version}
    service, component, version = (_name(f"--{field}", given) for field, given in names.items())
    with Store.open(existing(store)) as opened:
        opened.record_release(service, component, version, when)
    console().print(f"{service} {component}={version} in use since {shown_time(when)}")
    _note(component)


@app.command()
def forget(
    service: Annotated[str, typer.Option("--service", help="The application.")],
    component: Annotated[str, typer.Option("--component", help="Its part.")],
    version: Annotated[str, typer.Option("--version", help="What was recorded of it.")],
    store: StoreOption = None,
) -> None:
    """Take back what was recorded by mistake. A version that requests carried stays, from the first of them on."""
    from ragtrace.cli.stores import existing
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        if not opened.forget_release(service, component, version):
            allowed = "one that was recorded; ragtrace release list shows them"
            raise ConfigurationError.of("release", f"{service} {component}={version}", allowed)
    console().print(f"{service} {component}={version} is forgotten")


@app.command("list")
def list_(
    service: Annotated[str | None, typer.Option("--service", help="Only this service.")] = None,
    component: Annotated[str | None, typer.Option("--component", help="Only this component.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show all releases, newest first: those that somebody recorded, and those that requests carried."""
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        found = [each for each in reversed(opened.releases(service)) if component in (None, each.component)]
    if as_json:
        print_json({"releases": list(map(_plain, found))})
    elif found:
        print_table(_COLUMNS, map(_row, found))
    elif service is not None or component is not None:
        console().print("no such release is known; ragtrace release list shows all, ragtrace release record adds one")
    else:
        console().print("no release is known yet: ragtrace release record, or configure(versions={...})")


def _name(option: str, given: str) -> str:
    from ragtrace.errors import ConfigurationError

    text = given.strip()
    if not text or len(text) > _LONGEST:
        raise ConfigurationError.of(option, given, f"a name of 1 to {_LONGEST} characters")
    return text


def _note(component: str) -> None:
    """Say, on stderr, when no diagnosis will suspect a component: it may be misspelled, and it may be meant."""
    from ragtrace.registry.instruments import STAGES

    known = sorted({name for stage in STAGES for name in stage.components})
    if component not in known:
        near = get_close_matches(component, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        console(stderr=True).print(
            f"note: {component} belongs to no stage, so that no diagnosis suspects it ({', '.join(known)} do){meant}"
        )


def _plain(release: Release) -> dict[str, Any]:
    def written(at: int | None) -> str | None:
        return None if at is None else written_time(at)

    return {
        "service": release.service,
        "component": release.component,
        "version": release.version,
        "at": written(release.at),
        "recorded_at": written(release.recorded_at),
        "first_seen_at": written(release.first_seen_at),
    }


def _row(release: Release) -> tuple[str, ...]:
    seen = "none yet" if release.first_seen_at is None else shown_time(release.first_seen_at)
    recorded = "-" if release.recorded_at is None else shown_time(release.recorded_at)
    return release.service, release.component, release.version, shown_time(release.at), recorded, seen
