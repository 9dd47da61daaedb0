"""What one value of a text is: its kind, its span, and what it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

__all__ = ["DateRange", "Value", "overlap"]


@dataclass(frozen=True, slots=True)
class DateRange:
    """A closed interval of days; without a beginning it starts at `date.min`, without an end it ends at `date.max`."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """Length in days, at least 1."""
        return (self.last - self.first).days + 1

    @property
    def is_open(self) -> bool:
        """Whether it has no beginning or no end."""
        return self.first == date.min or self.last == date.max


@dataclass(frozen=True, slots=True)
class Value:
    """One value at `text[start:end]`. `kind`: date, quantity (with `unit`), version or number.

    `dates` is the interval that a date names; `bounds` the one that it delimits ("before 2023", "since May 2024").
    """

    kind: str
    start: int
    end: int
    number: float = 0.0
    unit: str = ""
    dates: DateRange | None = None
    raw: str = ""
    other_dates: DateRange | None = None
    bounds: DateRange | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it is written in digits, is a date or has a unit: "one" may be no number at all."""
        return bool(self.raw[:1].isdigit() or self.dates or self.unit)

    @property
    def readings(self) -> tuple[DateRange, ...]:
        """The dates that it may mean: 3/4/2025 is a day of March or of April."""
        if self.other_dates is None:  # nearly always
            return (self.dates,) if self.dates else ()
        return tuple(reading for reading in (self.dates, self.other_dates) if reading)


def overlap(wanted: DateRange, given: DateRange) -> float:
    """Shared days over the days of the shorter interval, in [0, 1]."""
    if wanted.last < given.first or given.last < wanted.first:
        return 0.0
    shared = (min(wanted.last, given.last) - max(wanted.first, given.first)).days + 1
    return shared / min(wanted.days, given.days)
