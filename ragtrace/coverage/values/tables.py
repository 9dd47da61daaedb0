"""Figures where they stand: the row and column of a table, and the scale and currency that a heading gives them.

A heading is a caption or line above ("(in millions)", "Amounts in thousands of euros"), a column's ("€m", "£'000") or a
row's label ("Revenue ($bn)"); the nearest one counts. Tables are Markdown, CSV, tabs, or columns two spaces apart.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from ragtrace.coverage.text import content_stems
from ragtrace.coverage.values.model import Value
from ragtrace.coverage.values.reading import is_csv, values
from ragtrace.coverage.values.units import CODES, CURRENCIES, unit_of

__all__ = ["Figure", "figures_in", "has_scale"]

_FACTORS: Final = {
    "t": 1e3,
    "k": 1e3,
    "0": 1e3,
    "m": 1e6,
    "b": 1e9,
    "l": 1e5,
    "c": 1e7,
    "tr": 1e12,
    "tn": 1e12,
    "ts": 1e3,
    "mr": 1e9,
}
_LONG: Final = (
    r"thousands?|millions?|billions?|trillions?|lakhs?|crores?|mio\.?|mrd\.?|tsd\.?|mn|mln|bn|tn"
    r"|(?<!\d)['’]?000(?:['’]?s)?(?!\d)"
)
_SIGN: Final = rf"(?:(?:US|A|C|NZ|HK|S)?[{''.join(CURRENCIES)}]|\b(?:{'|'.join(sorted(CODES))})\b)"
_MONEY: Final = rf"(?:{_SIGN}|(?:US\s|U\.S\.\s)?(?:dollars?|euros?|pounds?(?:\ssterling)?|francs?|yen|rupees?)\b)"
_HEADING: Final = re.compile(
    rf"""(?<![\d\w])(?P<a>{_SIGN})\s?(?:in\s)?(?P<compact>{_LONG}|[mk])(?![\w])(?!\s?\d)   # €m, £'000, USD million
    | (?:(?P<g>{_MONEY})\s+)?\bin\s+(?:(?P<b>{_MONEY})\s*)?(?P<phrase>{_LONG})(?!\w)
        (?:\s+(?:of\s+)?(?P<c>{_MONEY}))?(?!\s+of\s)
    | \(\s*(?:(?P<d>{_MONEY})\s*,?\s*(?:in\s+)?)?(?P<bracket>{_LONG})(?![\w])[^()\n]{{0,60}}\)
    | (?:^|(?<=[|\t]))[ ]*(?:(?P<e>{_MONEY})\s+)?(?P<alone>{_LONG})(?:\s+of\s+(?P<f>{_MONEY}))?[ ]*(?=$|[|\t])""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_OWN: Final = re.compile(r"\d\s?(?:hundred|thousand|k|million|m|mn|billion|bn|trillion)\b", re.IGNORECASE)
_UNSCALED: Final = re.compile(
    r"%|\b(?:per\s?cent|percent\w*|per\s+share|per\s+unit|ratio|margin|eps|rate|yield|year|headcount|employees|days)\b"
    rf"|\(\s*{_SIGN}\s*\)",
    re.IGNORECASE,
)
_APART: Final = re.compile(r"[|\t]|[ ]{2,}")
_COMMA: Final = re.compile(r'"[^"\n]*"|,')
_LINE: Final = re.compile(r"[^\n]+")
_STOP: Final = re.compile(r"[.!?]\s")


class Figure(NamedTuple):
    """A figure of a text. value: as it is written; meant: as its heading scales it, None without one; row, column: -1
    for none; words: the stems of its row, or sentence, and of its column's heading."""

    value: Value
    meant: Value | None
    row: int
    column: int
    words: frozenset[str]


class _Scale(NamedTuple):
    factor: float
    currency: str


class _Cell(NamedTuple):
    start: int
    end: int


def has_scale(text: str) -> bool:
    """Whether some heading of a text gives a scale."""
    return _HEADING.search(text) is not None


def figures_in(text: str, sentences: Sequence[tuple[int, int]]) -> tuple[Figure, ...]:
    """All figures of `text` in order, dates and versions apart. sentences: their spans, which are the rows of prose."""
    return tuple(_figures(text, sentences))


def _figures(text: str, sentences: Sequence[tuple[int, int]]) -> Iterator[Figure]:
    found = [value for value in values(text) if value.kind in ("quantity", "number")]
    headings = list(_HEADING.finditer(text))
    whole: _Scale | None = None
    columns: dict[int, _Scale | None] = {}
    titles: dict[int, str] = {}
    starts, begun = [value.start for value in found], [match.start() for match in headings]
    for number, line in enumerate(_LINE.finditer(text)):
        cells = _cells(text, line)
        inside = found[bisect_left(starts, line.start()) : bisect_left(starts, line.end())]
        given = headings[bisect_left(begun, line.start()) : bisect_left(begun, line.end())]
        is_table = len(cells) > 1
        row: dict[int, _Scale] = {}  # from where in the line it counts
        for match in given:
            behind = [value for value in inside if value.start >= match.end() and not _OWN.search(value.raw)]
            column = _column(cells, match.start())
            if behind and (is_table or not _STOP.search(text, match.end(), behind[0].start)):
                row[match.start()] = _scale(match)
            elif is_table and column > 0:
                columns[column] = _scale(match)
            else:
                whole, columns = _scale(match), {}
        if is_table and not inside and any(map(str.isalnum, line[0])):
            titles = {_column(cells, cell.start): text[slice(*cell)] for cell in cells if cell.start < cell.end}
            columns |= {at: None for at, title in titles.items() if _UNSCALED.search(title) and at not in columns}
        elif not is_table:
            titles = {}
        label = next((text[slice(*cell)] for cell in cells if text[slice(*cell)].strip()), "") if is_table else ""
        for value in inside:
            column = _column(cells, value.start) if is_table else -1
            near = [scale for start, scale in row.items() if start < value.start]
            scale = near[-1] if near else None if _UNSCALED.search(label) else columns.get(column, whole)
            place, span = (number, line.span()) if is_table else _sentence(value, sentences, line)
            words = content_stems(f"{text[slice(*span)]} {titles.get(column, '')}")
            yield Figure(value, _meant(value, scale), place, column, words)


def _cells(text: str, line: re.Match[str]) -> list[_Cell]:
    start, end = line.span()
    marks = [match.span() for match in _APART.finditer(text, start, end)]
    if not marks and is_csv(text):
        marks = [match.span() for match in _COMMA.finditer(text, start, end) if match[0] == ","]
    edges = [(start, start), *marks, (end, end)]
    cells = [_Cell(one[1], two[0]) for one, two in pairwise(edges)]
    kept = [cell for cell in cells if text[slice(*cell)].strip()]
    return cells if "|" in text[start:end] and len(kept) > 1 else kept


def _column(cells: Sequence[_Cell], at: int) -> int:
    filled = next((place for place, cell in enumerate(cells) if cell.start < cell.end), 0)
    return next((place - filled for place, cell in enumerate(cells) if cell.start <= at <= cell.end), -1)


def _sentence(value: Value, sentences: Sequence[tuple[int, int]], line: re.Match[str]) -> tuple[int, tuple[int, int]]:
    """The number, below -1, and the span of the sentence that a figure stands in; else its line."""
    place = bisect_right(sentences, (value.start, sys.maxsize)) - 1
    inside = place >= 0 and value.start < sentences[place][1]
    return (-2 - place, sentences[place]) if inside else (-1, line.span())


def _scale(match: re.Match[str]) -> _Scale:
    written = next(match[name] for name in ("compact", "phrase", "bracket", "alone") if match[name])
    plain = written.casefold().strip("'’")
    factor = _FACTORS.get(plain[:2]) or _FACTORS[plain[0]]
    currency = next((match[name] for name in "abcdefg" if match[name]), "")
    return _Scale(
        factor, unit_of(currency[-1:]) or unit_of(currency) or unit_of(currency.split()[-1]) if currency else ""
    )


def _meant(value: Value, scale: _Scale | None) -> Value | None:
    """A figure as its heading scales it: one with a unit or a scale of its own says itself how large it is."""
    if scale is None or (value.unit and value.unit not in CODES) or _OWN.search(value.raw):
        return None
    unit = value.unit or scale.currency
    return replace(value, number=value.number * scale.factor, unit=unit, kind="quantity" if unit else value.kind)
