"""The words that dashboards are described in: dashboard, section, panel, target, threshold, link."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from ragtrace.registry import Objective

__all__ = [
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

STAGE_COLORS: Final = (
    ("retrieval", "blue"),
    ("ranking", "orange"),
    ("generation: contradiction", "purple"),
    ("generation", "green"),
    ("citation", "yellow"),
)
"""The color of series whose names begin so; the first that fits."""

COLUMNS: Final = 24
"""How many columns the grid of a dashboard has."""

Kind: TypeAlias = Literal["timeseries", "stacked", "stat", "table", "heatmap", "text"]
Color: TypeAlias = Literal["green", "orange", "red"]
Unit: TypeAlias = Literal["percentunit", "short", "s", "cpm", "dateTimeAsIso", "none"]


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

    `empty` says what fills the panel where it has no series. `line` is an objective, drawn as a line. A point covers
    `least_step` at least, so that ratios of few requests do not jump. `key` lists the labels of a table that are its
    columns. `by_stage`: its series are named after stages and have their colors. `text` is Markdown, of a text panel,
    which has no target.
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
    newest_first: bool = False
    by_stage: bool = False
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


def steps_of(objective: Objective) -> tuple[Threshold, ...]:
    """Colors of a share of good requests: green at the target, orange until its budget is used twice, red below."""
    budget = 1 - objective.target
    return (
        Threshold(None, "red"),
        Threshold(round(1 - 2 * budget, 4), "orange"),
        Threshold(objective.target, "green"),
    )
