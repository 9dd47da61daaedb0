"""Times of the day are read where they are written as such, and are the same on a clock of 24 and of 12 hours."""

from __future__ import annotations

import pytest

from ragtrace.coverage.values import Value, same_kind, same_value, says, values
from ragtrace.coverage.values.dates import clock_times
from ragtrace.coverage.values.value import CLOCK, HALF_CLOCK


def _one(text: str) -> Value:
    (value,) = values(text)
    return value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("between 16:00 and 17:30", [(960, CLOCK), (1050, CLOCK)]),
        ("from 4 pm to 5:30 p.m.", [(960, CLOCK), (1050, CLOCK)]),
        ("from 9 to 5:30 pm", [(540, HALF_CLOCK), (1050, CLOCK)]),
        ("9am-5pm", [(540, CLOCK), (1020, CLOCK)]),
        ("open 9-5 pm", [(540, HALF_CLOCK), (1020, CLOCK)]),
        ("Monday 9:00–12:00", [(540, HALF_CLOCK), (720, HALF_CLOCK)]),
        ("10 am to noon", [(600, CLOCK), (720, CLOCK)]),
        ("12 am, 12:30 am, 12 pm, midnight", [(0, CLOCK), (30, CLOCK), (720, CLOCK), (0, CLOCK)]),
        ("half past five", [(330, HALF_CLOCK)]),
        ("quarter to 9 pm", [(1245, CLOCK)]),
        ("seven o'clock in the evening", [(1140, CLOCK)]),
        ("18.30 Uhr, 17h30", [(1110, CLOCK), (1050, CLOCK)]),
        ("08:00:00", [(480, CLOCK)]),
        ("at 4:30", [(270, HALF_CLOCK)]),
    ],
)
def test_times_of_the_day(text: str, expected: list[tuple[int, str]]) -> None:
    """Minutes since midnight, and whether the half of the day is known."""
    assert [(value.number, value.unit) for value in values(text) if value.kind == "clock"] == expected
    assert [text[value.start : value.end] for value in clock_times(text)] == [value.raw for value in clock_times(text)]


@pytest.mark.parametrize(
    "text",
    ["a ratio of 3:2", "diluted 1:50", "in 4:30 minutes", "2 h 30 min", "version 4.30", "10.0.0.1:80", "John 3:16",
     "$4.50 am Ende", "the afternoon", "16:9", "13 pm"],
)  # fmt: skip
def test_what_is_no_time_of_the_day(text: str) -> None:
    """Ratios, how long something takes, addresses and prices stay what they were."""
    assert clock_times(text) == []


@pytest.mark.parametrize(
    ("claimed", "stated", "same"),
    [
        ("4 pm", "at 16:00", True),
        ("4 am", "at 16:00", False),
        ("at 5:30", "17:30", True),
        ("at 5:30", "5:30 pm", True),
        ("noon", "12 pm", True),
        ("midnight", "24:00", True),
        ("6 pm", "17:00", False),
        ("opens at 9", "9:00 am", True),
        ("9:00 am", "opens at 9", True),
        ("at 14.12", "14:12", True),
        ("at 14.21", "14:12", False),
    ],
)
def test_the_same_time(claimed: str, stated: str, same: bool) -> None:
    """Either half of the day fits where it is not said."""
    assert same_value(_one(claimed), _one(stated)) is same
    assert says(_one(claimed), _one(stated)) is same


def test_a_part_of_a_time_is_stated_by_it() -> None:
    """Where a claim has its minutes apart; an amount of something is no time, and a time states no other one."""
    given = _one("17:30")
    assert says(_one("30"), given)
    assert not says(_one("45"), given)
    assert not says(_one("30 days"), given)
    assert same_kind(given, _one("4 pm"))
    assert not same_kind(given, _one("30"))
