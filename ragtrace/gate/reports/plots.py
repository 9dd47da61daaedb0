"""The intervals of the gate's cells as inline SVG: zero, the margin, and where the candidate stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragtrace.export.charts import ticks
from ragtrace.export.markup import Html, tag
from ragtrace.gate.model import Cell
from ragtrace.gate.reports.layout import result

__all__ = ["Scale", "scale"]

_ROOM = 0.06
_LABELS = 6


@dataclass(frozen=True, slots=True)
class Scale:
    """From where to where the differences of one metric are drawn."""

    low: float
    high: float
    factor: float

    def interval(self, cell: Cell) -> Html:
        """The interval of a cell; what is worse than the margin lies in the shaded part."""
        if cell.difference is None or cell.low is None or cell.high is None:
            return Html("")
        margin = -cell.margin if cell.direction == "higher" else cell.margin
        edge = self.low if cell.direction == "higher" else self.high
        left, right = sorted((self._at(margin), self._at(edge)))
        parts = [
            tag("rect", x=f"{left}%", y=0, width=f"{right - left:.2f}%", height=24, class_="harm"),
            self._upright(margin, "margin"),
            self._upright(0.0, "zero"),
            tag("line", x1=f"{self._at(cell.low)}%", y1=12, x2=f"{self._at(cell.high)}%", y2=12, class_="range"),
            *(self._upright(end, "range", 7, 17) for end in (cell.low, cell.high)),
            tag("circle", cx=f"{self._at(cell.difference)}%", cy=12, r=4.5, class_="mean"),
        ]
        return tag("svg", *parts, class_=f"interval {result(cell)}", height=24, aria_hidden="true")

    def axis(self) -> Html:
        """Round values to read the intervals by."""
        found = ticks(self.low * self.factor, self.high * self.factor)
        step = -(-len(found) // _LABELS)
        zero = next((place for place, value in enumerate(found) if value == 0), 0)
        parts = [
            tag("text", f"{value:+g}".replace("-", "−") if value else "0",
                x=f"{self._at(value / self.factor)}%", y=12, class_="middle")
            for place, value in enumerate(found)
            if (place - zero) % step == 0
        ]  # fmt: skip
        return tag("svg", *parts, class_="axis", height=16, aria_hidden="true")

    def _at(self, value: float) -> float:
        return round(2 + 96 * (value - self.low) / (self.high - self.low), 2)

    def _upright(self, value: float, class_: str, top: int = 0, bottom: int = 24) -> Html:
        at = f"{self._at(value)}%"
        return tag("line", x1=at, y1=top, x2=at, y2=bottom, class_=class_)


def scale(cells: Sequence[Cell]) -> Scale:
    """One scale for all cells of a metric, wide enough for every interval, for zero and for the margins."""
    ends = [0.0]
    for cell in cells:
        ends += [-cell.margin, cell.margin]
        ends += [end for end in (cell.low, cell.high, cell.difference) if end is not None]
    room = (max(ends) - min(ends)) * _ROOM or 1.0
    return Scale(min(ends) - room, max(ends) + room, 1.0 if cells and cells[0].kind == "quantity" else 100.0)
