"""`ragtrace totals|citing|release|source|drift`: what is known of a service beside its requests: its totals, whether it
cites, its versions, the sources of its documents and its index builds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table
from ragtrace.errors import ConfigurationError
from ragtrace.formats import TIMES, parse_time, shown_span, shown_time, written_time

if TYPE_CHECKING:
    from ragtrace.store import Citing, Drift, Release, SourceState, Store

__all__ = ["citing", "drift", "releases", "sources", "totals"]

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


_RELEASE_COLUMNS = ("service", "component", "version", "in use since", "recorded", "first request")
_LONGEST = 200  # characters of a name
_EARLIEST = 1 - 2**63  # nanoseconds, 1677-09-21: a store keeps no earlier time

releases = typer.Typer(help="Record and show when versions of components came into use.", no_args_is_help=True)


@releases.callback()
def _release_group() -> None:
    """Record and show when versions of components came into use."""


@releases.command("record")
def record_release(
    service: Annotated[str, typer.Option("--service", help="The service.")],
    component: Annotated[str, typer.Option("--component", help="The component: `reranker`, `index`, `model`, ...")],
    version: Annotated[str, typer.Option("--version", help="The version, as requests carry it.")],
    at: Annotated[str, typer.Option("--at", metavar="TIME", help=f"When it came into use: {TIMES}.")] = "now",
    store: StoreOption = None,
) -> None:
    """Record that a version of a component came into use. Recorded again, the new time replaces the old one."""
    from ragtrace.cli.terminal import existing
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


@releases.command("forget")
def forget_release(
    service: Annotated[str, typer.Option("--service", help="The service.")],
    component: Annotated[str, typer.Option("--component", help="The component.")],
    version: Annotated[str, typer.Option("--version", help="The version that was recorded.")],
    store: StoreOption = None,
) -> None:
    """Delete a release that was recorded by mistake. A version that requests carried stays, dated by the first one."""
    from ragtrace.cli.terminal import existing
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        if not opened.forget_release(service, component, version):
            allowed = "one that was recorded; ragtrace release list shows them"
            raise ConfigurationError.of("release", f"{service} {component}={version}", allowed)
    console().print(f"{service} {component}={version} is forgotten")


@releases.command("list")
def list_releases(
    service: Annotated[str | None, typer.Option("--service", help="Only this service.")] = None,
    component: Annotated[str | None, typer.Option("--component", help="Only this component.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show all releases, newest first: those that somebody recorded, and those that requests carried."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        found = [each for each in reversed(opened.releases(service)) if component in (None, each.component)]
    if as_json:
        print_json({"releases": list(map(_plain_release, found))})
    elif found:
        print_table(_RELEASE_COLUMNS, map(_release_row, found))
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


def _plain_release(release: Release) -> dict[str, Any]:
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


def _release_row(release: Release) -> tuple[str, ...]:
    seen = "none yet" if release.first_seen_at is None else shown_time(release.first_seen_at)
    recorded = "-" if release.recorded_at is None else shown_time(release.recorded_at)
    return release.service, release.component, release.version, shown_time(release.at), recorded, seen


_SOURCE_COLUMNS = ("service", "source", "reported", "documents", "change", "newest document", "delay")
_NONE = "-"

sources = typer.Typer(
    help="Record and show how fresh and how complete the sources of documents are.", no_args_is_help=True
)

SourceArgument = Annotated[str, typer.Argument(help="The source, as ingestion names it.")]
ServiceOption = Annotated[str, typer.Option("--service", help="The service that searches the index.")]


@sources.callback()
def _source_group() -> None:
    """Record and show how fresh and how complete the sources of documents are."""


@sources.command("report")
def report_source(
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
        typer.Option("--delay", metavar="SECONDS", help="Time from a change in the source until it could be found."),
    ] = None,
    at: Annotated[str, typer.Option("--at", metavar="TIME", help=f"When the job ended: {TIMES}.")] = "now",
    store: StoreOption = None,
) -> None:
    """Report what an ingestion job has done. Run it after each run of the job."""
    from ragtrace.cli.terminal import existing
    from ragtrace.record.external_reports import read_report
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


@sources.command("list")
def list_sources(
    service: Annotated[str | None, typer.Option("--service", help="Only this service.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show each source by its last reports. A change that is unusual for the source is marked."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        found = opened.sources(service)
    now = time.time_ns()
    if as_json:
        print_json({"sources": [_plain_source(each, now) for each in found]})
    elif found:
        print_table(_SOURCE_COLUMNS, [_source_row(each, now) for each in found])
    else:
        of = "" if service is None else f" of service {service!r}"
        console().print(
            f"no source{of} is reported yet: ragtrace source report SOURCE --service NAME, or ragtrace.source_report"
        )


@sources.command("forget")
def forget_source(source: SourceArgument, service: ServiceOption, store: StoreOption = None) -> None:
    """Delete all reports on a source that is no longer ingested, so that it is not taken for a stale one."""
    from ragtrace.cli.terminal import existing
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        if not opened.forget_source(service, source):
            known = sorted(each.source for each in opened.sources(service))
            raise ConfigurationError.of("source", source, f"one of {service}: {', '.join(known) or 'none is reported'}")
    console().print(f"{service} {source} is forgotten")


def _plain_source(state: SourceState, now: int) -> dict[str, Any]:
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


def _source_row(state: SourceState, now: int) -> tuple[str, ...]:
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


_DRIFT_COLUMNS = ("service", "from", "to", "chunks", "unchanged", "rewritten", "renumbered")


def drift(
    service: Annotated[str | None, typer.Option("--service", help="Only this service.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the chunks of each index version with those of the version before it, as far as requests found them."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        found = opened.drift(service)
    if as_json:
        print_json({"drift": [_plain_drift(each) for each in found]})
    elif found:
        print_table(_DRIFT_COLUMNS, map(_drift_row, found))
        console().print("\n".join(line for each in found for line in _examples(each)))
    else:
        console().print("nothing to compare yet: no analyzed chunk was found under two versions of an index")


def _plain_drift(drift_found: Drift) -> dict[str, Any]:
    return {
        "service": drift_found.service,
        "from": drift_found.previous_version,
        "to": drift_found.version,
        "chunks": drift_found.chunks,
        "unchanged": drift_found.unchanged,
        "rewritten": drift_found.rewritten,
        "renumbered": drift_found.renumbered,
        "rewritten_ids": list(drift_found.rewritten_ids),
        "renumbered_ids": [{"from": before, "to": now} for before, now in drift_found.renumbered_ids],
    }


def _drift_row(found: Drift) -> tuple[str, ...]:
    counts = (found.chunks, found.unchanged, found.rewritten, found.renumbered)
    return (found.service, found.previous_version, found.version, *map(str, counts))


def _examples(found: Drift) -> list[str]:
    place = f"{found.service} {found.version}"
    moved = [f"{before} → {now}" for before, now in found.renumbered_ids]
    named = (("rewritten", list(found.rewritten_ids)), ("renumbered", moved))
    return [f"{place} {kind}, for example: {', '.join(ids)}" for kind, ids in named if ids]
