"""What the verbs have in common on a terminal: their shared options, tables, JSON, progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from ragtrace.controls import harmless

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.progress import Progress

__all__ = ["JsonOption", "StoreOption", "console", "print_json", "print_table", "progress"]

WIDTH: Final = 120
_ID: Final = 36  # characters of a UUID

StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The database: sqlite:///FILE or postgresql://...  [default: RAGTRACE_STORE, else sqlite:///ragtrace.db]",
        show_default=False,
    ),
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
    from ragtrace.strict_json import dumps

    typer.echo(dumps(data))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a plain table: a header line, then one line per row. The first column, which names what a row is of, is
    broken only where it is longer than ids are."""
    from rich.table import Table

    table, given = Table(box=None, pad_edge=False, header_style="bold"), list(rows)
    for place, column in enumerate(columns):
        is_id = not place and max((len(row[0]) for row in given), default=0) <= _ID
        table.add_column(column, overflow="fold", no_wrap=is_id)
    for row in given:
        table.add_row(*row)
    console().print(table)


def progress() -> Progress:
    """A progress bar on stderr that leaves nothing behind; silent when stderr is no terminal."""
    from rich.progress import Progress

    return Progress(console=console(stderr=True), transient=True, disable=not sys.stderr.isatty())
