"""The commands' common ground: shared options, the store and the request that one means, tables, JSON, progress."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

import typer

from ragtrace import config
from ragtrace.config import SETTINGS, variable
from ragtrace.errors import ConfigurationError, NewerForm, RecordError, StoreUnavailable
from ragtrace.safe_text import harmless

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.progress import Progress

    from ragtrace.store import Store
    from ragtrace.types import RequestRecord

__all__ = [
    "CertificateOption",
    "Ending",
    "JsonOption",
    "KeyOption",
    "StoreOption",
    "console",
    "existing",
    "find_record",
    "known_place",
    "no_such_service",
    "option",
    "print_json",
    "print_table",
    "progress",
    "shown",
    "spooled",
]

WIDTH: Final = 120
_ID: Final = 36  # characters of a UUID


def option(name: str, *, more: str = "", **details: Any) -> Any:
    """The option of a command that gives a setting: flag, variables and help are those of the table of settings."""
    setting = SETTINGS[name]
    text = f"{setting.doc}  {more}" if more else setting.doc
    return typer.Option(f"--{name.replace('_', '-')}", envvar=list(setting.variables), help=text, **details)


StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The database: sqlite:///FILE or postgresql://...  "
        f"[default: {variable('store')}, else {SETTINGS['store'].default}]",
        show_default=False,
    ),
]
CertificateOption: TypeAlias = Annotated[
    Path | None, typer.Option("--tls-certificate", metavar="FILE", help="The certificate for TLS, as PEM.")
]
KeyOption: TypeAlias = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate, as PEM.")
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def console(*, stderr: bool = False) -> Console:
    """A rich console on stdout or stderr, `WIDTH` columns wide where that is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH
    return _harmless_console()(stderr=stderr, width=width, markup=False, highlight=False)


@cache
def _harmless_console() -> type[Console]:
    """The class of every verb's console: it leaves control characters out of all texts, so that nothing that the host
    recorded commands the terminal; its own escapes are added behind that."""
    from rich.console import Console
    from rich.segment import Segment

    class HarmlessConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                text, style, control = segment
                yield segment if control else Segment(harmless(text), style)

    return HarmlessConsole


def print_json(data: Any) -> None:
    """Print `data` as one indented JSON document that any strict parser reads."""
    from ragtrace.safe_text import dumps

    typer.echo(dumps(data))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a plain table: a header line, then one line per row. Where they do not fit, cells are broken between words
    first; the first column, which names what a row is of, only where it is longer than ids are."""
    from rich.table import Table

    out, table, given = console(), Table(box=None, pad_edge=False, header_style="bold"), list(rows)
    widths = _fitted(list(zip(columns, *given, strict=True)), out.width - 2 * (len(columns) - 1))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column, overflow="fold", width=width)
    for row in given:
        table.add_row(*row)
    out.print(table)


def _fitted(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """The widths of columns that have so much room together, by their cells."""
    from rich.cells import cell_len

    widths = [max(cell_len(line) for cell in cells for line in cell.splitlines() or [""]) for cells in columns]
    least = [max((cell_len(word) for cell in cells for word in cell.split()), default=0) for cells in columns]
    narrowest = [1] * len(widths)
    if widths[0] <= _ID:
        least[0] = narrowest[0] = widths[0]
    for bounds in (least, narrowest):
        while sum(widths) > room and widths != bounds:
            wider = (at for at, bound in enumerate(bounds) if widths[at] > bound)
            widths[max(wider, key=widths.__getitem__)] -= 1
    return widths


def progress() -> Progress:
    """A progress bar on stderr that leaves nothing behind; silent when stderr is no terminal."""
    from rich.progress import Progress

    return Progress(console=console(stderr=True), transient=True, disable=not sys.stderr.isatty())


class Ending:
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


_MOST_FOUND: Final = 10  # requests that are looked for where the beginning of an id fits several
_SHOWN: Final = 3  # ids that an error names


def existing(store: str | None) -> str:
    """The URL of a store that is there already: `store`, else what the environment names, else the default.

    Raises: StoreUnavailable when it is missing or empty, since only `ragtrace db upgrade` and what records make one.
    """
    from ragtrace.store import Store, check

    settings = config.load(store=store)
    url = settings.store
    if check(url).current is None:
        waiting = spooled(url, settings.spool)
        held = (
            f", and {waiting['entries']} of its records wait in {waiting['folder']} until an application records again"
            if waiting["entries"]
            else ""
        )
        raise StoreUnavailable(
            f"store {shown(url)} does not exist or is empty{held}; "
            f"record into it (ragtrace demo --store {shown(url)}), "
            f"make it (ragtrace db upgrade --store {shown(url)}), or name another (--store URL or {variable('store')})"
        )
    Store.open(url).close()  # says at once what is wrong with it
    return url


def spooled(url: str, given: str | None) -> dict[str, Any]:
    """What waits on this disk for the store (`handed`: for `ragtrace build`), and what could not be read and was set
    aside."""
    from ragtrace.collect import default_folder, fallback_folder
    from ragtrace.collect.spool import HANDED, handed_folder, read_entries, segment_paths

    folders = list(dict.fromkeys((default_folder(url, given), fallback_folder(url))))
    folders += [handed_folder(folder) for folder in folders]
    waiting = dict.fromkeys(folders, 0)
    for folder in folders:
        for segment in segment_paths(folder):
            try:
                waiting[folder] += sum(1 for _ in read_entries(segment.read_bytes()))
            except FileNotFoundError:  # a recording process has just stored and deleted it
                continue
            except NewerForm:  # it waits for another version; how many are in it cannot be told
                waiting[folder] += 1
    damaged = sum(len(list(folder.glob("damaged/*"))) for folder in folders)
    fullest = max(folders, key=lambda folder: waiting[folder])
    handed = sum(count for folder, count in waiting.items() if folder.name == HANDED)
    return {"folder": str(fullest), "entries": sum(waiting.values()), "handed": handed, "damaged": damaged}


def shown(url: str) -> str:
    """The URL without its password."""
    from ragtrace.store.address import Address

    return Address.parse(url).shown


def no_such_service(service: str, known: Sequence[str]) -> ConfigurationError:
    """The error for a service without requests. known: those that the store has."""
    from ragtrace.formats import named_services

    names = named_services(known)
    return ConfigurationError.of("--service", service, f"a service that has requests in the store: {names}")


def known_place(store: Store, service: str, segment: str | None, option: str) -> None:
    """Refuse a service, or a segment of it, that has no request in a store that has others; an empty store knows none.

    option: the name of the argument that gives the segment. Raises: ConfigurationError.
    """
    from ragtrace.formats import named_services
    from ragtrace.store.totals import OTHER

    services = store.services()
    if services and service not in services:
        raise no_such_service(service, services)
    if services and segment not in (None, OTHER) and segment not in (segments := store.segments(service)):
        allowed = f"a segment of {service!r} that has requests in the store: {named_services(segments)}"
        raise ConfigurationError.of(option, segment, allowed)


def find_record(store: Store, beginning: str) -> RequestRecord:
    """The one record whose request id starts with `beginning`; a shortened id will do.

    Raises: RecordError when there is none, or more than one.
    """
    if record := store.get_record(beginning):
        return record
    found = store.find_request_ids(beginning, _MOST_FOUND)
    if len(found) > 1:
        first = ", ".join(found[:_SHOWN])
        many = f"{_MOST_FOUND} or more" if len(found) == _MOST_FOUND else len(found)
        raise RecordError(f"{many} requests begin with {beginning!r} ({first} ...); give more of the id")
    if found and (record := store.get_record(found[0])):
        return record
    newest = [row.request_id for row in store.find_requests(limit=_SHOWN)]
    remedy = f"give an id of it, such as the newest: {', '.join(newest)}" if newest else "it holds no request"
    raise RecordError(f"no request {beginning!r} in store {store.url}; {remedy}")
