"""Durations: read, written, and shortened by a factor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.alerts.durations import Duration
from ragtrace.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "milliseconds", "name"),
    [("5m", 300_000, "5m"), ("90s", 90_000, "1m30s"), ("1h30m", 5_400_000, "1h30m"), ("1w", 604_800_000, "7d")],
)
def test_text_is_read_and_written(text: str, milliseconds: int, name: str) -> None:
    """As Prometheus does."""
    duration = Duration.parse(text)
    assert (duration.milliseconds, duration.name, str(duration)) == (milliseconds, name, name)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "-5m", "0m", "5y", "1.5h", 5, None, ["5m"]])
def test_anything_else_is_refused(text: object) -> None:
    """The message says what a duration looks like."""
    with pytest.raises(ConfigurationError, match="as in 5m or 1h30m"):
        Duration.parse(text)


def test_scale_shortens_the_time_and_not_the_name() -> None:
    """Series keep their names in a replay."""
    duration = Duration.parse("1h", 60)
    assert (duration.name, str(duration), duration.seconds) == ("1h", "1m", 60.0)
    assert str(Duration.parse("30s", 60)) == "500ms"
    assert str(Duration.parse("1ms", 60)) == "1ms"  # never nothing at all


@given(st.integers(min_value=1, max_value=10**10))
def test_what_is_written_reads_as_the_same(milliseconds: int) -> None:
    """Writing and reading are inverse."""
    assert Duration.parse(str(Duration(milliseconds))).milliseconds == milliseconds
