"""The capture matrix: what can arrive in a record, from where and in which mode, and the tables that show it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["MODES", "TABLES", "Cell", "Cells", "as_data", "cells_of", "claims", "merged", "render"]

MODES: Final = ("sync", "async", "stream", "async stream")
SHOWN: Final = "✓"
MISSING: Final = "–"

Cells = dict[str, dict[str, list[str]]]  # where, mode, what: as it is written down


class Cell(NamedTuple):
    """One thing that arrives."""

    where: str
    mode: str
    what: str


class Absent(NamedTuple):
    """Cells that cannot be, and why; an empty part stands for all."""

    reason: str
    where: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    whats: tuple[str, ...] = ()

    def covers(self, cell: Cell) -> bool:
        """Whether the cell is one of them."""
        parts = ((self.where, cell.where), (self.modes, cell.mode), (self.whats, cell.what))
        return all(not allowed or one in allowed for allowed, one in parts)


class Table(NamedTuple):
    """One table: a row for each `where` and mode, a column for each `what`; with one `what`, a column for each mode."""

    title: str
    about: str
    head: str
    rows: tuple[str, ...]
    whats: tuple[str, ...]
    absent: tuple[Absent, ...] = ()


_PATH: Final = (
    *("ids", "scores", "texts", "metadata", "moves", "packed", "truncated", "dropped"),
    *("answer", "usage", "error"),
)
_STREAMS: Final = ("stream", "async stream")

TABLES: Final = (
    Table(
        "Frameworks without a decorator",
        "A small real application of each framework, after `ragtrace.instrument(...)` and nothing else.",
        "framework",
        ("LangChain", "LlamaIndex", "Haystack", "OpenAI", "sentence-transformers"),
        _PATH,
        (
            Absent("the API has no reranker", ("OpenAI",), (), ("moves",)),
            Absent(
                "the library searches and reranks, all else is another library's",
                ("sentence-transformers",),
                (),
                ("packed", "truncated", "dropped", "answer", "usage"),
            ),
            Absent("its hits are positions and scores", ("sentence-transformers",), (), ("metadata",)),
            Absent("the library has no such calls", ("sentence-transformers",), MODES[1:]),
        ),
    ),
    Table(
        "Decorated callables",
        "`@ragtrace.retrieve`, `.rerank`, `.pack` and `.generate` on callables of each kind: plain ones, coroutine\n"
        "functions, generators and async generators; and as `with` and `async with` blocks.",
        "form",
        ("function", "method", "class method", "static method", "callable object", "partial", "`with` block"),
        _PATH,
        (
            Absent("streamed texts name no tokens", (), _STREAMS, ("usage",)),
            Absent("a block is given its values whole", ("`with` block",), _STREAMS),
        ),
    ),
    Table(
        "Types",
        "What a retriever, reranker or packer may return, and is given by the stage before; in a stream, one by one.\n"
        "Libraries' types come from the real libraries.",
        "type",
        (
            "LangChain `Document`",
            "LangChain `(Document, score)`",
            "LlamaIndex `NodeWithScore`",
            "Haystack `Document`",
            "FAISS `(D, I)` and an id map",
            "Chroma `QueryResult`",
            "Qdrant `ScoredPoint`",
            "pgvector: SQLAlchemy's rows",
            "pgvector: mapped objects",
            "pgvector: psycopg's rows",
            "`semantic_search` hits",
            "`CrossEncoder.rank`",
            "dict",
            "mapping",
            "tuple",
            "named tuple",
            "dataclass",
            "dataclass with slots",
            "pydantic model",
            "object with attributes",
            "object with properties",
            "object with slots",
            "text",
            "`Decimal` scores",
            "NumPy scores",
            "one list per query",
        ),
        _PATH[:6],
        (
            Absent("it has none", ("LangChain `Document`", "text"), (), ("scores",)),
            Absent(
                "it has none",
                (
                    *("pgvector: SQLAlchemy's rows", "pgvector: mapped objects", "pgvector: psycopg's rows"),
                    *("`semantic_search` hits", "`CrossEncoder.rank`", "text", "named tuple"),
                ),
                (),
                ("metadata",),
            ),
            Absent("its hits are positions in the host's corpus", ("`semantic_search` hits",), (), ("texts",)),
            Absent("no packer returns it", ("FAISS `(D, I)` and an id map", "one list per query"), (), ("packed",)),
            Absent("lists that stream are pages, one after the other", ("one list per query",), _STREAMS),
            Absent("it is one value", ("FAISS `(D, I)` and an id map", "Chroma `QueryResult`"), _STREAMS),
        ),
    ),
    Table(
        "Requests",
        "How stages, requests, tasks and streams lie inside of each other.",
        "request",
        (
            "a stage without a request",
            "several retrievers, merged",
            "the same stage again",
            "a stage inside a stage",
            "a request inside a request",
            "requests at once",
            "a stream that is left early",
            "a request that returns its stream",
            "an exception that the host handles",
            "objects that the host changes afterwards",
        ),
        ("record",),
        (Absent("it is no stream", ("a stream that is left early", "a request that returns its stream"), MODES[:2]),),
    ),
)  # fmt: skip


def cells_of(whats: Iterable[str], where: str, mode: str | tuple[str, ...] = MODES) -> frozenset[Cell]:
    """The cells that a marker names. Raises: ValueError for what no table has, or calls impossible."""
    modes = (mode,) if isinstance(mode, str) else mode
    cells = frozenset(Cell(where, each, what) for each in modes for what in whats)
    table = next((table for table in TABLES if where in table.rows), None)
    if table is None:
        raise ValueError(f"captures(where={where!r}): no table has this row")
    for cell in cells:
        if cell.mode not in MODES or cell.what not in table.whats:
            raise ValueError(f"captures: {cell} is not in the table {table.title!r}")
        if any(absent.covers(cell) for absent in table.absent):
            raise ValueError(f"captures: {cell} is said to be impossible in the table {table.title!r}")
    return cells


def claims(path: Path) -> frozenset[Cell]:
    """The cells that the tests of a file claim, as its text says: markers there hold literals only."""
    found: set[Cell] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.captures":
            given = {word.arg or "": ast.literal_eval(word.value) for word in node.keywords}
            whats: list[str] = []
            for each in node.args:
                whats += ast.literal_eval(each.value) if isinstance(each, ast.Starred) else [ast.literal_eval(each)]
            found |= cells_of(whats, **given)
    return frozenset(found)


def as_data(cells: Iterable[Cell]) -> Cells:
    """Cells as they are written down."""
    data: Cells = {}
    for where, mode, what in sorted(cells):
        data.setdefault(where, {}).setdefault(mode, []).append(what)
    return data


def merged(parts: Iterable[Mapping[str, Mapping[str, Iterable[str]]]]) -> frozenset[Cell]:
    """Cells that were written down."""
    return frozenset(
        Cell(where, mode, what)
        for part in parts
        for where, modes in part.items()
        for mode, whats in modes.items()
        for what in whats
    )


def render(passed: frozenset[Cell], versions: Mapping[str, str]) -> str:
    """The page: every table with what passed."""
    listed = ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
    lines = [
        "<!-- Generated from the tests that passed (`make capture`, `make frameworks`). Do not edit. -->",
        "",
        "# What is captured",
        "",
        f"{SHOWN} a test passed that checks it in the record; an empty cell is untested; {MISSING} cannot be, and why.",
        "",
        f"Checked with {listed}.",
    ]
    for table in TABLES:
        lines += ["", f"## {table.title}", "", table.about, "", *_table(table, passed)]
    return "\n".join(lines) + "\n"


def _table(table: Table, passed: frozenset[Cell]) -> list[str]:
    reasons: list[str] = []
    if table.whats == ("record",):
        lines = _rows((table.head, *MODES), [
            (where, *(_mark(table, Cell(where, mode, "record"), passed, reasons) for mode in MODES))
            for where in table.rows
        ])  # fmt: skip
    else:
        lines = _rows((table.head, "mode", *table.whats), _by_mode(table, passed, reasons))
    notes = [f"{_raised(number)} {reason}" for number, reason in enumerate(reasons, 1)]
    return [*lines, *(("", "; ".join(notes) + ".") if notes else ())]


def _by_mode(table: Table, passed: frozenset[Cell], reasons: list[str]) -> list[tuple[str, ...]]:
    """A row for each `where` and its modes; modes of which the same arrives share a row."""
    rows: list[tuple[str, ...]] = []
    for where in table.rows:
        shared: dict[tuple[str, ...], list[str]] = {}
        for mode in MODES:
            marks = tuple(_mark(table, Cell(where, mode, what), passed, reasons) for what in table.whats)
            shared.setdefault(marks, []).append(mode)
        for number, (marks, modes) in enumerate(shared.items()):
            rows.append(("" if number else where, "all" if len(modes) == len(MODES) else ", ".join(modes), *marks))
    return rows


def _mark(table: Table, cell: Cell, passed: frozenset[Cell], reasons: list[str]) -> str:
    if cell in passed:
        return SHOWN
    reason = next((absent.reason for absent in table.absent if absent.covers(cell)), None)
    if reason is None:
        return ""
    if reason not in reasons:
        reasons.append(reason)
    return MISSING + _raised(reasons.index(reason) + 1)


def _raised(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _rows(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """A Markdown table that is aligned as text too."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    marks = range(1 if "mode" not in head else 2, len(head))
    rule = [":" + "-" * (width - 2) + ":" if place in marks else "-" * width for place, width in enumerate(widths)]
    lines = [[part.ljust(width) for part, width in zip(row, widths, strict=True)] for row in (head, *rows)]
    return ["| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:])]
