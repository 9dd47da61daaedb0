"""The columns of an evaluation file: under which names it holds what is read of a row, be it spread over numbered ones.

Names are compared in small letters, whatever parts their words: `Retrieved Contexts`, `retrievedContexts` and
`outputs.retrieved_contexts` are one name. `Context_1` to `Context_10`, `ctx_0`, `doc_1_text` and their like hold one
context each, in the order of their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, NamedTuple

from ragtrace.errors import RecordError
from ragtrace.receive._spans import number

__all__ = ["COLUMNS", "ColumnReader", "Named", "collapsed", "columns_of", "is_empty", "names_of", "with_star"]

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "query_id", "question_id", "sample_id"),
    "question": ("question", "query", "user_input", "input"),
    "contexts": ("contexts", "retrieved_contexts", "retrieved_context", "context", "documents"),
    "answer": ("answer", "response", "output", "generated_answer"),
    "reference_contexts": ("reference_contexts", "ground_truth_contexts", "gold_contexts", "supporting_contexts"),
    "segment": ("segment", "query_class", "category", "domain"),
    "session": ("session", "session_id"),
}
"""What is read of a row, and under which names it is looked for."""

_NUMBERED: Final[Mapping[str, frozenset[str]]] = {
    "contexts": frozenset(
        """context ctx document doc chunk passage retrieved_context retrieved_document retrieved_doc retrieved_chunk
        retrieved_passage retrieval_context source_document""".split()
    ),
    "reference_contexts": frozenset("reference_context ground_truth_context gold_context supporting_context".split()),
}
"""What may be spread over numbered columns, and how these are called without their numbers, in the singular."""

STAR: Final = "*"
"""Stands for the number in a name that is given."""

_PARTS: Final[Mapping[str, str]] = {
    "": "text", "text": "text", "content": "text", "page_content": "text", "body": "text", "id": "id", "score": "score",
}  # fmt: skip
_AROUND: Final = re.compile(r"(?:inputs?|outputs?)[./](?=.)", re.IGNORECASE)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN: Final = re.compile(r"[\W_]+")
_PLACE: Final = re.compile(r"(?P<base>[^\W\d](?:\w*[^\W\d_])?)_?(?P<number>\d{1,4})(?:_(?P<part>[a-z_]+))?")
_DIGITS: Final = re.compile(r"\d{1,4}")
_NOTHING: Final = frozenset(("", "nan", "none", "null", "<na>"))


class Named(NamedTuple):
    """One context out of columns of its own: the name of the column with its text, and what is known of it."""

    column: str
    value: Any


class _Column(NamedTuple):
    """A numbered column: its name, what it is called without the number, the number (-1: none), and which part of a
    context it holds (text, id, score)."""

    name: str
    base: str
    number: int
    part: str = "text"


class ColumnReader:
    """Reads what is wanted of rows, and remembers which columns that was read from.

    given: what is read -> the file's own name of it, over `COLUMNS`; of contexts with a star in place of the numbers.

    Raises: RecordError for a name of what is not read, or with a star where there can be one column only.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._names = names_of(given, COLUMNS)
        self._given = dict(given)
        self._chosen: dict[str, str] = {}
        self._held: dict[str, None] = {}
        self._matched: set[str] = set()
        self._read: dict[str, dict[str, int]] = {}
        for what, name in given.items():
            if STAR in name and what not in _NUMBERED:
                several = " and ".join(_NUMBERED)
                raise RecordError(
                    f"column {name!r} of {what} has a star; only {several} may have several columns; give one name"
                )

    @property
    def read(self) -> dict[str, list[str]]:
        """What is read -> the columns that it was read from, numbered ones in the order of their numbers."""
        return {what: sorted(columns, key=columns.__getitem__) for what, columns in self._read.items()}

    @property
    def left_out(self) -> list[str]:
        """The columns that hold something somewhere and were not read, in their order."""
        taken = {name for columns in self._read.values() for name in columns}
        return [name for name in self._held if name not in taken]

    @property
    def unread_groups(self) -> list[list[str]]:
        """Of the columns that were left out the numbered ones, those of one name together, the largest group first."""
        groups: dict[str, list[str]] = {}
        for column in sorted(filter(None, map(_column, self.left_out)), key=lambda column: column.number):
            groups.setdefault(column.base, []).append(column.name)
        return sorted((group for group in groups.values() if len(group) > 1), key=len, reverse=True)

    def of(self, where: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """What is read -> what the row holds of it, None for nothing; of contexts in numbered columns a list of
        `Named`.

        Raises: RecordError naming the row, where it has none of the columns that were given.
        """
        self._held.update((name, None) for name, value in row.items() if not is_empty(value))
        for name in self._given.values():
            is_there = name in row or (STAR in name and any(_starred(name, each) for each in row))
            if not is_there and name not in self._matched:
                raise RecordError(f"{where} has no column {name!r}; it has {columns_of(row)}")
            if STAR in name:
                self._matched.add(name)  # a later row may have none of them: nothing was retrieved
        return {what: self._value(what, row) for what in self._names}

    def present(self, what: str, row: Mapping[str, Any]) -> list[str]:
        """The row's columns of which `what` is read, those that hold nothing too; the usual names first."""
        if what in self._given:
            return [name for name in row if name == self._given[what] or _starred(self._given[what], name)]
        return [each for name in self._names[what] for each in row if _key(each) == name]

    def _value(self, what: str, row: Mapping[str, Any]) -> Any:
        plain = next((name for name in self.present(what, row) if not is_empty(row[name])), None)
        groups = self._groups(what, row) if what in _NUMBERED else {}
        if not groups:
            return None if plain is None else self._taken(what, [_Column(plain, "", -1)], row[plain])
        if plain is not None and STAR not in self._given.get(what, ""):
            only = _Column(plain, _singular(_key(plain)), -1)
            if only.base in groups and not _is_list(row[plain]):  # context, context_2, context_3
                groups[only.base].insert(0, only)
            else:
                groups[""] = [only]
        base = self._base(what, row, groups)
        return self._taken(what, groups[base], list(_contexts(groups[base], row)) if base else row[plain or ""])

    def _groups(self, what: str, row: Mapping[str, Any]) -> dict[str, list[_Column]]:
        """The row's numbered columns by what they are called, in the order of the numbers, if one holds anything."""
        given = self._given.get(what)
        found: dict[str, list[_Column]] = {}
        for name in row:
            column = _column(name) if given is None else _starred(given, name)
            if column is not None and (given is not None or column.base in _NUMBERED[what]):
                found.setdefault(column.base, []).append(column)
        return {
            base: sorted(columns, key=lambda column: column.number)
            for base, columns in found.items()
            if any(not is_empty(row[column.name]) and column.part != "score" for column in columns)
        }

    def _base(self, what: str, row: Mapping[str, Any], groups: Mapping[str, Sequence[_Column]]) -> str:
        """The group that holds most text; of later rows the same one, where they have it."""
        chosen = self._chosen.get(what)
        if chosen is None or chosen not in groups:
            held = {base: sum(len(str(row[each.name] or "")) for each in group) for base, group in groups.items()}
            chosen = max(held, key=held.__getitem__)
            self._chosen.setdefault(what, chosen)
        return chosen

    def _taken(self, what: str, columns: Iterable[_Column], value: Any) -> Any:
        self._read.setdefault(what, {}).update((column.name, column.number) for column in columns)
        return value


def _contexts(columns: Sequence[_Column], row: Mapping[str, Any]) -> Iterator[Named]:
    """The contexts of numbered columns, without those that hold nothing; an id or a score goes with the first text of
    its number."""
    full = [column for column in columns if str(row[column.name]).strip().casefold() not in _NOTHING]
    for _, same in groupby(full, key=lambda column: column.number):
        parts = list(same)
        texts = [column.name for column in parts if column.part == "text"]
        more = {column.part: row[column.name] for column in parts if column.part != "text"}
        if more:
            said = more | ({"text": row[texts[0]]} if texts else {})
            if "score" in said:
                said["score"] = number(said["score"])
            yield Named(texts[0] if texts else parts[0].name, said)
        yield from (Named(name, row[name]) for name in texts[bool(more) :])


def names_of(columns: Mapping[str, str], known: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """What is read -> a file's names of it: those that are known, unless `columns` names its own.

    Raises: RecordError for a column that is none that is read.
    """
    unknown = sorted(columns.keys() - known.keys())
    if unknown:
        raise RecordError(f"column {unknown[0]!r} is none that is read; there are {', '.join(known)}")
    return {**known, **{key: (value,) for key, value in columns.items()}}


def columns_of(row: Mapping[str, Any]) -> str:
    """The names of a row's columns, for a message."""
    return ", ".join(collapsed(row))


def collapsed(names: Iterable[str]) -> list[str]:
    """Names of columns for a message: `Context_1 … Context_9` in place of nine that follow each other."""
    found: list[str] = []
    for _, run in groupby(names, key=lambda name: _DIGITS.sub(STAR, name)):
        same = list(run)
        found += same if len(same) < 3 else [f"{same[0]} … {same[-1]}"]
    return found


def with_star(name: str) -> str:
    """A numbered column's name with a star in place of its number, the last one of several."""
    *_, last = _DIGITS.finditer(name)
    return f"{name[: last.start()]}{STAR}{name[last.end() :]}"


def is_empty(value: Any) -> bool:
    """Nothing, also as pandas writes it: NaN is the only value that is not itself."""
    return value in (None, "", []) or value != value


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or str(value).startswith("[")


@lru_cache(maxsize=4096)
def _key(name: str) -> str:
    """A name without what differs from tool to tool: `outputs.retrievedContexts` is `retrieved_contexts`."""
    return _BETWEEN.sub("_", _HUMP.sub("_", _AROUND.sub("", name.strip(), count=1))).strip("_").casefold()


@lru_cache(maxsize=4096)
def _column(name: str) -> _Column | None:
    """What a numbered column's name says; None for another name, or another part of a context, such as its address."""
    match = _PLACE.fullmatch(_key(name))
    part = _PARTS.get(match["part"] or "") if match else None
    return _Column(name, _singular(match["base"]), int(match["number"]), part) if match and part else None


def _starred(pattern: str, name: str) -> _Column | None:
    """What a column's name says where it is like a given one, with a number in place of the star."""
    before, star, after = pattern.partition(STAR)
    if not star or not name.startswith(before) or not name.endswith(after):
        return None
    place = name[len(before) : len(name) - len(after)].strip(" _-.")
    return _Column(name, pattern, int(place)) if _DIGITS.fullmatch(place) else None


def _singular(base: str) -> str:
    return base.removesuffix("s")
