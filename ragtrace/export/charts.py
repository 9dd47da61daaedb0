"""Small charts as SVG files: lines over a scale, or dots by row, with error bars, reference marks and legends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragtrace.html_page import Html, join, tag

__all__ = [
    "DotRow",
    "Line",
    "Point",
    "ReferenceLine",
    "dot_chart",
    "line_chart",
    "ticks",
]

COLORS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito
_DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "5 2", "1 2")
_INK: Final = "#1f2933"
_GRAY: Final = "#5f6b76"
_WIDTH: Final = 720
_TOP: Final = 78
_TEXT: Final = 13
_LEGEND: Final = 21
_LETTER: Final = 6.9  # pixels of a letter, about


@dataclass(frozen=True, slots=True)
class Point:
    """A mean at x (or at a row's series) with its interval."""

    x: float
    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line with error bars; its color and dash follow from its place among the series."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A gray line to compare with: chance, floor."""

    name: str
    points: tuple[tuple[float, float], ...]
    dash: str = "6 4"


@dataclass(frozen=True, slots=True)
class DotRow:
    """A row of dots: `dots[i]` belongs to series i, and `marks[i]` is what it is compared with; None leaves it out."""

    label: str
    dots: tuple[Point | None, ...]
    marks: tuple[float | None, ...]


def _framed(title: str, remarks: Sequence[str], width: float, height: float, *parts: Html) -> Html:
    """A whole SVG file; remarks are one line each, two at most."""
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=_n(width), height=_n(height), fill="#ffffff"),
        _text(20, 26, title, size=16, weight="bold"),
        *(_text(20, 46 + 16 * place, line, color=_GRAY, size=12) for place, line in enumerate(remarks)),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_n(width)} {_n(height)}",
        width=_n(width),
        height=_n(height),
        font_family="system-ui, 'DejaVu Sans', sans-serif",
        role="img",
        aria_label=". ".join([title, *remarks]),
    )


def line_chart(
    title: str,
    remarks: Sequence[str],
    *,
    x_label: str,
    y_label: str,
    series: Sequence[Line],
    levels: Sequence[ReferenceLine] = (),
    x_ticks: Sequence[tuple[float, str]],
    y_range: tuple[float, float] | None = None,
    log_x: bool = False,
) -> Html:
    """Lines over x with error bars; overlapping ones stand a little apart. y_range: by default what the data reach."""
    left, right, bottom, height = 78, 24, 52, 290
    low, high = y_range or _reach(series, levels)
    first, last = x_ticks[0][0], x_ticks[-1][0]

    def place(value: float) -> float:
        return math.log2(value) if log_x else value

    def x(value: float) -> float:
        span = place(last) - place(first)
        inner = _WIDTH - left - right - 60
        return left + 30 + (inner * (place(value) - place(first)) / span if span else inner / 2)

    def y(value: float) -> float:
        return _TOP + height - height * (value - low) / (high - low)

    floor = _TOP + height
    parts = [_line(left, y(tick), _WIDTH - right, y(tick), "#e3e7eb") for tick in ticks(low, high)]
    parts += [_text(left - 8, y(tick) + 4, f"{tick:g}", anchor="end") for tick in ticks(low, high)]
    parts.append(_line(left, _TOP, left, floor, _GRAY))
    parts.append(_line(left, floor, _WIDTH - right, floor, _GRAY))
    for tick, label in x_ticks:
        parts += [_line(x(tick), floor, x(tick), floor + 5, _GRAY), _text(x(tick), floor + 20, label, anchor="middle")]
    parts.append(_text((left + _WIDTH - right) / 2, floor + 42, x_label, anchor="middle"))
    parts.append(_turned(22, _TOP + height / 2, y_label))
    for level in levels:
        parts.append(_path([(x(position), y(value)) for position, value in level.points], _GRAY, level.dash, 1.6))
    for number, line in enumerate(series):
        shift = (number - (len(series) - 1) / 2) * 7
        points = [(x(point.x) + shift, point) for point in line.points]
        parts.append(_path([(center, y(point.mean)) for center, point in points], _color(number), _dash(number), 2))
        for center, point in points:
            if point.low is not None and point.high is not None:
                parts += _whisker_up(center, y(point.low), y(point.high), _color(number))
            parts.append(_marker(center, y(point.mean), number))
    names = [(_sample(number), line.name) for number, line in enumerate(series)]
    names += [(_level_sample(level.dash), level.name) for level in levels]
    legend, used = _legend(names, floor + bottom + 14)
    return _framed(title, remarks, _WIDTH, floor + bottom + used + 12, *parts, legend)


def dot_chart(
    title: str,
    remarks: Sequence[str],
    *,
    x_label: str,
    names: Sequence[str],
    marks: str,
    rows: Sequence[DotRow],
    x_max: float | None = None,
) -> Html:
    """Rows of dots with error bars, from 0 to x_max. names: of the series. marks: what the gray marks are."""
    lane, gap = 17, 15
    left = min(600.0, 30 + _LETTER * max(len(row.label) for row in rows))
    right = 30
    width = max(_WIDTH, left + 420)
    reach = [end for row in rows for dot in row.dots if dot is not None for end in (dot.mean, dot.high or 0.0)]
    top = x_max or _ceiling(max([*reach, *(mark for row in rows for mark in row.marks if mark is not None)], default=1))

    def x(value: float) -> float:
        return left + (width - left - right) * value / top

    row_height = lane * len(names) + gap
    floor = _TOP + row_height * len(rows)
    parts = [_line(x(tick), _TOP, x(tick), floor, "#e3e7eb") for tick in ticks(0, top)]
    parts += [_text(x(tick), floor + 18, f"{tick:g}", anchor="middle") for tick in ticks(0, top)]
    parts.append(_line(left, floor, width - right, floor, _GRAY))
    parts.append(_text((left + width - right) / 2, floor + 40, x_label, anchor="middle"))
    for place, row in enumerate(rows):
        start = _TOP + place * row_height + gap / 2
        parts.append(_text(left - 10, start + lane * len(names) / 2 + 4, _cut(row.label, left - 20), anchor="end"))
        if place:
            parts.append(_line(left, start - gap / 2, width - right, start - gap / 2, "#f0f2f4"))
        for number, (dot, mark) in enumerate(zip(row.dots, row.marks, strict=True)):
            center = start + lane * (number + 0.5)
            if mark is not None:
                parts.append(_line(x(mark), center - 7, x(mark), center + 7, _GRAY, width=2.5))
            if dot is None:
                parts.append(_text(left + 6, center + 4, "undefined", color=_GRAY, size=11))
                continue
            if dot.low is not None and dot.high is not None:
                parts += _whisker_along(x(dot.low), x(dot.high), center, _color(number))
            parts.append(_marker(x(dot.mean), center, number))
    legend, used = _legend(
        [*((_marker(12, 0, number), name) for number, name in enumerate(names)), (_mark_sample(), marks)], floor + 62
    )
    return _framed(title, remarks, width, floor + 60 + used, *parts, legend)


def _reach(series: Sequence[Line], levels: Sequence[ReferenceLine]) -> tuple[float, float]:
    ends = [value for level in levels for _, value in level.points]
    for each in series:
        ends += [end for point in each.points for end in (point.mean, point.low, point.high) if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    step = _step(low, high)
    bottom = math.floor(low / step) * step
    if any(value == bottom for level in levels for _, value in level.points):  # it would lie on the axis
        bottom -= step
    return bottom, max(math.ceil(high / step) * step, bottom + step)


def _step(low: float, high: float) -> float:
    """A round distance that gives four to nine ticks."""
    raw = (high - low or 1.0) / 5
    unit = 10.0 ** math.floor(math.log10(raw))
    return next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw - 1e-12)


def _ceiling(value: float) -> float:
    step = _step(0, value)
    return math.ceil(value / step - 1e-9) * step or 1.0


def ticks(low: float, high: float) -> list[float]:
    """Round values in a range, four to nine of them."""
    step = _step(low, high)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _legend(names: Sequence[tuple[Html, str]], top: float) -> tuple[Html, float]:
    """The legend in as many lines as it takes, and its height."""
    parts, at, line = [], 24.0, 0
    for sample, name in names:
        width = 46 + _LETTER * len(name)
        if at + width > _WIDTH and at > 24:
            at, line = 24.0, line + 1
        y = _n(top + line * _LEGEND)
        parts.append(tag("g", sample, _text(30, 4, name, size=12), transform=f"translate({_n(at)} {y})"))
        at += width
    return join(*parts), (line + 1) * _LEGEND


def _sample(number: int) -> Html:
    return join(_path([(0, 0), (24, 0)], _color(number), _dash(number), 2), _marker(12, 0, number))


def _level_sample(dash: str) -> Html:
    return _path([(0, 0), (24, 0)], _GRAY, dash, 1.6)


def _mark_sample() -> Html:
    return _line(12, -7, 12, 7, _GRAY, width=2.5)


def _marker(x: float, y: float, number: int) -> Html:
    """Series differ by shape as well as by color."""
    shapes = (
        tag("circle", cx=_n(x), cy=_n(y), r=4.5, fill=_color(number)),
        tag("rect", x=_n(x - 4), y=_n(y - 4), width=8, height=8, fill=_color(number)),
        tag("path", d=f"M{_n(x)} {_n(y - 5)}l5 9h-10z", fill=_color(number)),
    )
    return shapes[number % len(shapes)]


def _whisker_up(x: float, low: float, high: float, color: str) -> list[Html]:
    return [_line(x, low, x, high, color), *(_line(x - 4, end, x + 4, end, color) for end in (low, high))]


def _whisker_along(low: float, high: float, y: float, color: str) -> list[Html]:
    return [_line(low, y, high, y, color), *(_line(end, y - 4, end, y + 4, color) for end in (low, high))]


def _line(x1: float, y1: float, x2: float, y2: float, color: str, *, width: float = 1.2) -> Html:
    return tag("line", x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2), stroke=color, stroke_width=width)


def _path(points: Sequence[tuple[float, float]], color: str, dash: str, width: float) -> Html:
    way = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    return tag("polyline", points=way, fill="none", stroke=color, stroke_width=width, stroke_dasharray=dash or None)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    color: str = _INK,
    size: int = _TEXT,
    weight: str = "normal",
) -> Html:
    return tag("text", text, x=_n(x), y=_n(y), text_anchor=anchor, fill=color, font_size=size, font_weight=weight)


def _turned(x: float, y: float, text: str) -> Html:
    return tag("g", _text(0, 0, text, anchor="middle"), transform=f"translate({_n(x)} {_n(y)}) rotate(-90)")


def _cut(text: str, width: float) -> str:
    most = max(4, int(width / _LETTER))
    return text if len(text) <= most else text[: most - 1] + "…"


def _color(number: int) -> str:
    return COLORS[number % len(COLORS)]


def _dash(number: int) -> str:
    return _DASHES[number % len(_DASHES)]


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
