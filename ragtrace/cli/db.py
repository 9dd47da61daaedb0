"""`ragtrace db`: the schema of a store and its upkeep: it stays small, whole, and free of what must not be in it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, progress
from ragtrace.errors import ConfigurationError
from ragtrace.formats import parse_span, shown_time, written_time

if TYPE_CHECKING:
    from ragtrace.store import Erased, Kept, Space

__all__ = ["app"]

_READ: Final = "somebody reads the database; run `ragtrace db vacuum --{}` when that has ended"
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")]


app = typer.Typer(
    help="Look after a store: upgrade its schema, delete old requests, erase somebody's data, check it.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Look after a store: upgrade its schema, delete old requests, erase somebody's data, check it."""


@app.command("upgrade")
def upgrade(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Bring the database to the schema of this ragtrace; make it when it does not exist."""
    from ragtrace import config
    from ragtrace.store import migrate

    revision = migrate(config.load(store=store).store)
    if as_json:
        print_json({"revision": revision})
    else:
        console().print(f"schema revision {revision}")


@app.command("prune")
def prune(
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="KIND=SPAN",
            help="How long requests are kept, by kind: all, random, flagged, feedback, broken, replay. Kind waiting: "
            "feedback, addenda and spans whose request never came. Kind counted: the notes that keep a request from "
            "being counted twice. Repeat the option for each kind: --keep random=30d --keep flagged=180d.",
            show_default=False,
        ),
    ] = None,
    keep_reports: Annotated[
        int | None,
        typer.Option("--keep-reports", min=21, help="How many reports of each source stay.", show_default=False),
    ] = None,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete old requests with all that belongs to them, while others write. What was counted stays."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    periods = _periods(keep or [])
    if not periods and keep_reports is None:
        raise ConfigurationError("say what to keep for how long: --keep random=30d, or --keep-reports 1000")
    with Store.open(existing(store)) as opened, progress() as bar:
        task = bar.add_task("deleting", total=None)
        pruned = opened.prune(
            periods,
            reports=keep_reports,
            dry_run=dry_run,
            on_batch=lambda done: bar.update(task, completed=done.rows.get("request", 0)),
        )
    if as_json:
        print_json({"dry_run": dry_run, "rows": dict(pruned.rows), "busy": pruned.busy})
        return
    _print_rows("would be deleted" if dry_run else "deleted", pruned.rows)
    if pruned.busy:
        console().print(f"{pruned.busy:,} requests were in use and stay until the next run")


def _periods(given: Sequence[str]) -> dict[Kept, float]:
    """The spans by kind, in seconds."""
    from ragtrace.store.retention import KINDS

    periods: dict[Kept, float] = {}
    for each in given:
        name, _, span = each.partition("=")
        kind = next((known for known in KINDS if known == name.strip()), None)
        if kind is None or not span or kind in periods:
            allowed = f"each of {', '.join(KINDS)} once, with its span: random=30d"
            raise ConfigurationError.of("--keep", each, allowed)
        periods[kind] = parse_span(f"--keep {kind}=", span)
    return periods


@app.command("vacuum")
def vacuum(
    compact: Annotated[
        bool,
        typer.Option(
            "--compact",
            help="Give free space back afterwards. SQLite: the file is written anew; it needs twice its size on disk, "
            "and writers wait. PostgreSQL: VACUUM and ANALYZE.",
        ),
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="As --compact, and write PostgreSQL's tables anew (VACUUM FULL), so that no copy of a deleted row is "
            "left. That needs as much free disk as the largest table takes; a table is locked while it is written.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete the texts that no request uses any more, while others write."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    if (compact or full) and dry_run:
        raise ConfigurationError("give --compact (or --full) or --dry-run, one of the two")
    with Store.open(existing(store)) as opened, progress() as bar:
        task = bar.add_task("looking for texts that are not used", total=None)
        swept = opened.collect_garbage(
            dry_run=dry_run, on_batch=lambda done: bar.update(task, total=done.texts, completed=done.examined)
        )
        before, after, clean = opened.compact(full=full) if compact or full else (None, None, None)
    if as_json:
        space = {"before": asdict(before), "after": asdict(after), "clean": clean} if before and after else None
        print_json({"dry_run": dry_run, **asdict(swept), "space": space})
        return
    freed = "" if dry_run else f", {_size(swept.bytes)}"
    done = "are not used" if dry_run else "were not used and are deleted"
    console().print(f"{swept.deleted:,} of {swept.texts:,} texts {done}{freed}")
    if before and after:
        console().print(f"the database has {_size(after.bytes)}, {_size(before.bytes)} before")
    if clean is False:
        what = "its tables still hold" if full else "its write-ahead log could not be emptied, and may hold"
        how = _READ.format("full" if full else "compact")
        console().print(f"{what} copies of deleted rows: {how}", soft_wrap=True)


@app.command("erase")
def erase(
    tenant: Annotated[str | None, typer.Option("--tenant", help="All that a tenant sent.", show_default=False)] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="A session; with --tenant, of that tenant.", show_default=False)
    ] = None,
    request: Annotated[
        list[str] | None, typer.Option("--request", help="A request by its id; any number of them.", show_default=False)
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            metavar="TEXT",
            help="The reason that `ragtrace db audit` shows, such as a ticket number. It stays in the store: "
            "do not write whose data it is.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    rewrite: Annotated[
        bool,
        typer.Option(
            "--rewrite/--no-rewrite",
            help="At the end, write the SQLite file or PostgreSQL's tables anew, so that no copy of a deleted row "
            "is left. Others wait until that is done.",
        ),
    ] = True,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete at once all that is stored of a tenant, a session or requests, for good. Exit code 1: nothing was found,
    or more arrived meanwhile."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store, Subject

    subject = Subject(tenant=tenant, session=session, requests=tuple(request or ()))
    if not any((tenant, session, request)) or any(each == "" for each in (tenant, session, *subject.requests)):
        raise ConfigurationError("say whose data: --tenant NAME, --session ID or --request ID")
    if request and (tenant or session):
        raise ConfigurationError("give --request by itself: requests have their ids whoever sent them")
    if as_json and not (yes or dry_run):
        raise ConfigurationError("--json asks nothing; give --yes or --dry-run as well")
    named = "|".join(re.escape(each) for each in (tenant, session, *subject.requests) if each is not None)
    if reference is not None and re.search(rf"(?<!\w)(?:{named})(?!\w)", reference):
        raise ConfigurationError("--reference stays in the store: give a number, and no name of what is erased")
    with Store.open(existing(store)) as opened:
        of = {"subject": asdict(subject), "store": opened.url}
        if dry_run or not yes:
            erased = opened.find_subject(subject)
            if as_json:
                _print_proof(erased, None, of)
            else:
                _print_subject(erased, of, "would be deleted, and the texts that no other request uses")
            if dry_run:
                raise typer.Exit(0 if _is_something(erased) else 1)
            if _is_something(erased):
                typer.confirm("Delete this for good?", abort=True)
        erased = opened.erase(subject, rewrite=rewrite, reference=reference)
        remaining = opened.find_subject(subject)
    if as_json:
        _print_proof(erased, remaining, of)
    else:
        _print_erased(erased, remaining, of)
    if not _is_something(erased) or _is_something(remaining):
        raise typer.Exit(1)


def _print_proof(found: Erased, left: Erased | None, of: Mapping[str, Any]) -> None:
    """As JSON; `left` is None where nothing was deleted."""
    moment = {"dry_run": left is None, **of, "at": written_time(time.time_ns())}
    print_json({**moment, **asdict(found), "left": None if left is None else dict(left.rows)})


def _is_something(found: Erased) -> bool:
    """Whether it is of the subject: texts alone are what an erasure that was ended has left, or garbage."""
    return any(number for table, number in found.rows.items() if table != "content")


def _print_subject(erased: Erased, of: Mapping[str, Any], what: str) -> None:
    if not _is_something(erased):
        console().print(f"nothing is stored of {_named(of)}", soft_wrap=True)
        return
    shown = (
        f" ({', '.join(erased.first)}{', ...' if erased.requests > len(erased.first) else ''})" if erased.first else ""
    )
    console().print(f"{erased.requests:,} request{'' if erased.requests == 1 else 's'}{shown}")
    _print_rows(what, erased.rows)
    if erased.exemplars:
        console().print(f"{erased.exemplars:,} series of /metrics had one of their traces as the example")


def _named(of: Mapping[str, Any]) -> str:
    """Whose data, and where, as a proof says it."""
    said = of["subject"]
    names = [f"{name} {said[name]!r}" for name in ("tenant", "session") if said[name] is not None]
    names += [f"request {each!r}" for each in said["requests"]]
    return f"{', '.join(names)} in {of['store']}"


def _print_erased(erased: Erased, remaining: Erased, of: Mapping[str, Any]) -> None:
    _print_subject(erased, of, "deleted")
    if not _is_something(erased):
        if erased.rows:
            _print_rows("deleted, since no request uses it any more", erased.rows)
        console().print(
            "look whether the name and the database are right; what was erased before is not found again, and the "
            "output of that run is its proof",
            soft_wrap=True,
        )
        return
    is_file = of["store"].startswith("sqlite")
    what, how = ("file", "compact") if is_file else ("tables", "full")
    if erased.rewritten is False:
        console().print(
            f"the {what} may hold copies of deleted rows: ragtrace db vacuum --{how} writes them anew", soft_wrap=True
        )
    if erased.emptied is False:
        holds = "write-ahead log still holds" if is_file else "tables still hold"
        console().print(f"the {holds} copies of deleted rows: {_READ.format(how)}", soft_wrap=True)
    is_whole = of["subject"]["tenant"] is not None and of["subject"]["session"] is None and not erased.shared
    kept = "" if is_whole else "gold sets, reports of the gate, "
    server = "" if is_file else "the server's write-ahead log and replicas, "
    console().print(
        f"not touched: {kept}{server}backups, spool files of hosts, and what other tools recorded", soft_wrap=True
    )
    if erased.shared:
        console().print(
            f"of {', '.join(erased.shared)}, which others may have sent to as well, all that is kept by service stays: "
            "totals, releases, sources, gold sets; where nobody else did, `ragtrace totals forget` deletes the totals",
            soft_wrap=True,
        )
    if _is_something(remaining):
        _print_rows(f"came meanwhile of {_named(of)}, to be erased again", remaining.rows)
    else:
        console().print(f"{shown_time(time.time_ns())}: nothing is left of {_named(of)}", soft_wrap=True)


@app.command("search")
def search(
    switch: Annotated[
        str | None, typer.Argument(metavar="[on|off]", help="Without: print whether search is on.", show_default=False)
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make or delete the index by which `show --search` and the pages find words in questions and answers."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    if switch not in (None, "on", "off"):
        raise ConfigurationError.of("ragtrace db search", switch, "on, off")
    with Store.open(existing(store)) as opened:
        if switch == "off":
            opened.search_off()
        if switch == "on":
            with progress() as bar:
                task = bar.add_task("indexing", total=None)
                state = opened.search_on(lambda now: bar.update(task, total=now.requests, completed=now.indexed))
        else:
            state = opened.search_state()
    if as_json:
        print_json(asdict(state))
        return
    of = f"{state.indexed:,} of {state.requests:,} requests are in its index"
    console().print(f"search is {f'on: {of}' if state.is_on else 'off'}", soft_wrap=True)
    if state.unreadable:
        console().print(f"{state.unreadable:,} cannot be read: ragtrace db check --all tells more", soft_wrap=True)


@app.command("check")
def check(
    everything: Annotated[bool, typer.Option("--all", help="Read every payload, not only the newest ones.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether a store is complete and readable. Exit code 1: it has damage; 2: it cannot be read at all."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store, check as schema

    url = existing(store)
    with Store.open(url) as opened:
        found = opened.inspect(**({"sample": None} if everything else {}))
    if as_json:
        print_json({"revision": schema(url).current, **asdict(found)})
    else:
        _print_found(schema(url).current or "", found.rows, found.space, found.read, found.problems)
    if found.problems:
        raise typer.Exit(1)


@app.command("audit")
def audit(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show which erasures and deletions of totals people ran: when, who ran them, and how many rows were deleted."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        deeds = opened.audit()
    if as_json:
        print_json({"audit": [{**asdict(deed), "at": written_time(deed.at)} for deed in deeds]})
        return
    for deed in deeds:
        of = ", ".join(f"a {value}" if name == "kind" else f"{name} {value!r}" for name, value in deed.subject.items())
        rows = ", ".join(f"{number:,} {name}" for name, number in deed.rows.items())
        console().print(f"{shown_time(deed.at)} {deed.actor}: {deed.action} of {of}: {rows}", soft_wrap=True)
    if not deeds:
        console().print("nothing was erased or forgotten yet")


def _print_found(revision: str, rows: Mapping[str, int], space: Space, read: int, problems: Sequence[str]) -> None:
    free = "" if space.free is None else f", {_size(space.free)} of them free"
    console().print(f"schema revision {revision}, {_size(space.bytes)}{free}")
    _print_rows("stored", rows)
    console().print(f"{read:,} payloads were read; {len(problems) or 'no'} problems")
    for problem in problems:
        typer.echo(problem)


def _print_rows(what: str, rows: Mapping[str, int]) -> None:
    some: dict[str, Any] = {name: number for name, number in sorted(rows.items()) if number}
    listed = ", ".join(f"{number:,} {name}" for name, number in some.items())
    console().print(f"{what}: {listed or 'nothing'}")


def _size(number: float) -> str:
    """Bytes in the largest unit that fits."""
    place = 0
    while number >= 1_000 and place + 1 < len(_UNITS):
        number, place = number / 1_000, place + 1
    return f"{number:.3g} {_UNITS[place]}"
