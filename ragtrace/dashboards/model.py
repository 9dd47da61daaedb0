"""The words that dashboards are described in: dashboard, section, panel, target, threshold, link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

__all__ = [
    "COLORS",
    "COLUMNS",
    "Color",
    "Dashboard",
    "Kind",
    "Link",
    "Panel",
    "Section",
    "Target",
    "Threshold",
    "Unit",
    "steps_of",
]

COLUMNS: Final = 24
"""How many columns the grid of a dashboard has."""

Kind: TypeAlias = Literal["timeseries", "stacked", "stat", "table", "heatmap", "text"]
Color: TypeAlias = Literal["green", "orange", "red"]
Unit: TypeAlias = Literal["percentunit", "short", "s", "cpm", "dateTimeAsIso", "none"]
Named: TypeAlias = Literal["stages", "states"]

COLORS: Final[Mapping[Named, Mapping[str, str]]] = {
    "stages": {"retrieval": "blue", "ranking": "orange", "generation": "green", "citation": "yellow"},
    "states": {"sound": "green", "broken": "red", "suspected": "orange", "not_known": "gray"},
}
"""The color of a series by the beginning of its name, where a panel's series are named after stages or states."""


class Target(msgspec.Struct, frozen=True):
    """One query. `legend` names its series (`{{label}}` is filled in) or, in a table, its column.

    `unit` differs from the panel's in tables only. `exemplar` asks for the traces behind the values.
    """

    expr: str
    legend: str
    unit: Unit | None = None
    exemplar: bool = False


class Threshold(msgspec.Struct, frozen=True):
    """A color from `value` upwards; the first threshold of a panel has none and holds from below."""

    value: float | None
    color: Color


class Link(msgspec.Struct, frozen=True):
    """Where a value leads; `${__data.fields.label}` is the label of the value that was chosen."""

    title: str
    url: str


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One panel.

    `empty` says what fills the panel where it has no series. `line` is the target of a stage, or the threshold of a
    score, drawn as a line; `thresholds` color what lies on its sides. A point covers `least_step` at least, so that
    ratios of few requests do not jump. `key` lists the labels of a table that are its columns. `named`: what its series
    are named after, which have their colors. `text` is Markdown, of a text panel, which has no target.
    """

    title: str
    kind: Kind
    description: str
    unit: Unit = "short"
    targets: tuple[Target, ...] = ()
    width: int = 8
    height: int = 8
    minimum: float | None = None
    maximum: float | None = None
    decimals: int | None = None
    line: float | None = None
    thresholds: tuple[Threshold, ...] = ()
    least_step: str | None = None
    key: tuple[str, ...] = ()
    largest_first: bool = False
    named: Named | None = None
    links: tuple[Link, ...] = ()
    empty: str = ""
    text: str = ""


class Section(msgspec.Struct, frozen=True):
    """Panels under one heading, from left to right and from top to bottom."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """One dashboard. `uid` is its address, which alerts link to."""

    uid: str
    title: str
    description: str
    sections: tuple[Section, ...]

    @property
    def panels(self) -> Iterator[Panel]:
        """All panels in order."""
        return (panel for section in self.sections for panel in section.panels)


def steps_of(target: float) -> tuple[Threshold, ...]:
    """Colors of a share of good requests: green at the target, orange until its budget is used twice, red below."""
    return (
        Threshold(None, "red"),
        Threshold(round(1 - 2 * (1 - target), 4), "orange"),
        Threshold(target, "green"),
    )
