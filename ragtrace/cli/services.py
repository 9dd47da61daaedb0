"""`ragtrace totals|citing`: the totals of a service and whether it cites, and how to have them forgotten."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table
from ragtrace.errors import ConfigurationError
from ragtrace.times import shown_time, written_time

if TYPE_CHECKING:
    from ragtrace.store import Citing, Store

__all__ = ["citing", "totals"]

_TOTALS_COLUMNS = ("service", "series", "segments", "requests", "name")
_SHOWN = 10

totals = typer.Typer(
    help="See which services and segments have metrics under their own name, and delete these metrics.",
    no_args_is_help=True,
)


@totals.callback()
def _totals_group() -> None:
    """See which services and segments have metrics under their own name, and delete these metrics."""


@totals.command("list")
def list_totals(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show each service that counts by name: its totals, its segments and its requests, the most totals first."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        rows = list(_services(opened))
    if as_json:
        print_json({"services": rows})
    elif rows:
        shown = ({**row, "name": "its own" if row["has_place"] else "shared"} for row in rows)
        print_table(_TOTALS_COLUMNS, [tuple(_cell(row[name]) for name in _TOTALS_COLUMNS) for row in shown])
    else:
        console().print("no totals yet: they begin with the first request that is recorded")


def _services(opened: Store) -> Iterable[dict[str, Any]]:
    from ragtrace.registry.instruments import REQUESTS

    series: Counter[str] = Counter()
    requests: Counter[str] = Counter()
    segments: dict[str, set[str]] = {}
    for total in opened.totals():
        labels = dict(total.labels)
        if service := labels.get("service"):
            series[service] += 1
            segments.setdefault(service, set()).update({labels["segment"]} if "segment" in labels else ())
            requests[service] += int(total.value) if total.name == REQUESTS.name else 0
    placed = {name for (label, _), names in opened.exposed().items() if label == "service" for name in names}
    for service, number in sorted(series.items(), key=lambda item: (-item[1], item[0])):
        yield {
            "service": service,
            "series": number,
            "segments": len(segments[service]),
            "requests": requests[service],
            "has_place": service in placed,
        }


def _cell(value: str | int) -> str:
    return value if isinstance(value, str) else f"{value:,}"


@totals.command("admit")
def admit(
    services: Annotated[list[str], typer.Argument(metavar="SERVICE...", help="Services that count as `other` today.")],
    store: StoreOption = None,
) -> None:
    """Let services count by name from now on, even beyond the budget of names."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        for service in services:
            done = "counts under its own name from now on" if opened.admit(service) else "does so already"
            console().print(f"{service} {done}", soft_wrap=True)


@totals.command("forget")
def forget_totals(
    service: Annotated[
        list[str],
        typer.Option("--service", help="A service, or a pattern of names such as 'svc-*'; any number of them."),
    ],
    segment: Annotated[
        str | None, typer.Option("--segment", help="Only this segment of it.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete what is exported under a service's name, for good. Its requests stay, and count no second time. Exit code
    1: nothing was found."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    if any(not each for each in (*service, "-" if segment is None else segment)):
        raise ConfigurationError("say whose totals: --service NAME, with --segment NAME if only one of it is meant")
    if as_json and not (yes or dry_run):
        raise ConfigurationError("--json asks nothing; give --yes or --dry-run as well")
    with Store.open(existing(store)) as opened:
        names = _matching(opened, service, segment)
        if not as_json:
            _print_found(names, segment, opened.url)
        if names and not (dry_run or yes):
            typer.confirm("Forget this for good?", abort=True)
        rows: Counter[str] = Counter()
        for name in [] if dry_run else names:
            rows.update(opened.forget_totals(name, segment))
        left = [] if dry_run else _matching(opened, names, segment)
        of = {"services": names, "segment": segment, "store": opened.url, "at": written_time(time.time_ns())}
    if as_json:
        print_json({"dry_run": dry_run, **of, "rows": dict(rows), "left": left})
    elif names and not dry_run:
        _print_forgotten(rows, left)
    if not names:
        raise typer.Exit(1)


def _matching(opened: Store, wanted: Sequence[str], segment: str | None) -> list[str]:
    """The services of which something is exported and that were asked for, by name or by a pattern."""
    labelings = [dict(total.labels) for total in opened.totals()]
    known = {labels["service"] for labels in labelings if "service" in labels}
    if segment is None:
        known |= {*opened.last_success(), *(one.service for one in opened.releases())}
        known |= {one.service for one in opened.sources()}
    else:
        known = {labels["service"] for labels in labelings if labels.get("segment") == segment and "service" in labels}
    return sorted(name for name in known if name in wanted or any(fnmatchcase(name, each) for each in wanted))


def _print_found(names: Sequence[str], segment: str | None, url: str) -> None:
    if not names:
        console().print(f"nothing is exported under such a name from {url}; ragtrace totals list shows the names")
        return
    shown = f"{', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
    of = "" if segment is None else f"the segment {segment} of "
    console().print(f"{of}{len(names):,} service{'' if len(names) == 1 else 's'} of {url}: {shown}", soft_wrap=True)


def _print_forgotten(rows: Mapping[str, int], left: Sequence[str]) -> None:
    listed = ", ".join(f"{number:,} {name}" for name, number in sorted(rows.items()))
    console().print(f"deleted: {listed or 'nothing'}; ragtrace db audit shows it", soft_wrap=True)
    if left:
        console().print(f"counted again meanwhile: {', '.join(left[:_SHOWN])}; end what sends it", soft_wrap=True)


_CITING_COLUMNS = ("service", "citations are", "since", "last answers", "of them cite")
_NONE = "-"
_WORDS = {True: "judged", False: "not judged", None: "not known yet"}

citing = typer.Typer(
    help="See of which services citations are judged, as their answers cite; have that found out anew.",
    no_args_is_help=True,
)


@citing.callback()
def _citing_group() -> None:
    """See of which services citations are judged, as their answers cite; have that found out anew."""


@citing.command("list")
def list_citing(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show each service: whether its citations are judged, since when, and how many of its last answers cite.

    An application that says whether it cites (RAGTRACE_CITES, cites=) is taken at its word, whatever is learned here.
    """
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        found = opened.citing()
    if as_json:
        print_json({"services": [_plain_citing(name, known) for name, known in found.items()]})
    elif found:
        print_table(_CITING_COLUMNS, [_citing_row(name, known) for name, known in found.items()])
    else:
        console().print("nothing is known of any service yet: record requests, then run ragtrace analyze")


@citing.command("forget")
def forget_citing(
    service: Annotated[str, typer.Argument(help="A service that stopped citing, or that was wrongly taken to cite.")],
    store: StoreOption = None,
) -> None:
    """Learn again whether a service cites its sources, from the requests that begin from now on."""
    from ragtrace.cli.terminal import existing
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


def _plain_citing(service: str, known: Citing) -> dict[str, object]:
    return {
        "service": service,
        "cites": known.cites,
        "since": None if known.since is None else written_time(known.since),
        "answers": known.answers,
        "cited": known.cited,
    }


def _citing_row(service: str, known: Citing) -> tuple[str, ...]:
    since = _NONE if known.since is None else shown_time(known.since)
    return service, _WORDS[known.cites], since, f"{known.answers:,}", f"{known.cited:,}"
