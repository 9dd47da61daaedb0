"""The time that a preview covers, and the variables that it fills in."""

from __future__ import annotations

import pytest

from ragtrace.dashboards.model import Panel
from ragtrace.dashboards.span import Span, seconds_of
from ragtrace.errors import ConfigurationError

HOUR = 3600.0
PLAIN = Panel(title="", kind="timeseries", description="")
SMOOTH = Panel(title="", kind="timeseries", description="", least_step="10m")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("6h", 6 * HOUR), ("1h30m", 1.5 * HOUR), ("500ms", 0.5), ("2d", 48 * HOUR)]
)
def test_duration_is_read_as_prometheus_writes_it(text: str, seconds: float) -> None:
    """Numbers with units, in a row."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "6", "6 h", "h", "0s", "six hours", "6h!", "-1h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """The message says what may stand there."""
    with pytest.raises(ConfigurationError, match="one like 6h"):
        seconds_of(text)


def test_points_are_as_far_apart_as_the_panel_asks() -> None:
    """A smooth panel has points of ten minutes over a day, and still enough of them over an hour."""
    day, hour = Span(0, 24 * HOUR), Span(0, HOUR)
    assert day.step(SMOOTH) == 600
    assert day.step(PLAIN) == 360
    assert hour.step(SMOOTH) == 100
    assert hour.step(PLAIN) == 15


def test_rate_interval_holds_four_scrapes() -> None:
    """As Grafana computes it: the step and one scrape, at least four scrapes."""
    assert Span(0, HOUR, scrape=60).filled("[$__rate_interval]", PLAIN) == "[240s]"
    assert Span(0, 24 * HOUR, scrape=15).filled("[$__rate_interval]", SMOOTH) == "[615s]"


def test_variables_are_filled_in_once() -> None:
    """Each variable becomes its value; a value is not looked at again."""
    span = Span(HOUR, 2 * HOUR, service="a$segment", segment='b"\\.c', stratum="flagged")
    filled = span.filled('x{service=~"$service",segment=~"$segment",stratum=~"$stratum"}[$__range] > ${__from}', PLAIN)
    assert filled == 'x{service=~"a$segment",segment=~"b\\"\\\\.c",stratum=~"flagged"}[3600s] > 3600000'
