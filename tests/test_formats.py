"""Times as they are given on the command line, and as they are shown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from ragtrace.errors import ConfigurationError
from ragtrace.formats import parse_span, parse_time, shown_span, shown_time, written_time

NOW = 1_700_000_000_000_000_000  # 2023-11-14T22:13:20Z
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "seconds_ago"),
    [
        ("now", 0),
        (" Now ", 0),
        ("2h ago", 7_200),
        ("2h", 7_200),
        ("1.5 hours ago", 5_400),
        ("90s", 90),
        ("30 min ago", 1_800),
        ("5m", 300),
        ("7d", 604_800),
        ("2 weeks ago", 1_209_600),
        ("2023-11-14T22:13:20Z", 0),
        ("2023-11-14T22:13:20.5+00:00", -0.5),
        ("2023-11-14T23:13:20+02:00", 3_600),
        ("2023-11-14 22:13Z", 20),
        ("20231114T221320Z", 0),
        ("1970-01-01T00:00Z", 1_700_000_000),
        ("1950-01-01T00:00Z", 1_700_000_000 + 631_152_000),
        ("2023-11-14T22:15:00Z", -100),  # clocks may differ a little
    ],
)
def test_how_a_time_may_be_given(text: str, seconds_ago: float) -> None:
    """ISO 8601 with its zone, or how long ago it was."""
    assert parse_time("--at", text, NOW) == NOW - round(seconds_ago * SECOND)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "a time with its zone"),
        ("yesterday", "a time with its zone"),
        ("10ms", "a time with its zone"),
        ("2 parsecs ago", "a time with its zone"),
        ("-2h", "a time with its zone"),
        ("2h from now", "a time with its zone"),
        ("99999999999999d", "a time with its zone"),
        ("1700000000", "a time with its zone"),
        ("2023-11-14", "a time with its zone"),
        ("2023-13-14T00:00Z", "a time with its zone"),
        ("2023-11-14T22:13", "its zone too: 2023-11-14T22:13Z for UTC"),
        ("2023-11-15T22:13Z", "it lies in the future"),
    ],
)
def test_what_is_no_time_is_refused(text: str, remedy: str) -> None:
    """Naming the option, what was given, and what may be."""
    with pytest.raises(ConfigurationError) as caught:
        parse_time("--since", text, NOW)
    assert str(caught.value).startswith(f"--since {text!r} is not usable; give ")
    assert remedy in str(caught.value)


def test_now_is_the_present() -> None:
    """Unless another present is given."""
    before = time.time_ns()
    assert before <= parse_time("--at", "now") <= time.time_ns()


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_what_is_written_is_read(microseconds: int) -> None:
    """To the millisecond; what people see, to the second."""
    at = microseconds * 1_000
    assert parse_time("--at", written_time(at), 10**19) == at // 10**6 * 10**6
    assert parse_time("--at", shown_time(at), 10**19) == at // SECOND * SECOND


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3_599, "60 min"),
        (3_600, "1 h"),
        (9_000, "2.5 h"),
        (86_400, "24 h"),
        (172_800, "2 d"),
        (1_806_000, "20.9 d"),
        (100_000_000, "1157 d"),
    ],
)
def test_a_span_is_shown_in_its_largest_fitting_unit(seconds: float, text: str) -> None:
    """In three digits."""
    assert shown_span(seconds) == text


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("1.5 h", 5_400.0), (" 30D ", 2_592_000.0), ("0s", 0.0)])
def test_a_span(text: str, seconds: float) -> None:
    """A number with its unit."""
    assert parse_span("--keep", text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-3d", "2 moons", "2h ago", "200000 weeks"])
def test_a_text_that_is_no_span(text: str) -> None:
    """The error says what may be given."""
    with pytest.raises(ConfigurationError, match=r"--keep .* 90s, 30m, 12h, 30d, 8w"):
        parse_span("--keep", text)
