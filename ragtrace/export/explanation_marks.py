"""Shaded words, letters and bars on a terminal, in color and without."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from ragtrace.export.explanation_shading import LEVELS, PALETTE
from ragtrace.export.explanation_view import Document

__all__ = ["Bar", "Mark", "Shaded", "badge"]

_ENOUGH: Final = ("256", "truecolor")  # with 16 colors neither hues nor shades stay apart
_NEUTRAL: Final = (86, 140, 190)
_QUOTED_FROM: Final = 3  # without color, only what is this strong has quotes
_SMALLEST: Final = 0.35  # so much of the hue is in the faintest shade
_RAISED: Final = dict(zip("ABCDEFGHIJKLMNOPRSTUVWXYZ", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))
_NARROWEST, _WIDEST = 12, 44


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of text: how strongly a document speaks for it, and which speaks against it."""

    text: str
    level: int = 0
    document: Document | None = None
    against: Document | None = None
    opposed: bool = False


@dataclass(frozen=True, slots=True)
class Shaded:
    """A text of marks, with their documents' colors; without color `«in quotes»ᵃ`, with letters if `lettered`."""

    marks: Sequence[Mark]
    lettered: bool = True

    def __rich_console__(self, console: Console, _options: ConsoleOptions) -> RenderResult:
        """What the console can show."""
        colored = console.color_system in _ENOUGH and not console.no_color
        yield self._colored() if colored else self._quoted()

    def _colored(self) -> Text:
        text = Text()
        for document, run in groupby(self.marks, key=_owner):
            last = None
            for last in run:
                core = last.text.strip() if last.level or last.opposed else ""
                before, found, after = last.text.partition(core) if core else (last.text, "", "")
                text.append(before)
                text.append(found, _style(last))
                text.append(after + _against(last))
            if self.lettered and document is not None and last is not None:
                text.append(raised(document.letter), "bold")
        return text

    def _quoted(self) -> Text:
        text = Text()
        for strong, run in groupby(self.marks, key=lambda mark: (_owner(mark), _is_strong(mark), mark.opposed)):
            marks = list(run)
            words = "".join(mark.text for mark in marks)
            core = words.strip()
            owner, is_strong, opposed = strong
            if core and (is_strong or opposed):
                letter = raised(owner.letter) if owner is not None and self.lettered else ""
                words = words.replace(core, f"{'«−' if opposed else '«'}{core}»{letter}", 1)
            text.append(words + "".join(dict.fromkeys(_against(mark) for mark in marks)))
        return text


def _owner(mark: Mark) -> Document | None:
    return mark.document if mark.level else None


def _is_strong(mark: Mark) -> bool:
    return mark.level >= _QUOTED_FROM


def _against(mark: Mark) -> str:
    return f"⁻{raised(mark.against.letter)}" if mark.against is not None else ""


def raised(letter: str) -> str:
    """A document's letter as a superscript; Unicode has none for Q."""
    return "".join(_RAISED.get(each, f"({each})") for each in letter)


def badge(document: Document) -> Text:
    """A document's letter in its color."""
    return Text.assemble((f" {document.letter} ", _filled(PALETTE[document.color], 1.0)))


def _style(mark: Mark) -> str:
    if mark.opposed:
        return "underline red"
    hue = PALETTE[mark.document.color] if mark.document is not None else _NEUTRAL
    return _filled(hue, _SMALLEST + (1 - _SMALLEST) * mark.level / LEVELS)


def _filled(hue: tuple[int, int, int], strength: float) -> str:
    """A background of this hue with text that can be read on it."""
    base = (250, 250, 250) if _is_light() else (28, 28, 28)
    red, green, blue = (round(strength * part + (1 - strength) * own) for part, own in zip(hue, base, strict=True))
    is_bright = 0.299 * red + 0.587 * green + 0.114 * blue > 128
    return f"{'#000000' if is_bright else '#ffffff'} on #{red:02x}{green:02x}{blue:02x}"


def _is_light() -> bool:
    """Whether the terminal says that its background is light."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


@dataclass(frozen=True, slots=True)
class Bar:
    """A share as a bar from zero, with one standard error to both sides."""

    document: Document
    low: float
    high: float

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        """At least `_NARROWEST` columns, at most `_WIDEST`."""
        return Measurement(min(_NARROWEST, options.max_width), min(_WIDEST, max(_NARROWEST, options.max_width // 4)))

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """The bar in the document's color."""
        red, green, blue = PALETTE[self.document.color]
        yield Text("".join(self._cells(min(options.max_width, _WIDEST))), style=f"rgb({red},{green},{blue})")

    def _cells(self, width: int) -> Iterator[str]:
        share, error = self.document.share, self.document.error or 0.0
        if share is None or self.high <= self.low:
            return
        zero, end = self._cell(0.0, width), self._cell(share, width)
        first, last = self._cell(share - error, width), self._cell(share + error, width)
        for cell in range(width):
            if error and first < last and cell in (first, last):
                yield "├" if cell == first else "┤"
            elif error and first < cell < last:
                yield "━" if _between(cell, zero, end) else "─"
            elif _between(cell, zero, end):
                yield "█"
            else:
                yield "│" if cell == zero else " "

    def _cell(self, value: float, width: int) -> int:
        return round((value - self.low) / (self.high - self.low) * (width - 1))


def _between(cell: int, first: int, last: int) -> bool:
    return first != last and min(first, last) <= cell <= max(first, last)
