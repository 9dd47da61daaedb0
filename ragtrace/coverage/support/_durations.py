"""Times that follow from others: how long it is between two dates or years, how old somebody is, and the date that is
so long before or after another one.

Dates and lengths of time count from the claim, the rest of the answer and the question (they are *named*), and from
those sentences of the evidence that have most of the words of claim and question. Of two that the evidence alone has, a
length follows only where the claim or the question asks for one.
"""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import lru_cache
from itertools import combinations, product
from typing import Final, NamedTuple

from ragtrace.coverage.support.readings import Reading, SentenceWindow
from ragtrace.coverage.text import cached_property, content_stems
from ragtrace.coverage.values import DateRange, Value, values
from ragtrace.coverage.values.dates import MONTHS
from ragtrace.coverage.values.value import DAY

__all__ = ["Durations", "clocks_in", "is_day_of_month", "months_through", "tells_from_its_day"]

MOST: Final = 12  # dates, and lengths, of either source that are combined
MOST_CLOCKS: Final = 16  # times of the day between which the hours are counted
SPANS: Final = 8  # dates of a claim and its question between which the days are counted
SENTENCES: Final = 6  # of the evidence that are taken to speak of what a claim speaks of
NEAR: Final = 0.5  # share of the words of the best sentence that such a sentence has
KEPT: Final = 64  # texts whose sentences are kept
_YEAR: Final = re.compile(r"1\d{3}|20\d\d")
_DAYS: Final = {"day": 1, "week": 7}
_CALENDAR: Final = {"day": 1.0, "week": 7.0, "month": 30.44, "year": 365.25}
_MINUTES: Final = {"hour": 60.0, "minute": 1.0, "second": 1 / 60}
_SECONDS: Final = re.compile(r":\d\d:(\d\d)")
_MONTHS: Final = {"month": 1, "year": 12, "decade": 120}
MONTH: Final = 16  # characters beside a number in which the name of its month stands
_ANY_MONTH: Final = "|".join(sorted(MONTHS, key=len, reverse=True))
_MONTH_BEHIND: Final = re.compile(rf"(?:st|nd|rd|th)?\s(?:of\s)?(?:{_ANY_MONTH})\b", re.IGNORECASE)
_MONTH_BEFORE: Final = re.compile(rf"\b(?:{_ANY_MONTH})\.?\s$", re.IGNORECASE)
_DAY_NAMES: Final = "mon|tues|wednes|thurs|fri|satur|sun"
_FROM_ITS_DAY: Final = re.compile(
    rf"""\b(?:yesterday | today | tonight | tomorrow | (?:last|next|this|coming|past)\s(?:(?:{_DAY_NAMES})day
        | week | month | year | spring | summer | autumn | winter | night | morning | evening)
        | (?:on|since|until|by|before|after)\s(?:{_DAY_NAMES})day (?!s|,?\s\d|,?\s(?:the\s)?\w+\s\d)
        | \w+\s(?:days?|weeks?|months?|years?)\sago)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""What tells a day by the day on which a text was written."""
_AGE: Final = re.compile(
    r"\b(?:age[ds]?|old|older|younger|turn(?:ed|s)|birthday|born|at\s+\d\d|life|lived|died)\b", re.IGNORECASE
)
_LASTS: Final = re.compile(
    r"""\b(?:how\s+(?:long|old|many) | for | after(?:wards)? | later | earlier | before | last(?:s|ed|ing)? | exist\w*
    | ago | between | within | took | takes? | until | since | ahead | apart | gap | span\w* | duration | period | stood
    | served | reign\w* | held | spent | age[ds]? | old | older | younger | long(?:er)?)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_MONTH_NAMES: Final = tuple(
    "January February March April May June July August September October November December".split()
)
_MONTHS_THROUGH: Final = re.compile(
    rf"""\b({"|".join(_MONTH_NAMES)})\s?(?:to|until|till|through|and|[-–—])\s?(?:the\s)?(?:(?:end|start|beginning|middle)\sof\s)?
    ({"|".join(_MONTH_NAMES)})\b""".replace("\n    ", ""),
)
_OR_YEARS: Final = re.compile(r"\s*(?:or|to|[-–—])\s*\d+(?:\s+years|-year)", re.IGNORECASE)
_WORKING: Final = re.compile(r"\b(?:working|business|school|week)[\s-]?days?\b", re.IGNORECASE)


class _Time(NamedTuple):
    """A date as the first and last day that it may mean. source: the part of the evidence; -1: it is named."""

    first: date
    last: date
    source: int

    @property
    def is_year(self) -> bool:
        return (self.last - self.first).days > 360

    @property
    def is_day(self) -> bool:
        return self.first == self.last


class _Length(NamedTuple):
    """A length of time in days and months. source: as that of a date."""

    days: int
    months: int
    source: int


class Durations:
    """The dates and lengths of time of some evidence, ready to be asked what follows from them.

    parts: of the evidence; asked: the question.
    """

    def __init__(self, parts: Sequence[Reading | SentenceWindow], asked: str = "") -> None:
        self._parts = parts
        self._asked = asked
        self._near: dict[str, list[tuple[int, Value]]] = {}

    def gives_length(self, value: Value, claim: str, answer: str, slack: float = 0.0) -> bool:
        """Whether it is so long from one date to another: "for 397 years", "at 34". slack: in the value's unit."""
        text = f"{self._asked} {claim}"
        if any(abs(length - abs(value.number)) <= slack for length in _spans(value.unit, text)):
            return True
        is_age = _is_of_age(text)
        unit = value.unit or ("year" if is_age or _OR_YEARS.match(claim, value.end) else "")
        if unit not in (*_DAYS, *_MONTHS) or not value.number:
            return False
        named = _times((-1, each) for each in values(f"{self._asked} {answer or claim}"))
        near = _times(self._nearest(text)) if _LASTS.search(text) else []
        pairs = [*combinations(named, 2), *product(named, near), *combinations(near, 2)]
        return any(
            abs(length - value.number) <= slack for one, two in pairs for length in _lengths(unit, one, two, is_age)
        )

    def gives_date(self, value: Value, claim: str, answer: str) -> bool:
        """Whether another date and a length of time give a date or a year: 1841, two years after 1839."""
        wanted = next(iter(_times([(-1, value)])), None)
        if wanted is None:
            return False
        text = f"{self._asked} {answer or claim}"
        found = [(-1, each) for each in values(text)] + self._nearest(f"{self._asked} {claim}")
        lengths = _lengths_of(found, text, self._parts)
        bases = [one for one in _times(found, 2 * MOST) if one[:2] != wanted[:2]]
        return any(
            _follows(wanted, base, length, sign)
            for base, length in product(bases, lengths)
            if -1 in (base.source, length.source) or base.source == length.source
            for sign in (1, -1)
        )

    def may_give_date(self, value: Value) -> bool:
        """Whether any date and any length of time of evidence and question give a date, whatever they are of, or the
        evidence names the day and no year."""
        wanted = next(iter(_times([(-1, value)])), None)
        if wanted is None:
            return False
        bases, lengths = self._every
        return any(_names_day(part.text, wanted.first) for part in self._parts) or any(
            _follows(wanted, base, length, sign) for base, length in product(bases, lengths) for sign in (1, -1)
        )

    @cached_property
    def _every(self) -> tuple[list[_Time], list[_Length]]:
        """The dates and the lengths of time of evidence and question."""
        found = [(at, each) for at, part in enumerate(self._parts) for each in part.values]
        found += [(-1, each) for each in values(self._asked)]
        return _times(found, 2 * MOST), _lengths_of(found, self._asked, self._parts)

    def between_clocks(self, unit: str, text: str) -> Iterator[float]:
        """How long it is from one time of the day to another, of two that the evidence, or claim and question, name."""
        if unit in _MINUTES:
            yield from (minutes / _MINUTES[unit] for minutes in self._between(text))

    def may_give_length(self, value: Value) -> bool:
        """Whether two times of the day lie so far apart, to the next unit, or by so many of a unit and smaller ones."""
        per = _MINUTES.get(value.unit)
        if per is None:
            return False
        lengths = [minutes / per for minutes in self._between(self._asked)]
        return any(abs(each - value.number) < 1 or math.floor(each) % 60 == value.number for each in lengths)

    def _between(self, text: str) -> Iterator[float]:
        for found in (*(part.values for part in self._parts), values(text)):
            for one, two in combinations(clocks_in(found)[:MOST_CLOCKS], 2):
                yield (_minutes_of(two) - _minutes_of(one)) % DAY

    def _nearest(self, text: str) -> list[tuple[int, Value]]:
        """The values of those sentences of the evidence that have most of the words of a text."""
        if text not in self._near:
            if len(self._near) >= KEPT:
                self._near.clear()
            words = content_stems(text)
            windows = [(at, window) for at, part in enumerate(self._parts) for window in _sentences(part)]
            shared = [words & window.words for _, window in windows]
            counts = Counter(word for each in shared for word in each)
            weights = [math.fsum(math.log1p(len(windows) / counts[word]) for word in each) for each in shared]
            best = max(weights, default=0.0)
            order = sorted(range(len(windows)), key=lambda place: -weights[place])
            chosen = [place for place in order[:SENTENCES] if weights[place] and weights[place] >= NEAR * best]
            self._near[text] = [(windows[place][0], value) for place in chosen for value in windows[place][1].values]
        return self._near[text]


def _minutes_of(clock: Value) -> float:
    """The minutes of a time of the day, with the seconds that it is written with: 04:58:11."""
    seconds = _SECONDS.search(clock.raw)
    return clock.number + (int(seconds[1]) / 60 if seconds else 0.0)


def clocks_in(found: Iterable[Value]) -> list[Value]:
    """The times of the day among values."""
    return [value for value in found if value.kind == "clock"]


def months_through(text: str) -> Iterator[float]:
    """How many months a text names by the first and the last: "from November to the end of February", three or four."""
    for first, last in _MONTHS_THROUGH.findall(text):
        months = (_MONTH_NAMES.index(last) - _MONTH_NAMES.index(first)) % 12
        yield from (float(months), float(months + 1))


def _sentences(part: Reading | SentenceWindow) -> Sequence[SentenceWindow]:
    return part.sentences if isinstance(part, Reading) else [part]


def _times(found: Iterable[tuple[int, Value]], most: int = MOST) -> list[_Time]:
    """The dates among values, and the numbers that may be years."""
    times: dict[_Time, None] = {}
    for source, value in found:
        if value.dates and not value.dates.is_open:
            times[_Time(value.dates.first, value.dates.last, source)] = None
        elif value.kind == "number" and _YEAR.fullmatch(value.raw):
            times[_Time(date(int(value.raw), 1, 1), date(int(value.raw), 12, 31), source)] = None
    return list(times)[:most]


def _lengths_of(
    found: Iterable[tuple[int, Value]], text: str, parts: Sequence[Reading | SentenceWindow]
) -> list[_Length]:
    """The lengths of time among values; those in working days are none that the calendar gives."""
    working = {
        source: _WORKING.search(text if source < 0 else parts[source].text) for source in {at for at, _ in found}
    }
    lengths: dict[_Length, None] = {}
    for source, value in found:
        number = int(value.number)
        if number != value.number or not 0 < number < 3_000 or value.dates:
            continue
        if value.unit in _DAYS and not working[source]:
            lengths[_Length(number * _DAYS[value.unit], 0, source)] = None
        elif value.unit in _MONTHS:
            lengths[_Length(0, number * _MONTHS[value.unit], source)] = None
    return list(lengths)[: 2 * MOST]


def _lengths(unit: str, one: _Time, two: _Time, is_age: bool) -> Iterator[float]:
    """How long it is between two dates, as it is counted in a unit."""
    if one[:2] == two[:2]:
        return
    years = abs(two.first.year - one.first.year)
    if unit == "year":
        yield float(years)
        if is_age:
            yield float(years - 1)
    elif unit == "decade":
        yield years / 10
    elif one.is_year or two.is_year:
        if unit == "month" and one.is_year and two.is_year:
            yield 12.0 * years
    elif unit == "month":
        yield float(abs(12 * (two.first.year - one.first.year) + two.first.month - one.first.month))
    elif one.is_day and two.is_day:
        days = abs((two.first - one.first).days)
        yield from (days / _DAYS[unit], (days + 1) / _DAYS[unit])


@lru_cache(maxsize=16)  # asked for each figure of a claim, which may have thousands
def _is_of_age(text: str) -> bool:
    """Whether a text speaks of somebody's age."""
    return _AGE.search(text) is not None


@lru_cache(maxsize=16)
def _dates_named(text: str) -> Sequence[DateRange]:
    """The first dates that a text names."""
    return [value.dates for value in values(text) if value.dates and not value.dates.is_open][:SPANS]


def _spans(unit: str, text: str) -> Iterator[float]:
    """The time between two dates that a text names, by the mean length of a month or year, and that from the first to
    the last day of one; in days where no unit is given. So many months go from November to the end of February."""
    length = _CALENDAR.get(unit or "day")
    if length is None:
        return
    if unit == "month":
        yield from months_through(text)
    dates = _dates_named(text)
    for one, two in combinations([*dates, *dates], 2):
        days = abs((two.first - one.first).days) or one.days - 1
        yield from (days / length, days / length + 1)
        if unit == "year":
            yield float(abs(two.first.year - one.first.year))


def _follows(wanted: _Time, base: _Time, length: _Length, sign: int) -> bool:
    """Whether a date lies so long after another one, or before it, give or take a day."""
    if base.is_year and (length.days or length.months % 12):
        return False
    try:
        first, last = (_moved(each, sign * length.days, sign * length.months) for each in (base.first, base.last))
    except (ValueError, OverflowError):
        return False  # before the first day of the calendar, or after its last
    if wanted.is_year or base.is_year:
        return wanted.first.year == first.year and wanted.is_year
    day = timedelta(days=1)
    return first - day <= wanted.last and wanted.first <= last + day


def _moved(day: date, days: int, months: int) -> date:
    month = 12 * day.year + day.month - 1 + months
    year, place = divmod(month, 12)
    last = monthrange(year, place + 1)[1] if year >= 1 else 0
    return date(year, place + 1, min(day.day, last)) + timedelta(days=days)


def _names_day(text: str, day: date) -> bool:
    """Whether a text names the day and month of a date without a year: "on 1 June"."""
    name = _MONTH_NAMES[day.month - 1]
    written = rf"(?<![\d.,]){day.day}(?:st|nd|rd|th)?\s(?:of\s)?{name}|\b{name}\s{day.day}(?:st|nd|rd|th)?"
    return name in text and re.search(rf"(?:{written})\b(?!,?\s\d{{4}})", text) is not None


def tells_from_its_day(text: str) -> bool:
    """Whether a text tells days as they lie from the day on which it was written: "last Tuesday", "two weeks ago"."""
    return _FROM_ITS_DAY.search(text) is not None


def is_day_of_month(value: Value, claim: str) -> bool:
    """Whether a number is the day of a month whose year is not said: "26 October"."""
    behind, before = claim[value.end : value.end + MONTH], claim[max(0, value.start - MONTH) : value.start]
    is_named = _MONTH_BEHIND.match(behind) or _MONTH_BEFORE.search(before)
    return 0 < value.number <= 31 and not value.unit and is_named is not None
