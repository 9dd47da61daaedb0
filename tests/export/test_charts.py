"""Charts as SVG: what they show, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest

from ragtrace.export.charts import DotRow, Line, Point, ReferenceLine, dot_chart, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def _texts(chart: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(chart).iter(f"{SVG}text")]


def _line(series: Sequence[Line], levels: Sequence[ReferenceLine] = (), **given: object) -> str:
    xs = sorted({point.x for each in series for point in each.points})
    return line_chart(
        "Title <&>",
        ("one", "two"),
        x_label="budget",
        y_label="share",
        series=series,
        levels=levels,
        x_ticks=[(x, f"{x:g}") for x in xs],
        **given,  # type: ignore[arg-type]
    )


def _path(chart: str, number: int) -> list[tuple[float, float]]:
    lines = list(ElementTree.fromstring(chart).iter(f"{SVG}polyline"))
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in lines[number].attrib["points"].split())]


def test_a_line_chart_names_all_that_it_shows() -> None:
    """Title, remarks, axes, ticks and the legend; texts are escaped."""
    chart = _line([Line("a<b", (Point(1, 0.2), Point(2, 0.4)))], [ReferenceLine("chance", ((1, 0.1), (2, 0.1)))])

    assert {"Title <&>", "one", "two", "budget", "share", "1", "2", "a<b", "chance"} <= set(_texts(chart))


def test_points_stand_where_their_values_are() -> None:
    """Twice the value is twice as high; doubled budgets are equally far apart on a logarithmic scale."""
    series = [Line("s", (Point(8, 0.0), Point(16, 0.5), Point(32, 1.0)))]
    (x0, y0), (x1, y1), (x2, y2) = _path(_line(series, y_range=(0.0, 1.0), log_x=True), 0)

    assert y0 - y1 == pytest.approx(y1 - y2) == pytest.approx(145)
    assert x1 - x0 == pytest.approx(x2 - x1)


def test_error_bars_span_the_interval() -> None:
    """From low to high; a point without an interval has none."""
    chart = _line([Line("s", (Point(1, 0.5, 0.25, 0.75), Point(2, 0.5)))], y_range=(0.0, 1.0))
    bars = re.findall(r'<line x1="([\d.]+)" y1="([\d.]+)" x2="\1" y2="([\d.]+)" stroke="#0072b2"', chart)

    assert [abs(float(low) - float(high)) for _, low, high in bars] == pytest.approx([145])


def test_a_level_does_not_lie_on_the_axis() -> None:
    """Chance at the lowest value gets room below it."""
    chart = _line([Line("s", (Point(1, 1.0), Point(2, 0.5)))], [ReferenceLine("chance", ((1, 0.0), (2, 0.0)))])

    assert max(y for _, y in _path(chart, 0)) < 78 + 290


def test_one_point_and_equal_values_can_be_drawn() -> None:
    """A scale without extent is no division by zero."""
    ElementTree.fromstring(_line([Line("s", (Point(1, 0.0),))], log_x=True))


def test_a_dot_chart_says_what_is_undefined() -> None:
    """Rows, series and marks have names; a missing value is a word, not a zero."""
    rows = [
        DotRow("m-1 · k 3", (None, Point(0, 20, 10, 30)), (None, 40.0)),
        DotRow(
            "a much longer name of a model with everything that a row may say · k 4", (Point(0, 5), None), (50.0, None)
        ),
    ]
    chart = dot_chart("T", ("r",), x_label="share (%)", names=("wasted", "noise"), marks="chance", rows=rows, x_max=100)

    assert {"m-1 · k 3", rows[1].label, "share (%)", "wasted", "noise", "chance", "undefined", "100"} <= set(
        _texts(chart)
    )
    assert _texts(chart).count("undefined") == 2


def test_nothing_but_zeros_can_be_drawn() -> None:
    """The scale has an extent all the same."""
    rows = [DotRow("r", (Point(0, 0.0, 0.0, 0.0),), (0.0,))]

    assert "1" in _texts(dot_chart("T", (), x_label="x", names=("s",), marks="m", rows=rows))


def test_a_chart_stands_alone() -> None:
    """It asks nobody for anything."""
    chart = _line([Line("s", (Point(1, 0.5), Point(2, 0.5)))])

    assert re.findall(r"(?:href|src|url\()", chart) == []
    assert re.findall(r"https?://[^\"]+", chart) == ["http://www.w3.org/2000/svg"]
