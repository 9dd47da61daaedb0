"""Figures of the gate as they are written: scores and shares in points and percent, quantities in their unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragtrace.gate.metrics import METRICS
from ragtrace.gate.model import Cell, Kind, VersionChange
from ragtrace.triage.wording import plain

__all__ = [
    "amount",
    "bounds",
    "change",
    "count",
    "enumerated",
    "harm",
    "interval",
    "label",
    "level",
    "metric_name",
    "probability",
    "short_name",
    "signed",
    "verb",
    "width",
]

_LONGEST: Final = 48
_NAMED: Final = 3
_MINUS: Final = "−"


def metric_name(metric: str) -> str:
    """A metric as a sentence calls it."""
    known = METRICS.get(metric)
    if known is None:
        return metric.replace("_", " ")
    return known.title if known.state is None else f"the share of requests with {known.title}"


def short_name(metric: str) -> str:
    """A metric in a table of its stage."""
    known = METRICS.get(metric)
    return (metric if known is None or known.state is None else known.state).replace("_", " ")


def label(text: str) -> str:
    """A name of the host (segment, version, selection) on one line, cut where it is very long."""
    line = plain(text) or "(empty)"
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def enumerated(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def change(component: VersionChange) -> str:
    """`model m-7 → m-8`; what a side does not name is "none"."""
    sides = " → ".join(
        label(version) if version is not None else "none" for version in (component.baseline, component.candidate)
    )
    return f"{label(component.component)} {sides}{' (several versions at once)' if component.mixed else ''}"


def harm(cell: Cell) -> float:
    """By how much the candidate is worse, in the metric's unit; negative where it is better."""
    difference = cell.difference or 0.0
    return -difference if cell.direction == "higher" else difference


def amount(cell: Cell, value: float) -> str:
    """A size with its unit: `12 points`, `0.42 s`."""
    if cell.kind == "quantity":
        return f"{_digits(value)}{_unit(cell)}"
    points = _points(value)
    return f"{points} point{'' if points == '1' else 's'}"


def level(cell: Cell, value: float | None) -> str:
    """A mean: `71.3 %`, `0.42 s`."""
    if value is None:
        return "-"
    return f"{_digits(value)}{_unit(cell)}" if cell.kind == "quantity" else f"{value * 100:.1f} %"


def signed(cell: Cell, value: float | None) -> str:
    """A difference for a table: points without their name, quantities with their unit."""
    if value is None:
        return "-"
    number = _short(abs(value)) if cell.kind == "quantity" else f"{abs(value) * 100:.1f}"
    sign = "" if not number.strip("0.") else "+" if value > 0 else _MINUS
    return f"{sign}{number}{_unit(cell) if cell.kind == 'quantity' else ''}"


def width(cell: Cell, value: float) -> str:
    """A margin for a table; "-" where it is a share of a mean that is not known."""
    if not value and cell.difference is None:
        return "-"
    return f"{_short(value)}{_unit(cell)}" if cell.kind == "quantity" else _points(value)


def interval(cell: Cell) -> str:
    """The interval of the difference for a table, without its unit: `−16.0 to −8.0`."""
    if cell.low is None or cell.high is None:
        return "-"
    unit = _unit(cell) if cell.kind == "quantity" else ""
    return " to ".join(signed(cell, end).removesuffix(unit) for end in (cell.low, cell.high))


def count(cell: Cell) -> str:
    """The defined pairs, or the defined requests of both sides."""
    before, after = cell.n
    return f"{before:,}" if before == after else f"{before:,} / {after:,}"


def probability(value: float | None) -> str:
    """A p-value."""
    if value is None:
        return "-"
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def bounds(cell: Cell) -> str:
    """The interval of a sentence that has said "fell" or "rose": `8 to 16`."""
    low, high = cell.low or 0.0, cell.high or 0.0
    ends = (low, high) if (cell.difference or 0.0) >= 0 else (-high, -low)
    return " to ".join(_end(cell.kind, end) for end in ends) + (_unit(cell) if cell.kind == "quantity" else "")


def verb(difference: float) -> str:
    """What happened to a metric."""
    return "rose" if difference > 0 else "fell"


def _end(kind: Kind, value: float) -> str:
    text = _digits(abs(value)) if kind == "quantity" else _points(abs(value))
    return f"{_MINUS}{text}" if value < 0 and text != "0" else text


def _points(value: float) -> str:
    points = value * 100
    if 0 < abs(points) < 0.095:
        return f"{points:.1g}"
    return f"{points:.1f}".removesuffix(".0")


def _digits(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _short(value: float) -> str:
    """Two digits that mean something; what is smaller than four places tell is 0, and no power of ten."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value >= 0.0001 or not value else f"{value:.4f}".rstrip("0").rstrip(".")


def _unit(cell: Cell) -> str:
    known = METRICS.get(cell.metric)
    if known is None or known.unit == "1":
        return ""
    return f" {known.unit.strip('{}')}{'s' if known.unit.startswith('{') else ''}"
