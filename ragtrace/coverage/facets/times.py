"""Times that are relative to the request's clock: "last year", "in the past six months", "vor zwei Wochen", "YTD".

Phrases of other languages are those of dateparser's data (Unicode CLDR). What the calendar calls a year, quarter, month
or week is taken whole: last year is 1 January to 31 December.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

from ragtrace.coverage.facets.language import is_english_question
from ragtrace.coverage.values import DateRange
from ragtrace.coverage.values.dates import LANGUAGES, MONTHS, locale_data

__all__ = ["RelativeTime", "relative_times"]

_UNIT: Final = r"(?P<unit>day|week|month|quarter|year|decade)s?"
_NAMES: Final = r"day|week|month|quarter|year|decade"
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS: Final = {word: number for number, word in enumerate(
    "a one two three four five six seven eight nine ten eleven twelve".split())}  # fmt: skip
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)}|couple\s+of|few)"
_RELATIVE: Final = re.compile(
    rf"""\b(?:
      (?P<day>(?:the\s+)?day\s+before\s+yesterday|yesterday|today|tomorrow)
    | (?P<todate>(?P<since>year|quarter|month)[\s-]to[\s-]date|[yqm]td|so\s+far\s+this\s+(?P<far>year|quarter|month))
    | (?P<span>(?:(?:in|over|during|for|within)\s+)?(?:the\s+)?
        (?P<way>last|past|previous|prior|preceding|trailing|next|coming)
        \s+{_COUNT}\s+(?:fiscal\s+|calendar\s+|financial\s+|full\s+)?{_UNIT})
    | (?P<rolling>(?:in|over|during|for|within)\s+the\s+(?:last|past|previous)\s+(?P<whole>{_NAMES}))
    | (?P<period>(?P<which>this|last|previous|prior|preceding|next|coming|current|past)
        \s+(?:fiscal\s+|calendar\s+|financial\s+)?(?P<one>{_NAMES}|weekend))
    | (?P<month>(?P<near>this|last|past|next|coming)\s+(?P<name>{"|".join(MONTHS)}|{"|".join(_WEEKDAYS)})\b
        (?!\.?\s+\d))
    | (?P<ago>(?P<number>\d{{1,3}}|{"|".join(_NUMBERS)})
        \s+(?P<of>{_NAMES})s?\s+(?:ago|earlier))
    )\b(?!-)""",
    re.IGNORECASE | re.VERBOSE,
)
_TO_DATE: Final = {"y": "year", "q": "quarter", "m": "month"}
_DAYS: Final = {"yesterday": 1, "today": 0, "tomorrow": -1}
_LEAD: Final = re.compile(
    r"""\b(?P<bound>since|before|prior\s+to|until|till|by|up\s+to|no\s+later\s+than|after)\s+(?:the\s+)?
        (?:(?:start|beginning|end)\s+of\s+)?$""",
    re.IGNORECASE | re.VERBOSE,
)
_REACH: Final = 32
_KEY: Final = re.compile(r"(?:in )?(\d+) (day|week|month|year)(?: ago)?")


@dataclass(frozen=True, slots=True)
class RelativeTime:
    """The phrase `text[start:end]` and the days that it means."""

    start: int
    end: int
    dates: DateRange


def relative_times(text: str, today: date) -> list[RelativeTime]:
    """The times that `text` names relative to `today`, in order."""
    found = _english(text, today) if is_english_question(text) else _foreign(text, today)
    return [RelativeTime(start, end, dates) for start, end, dates in found if dates]


def _english(text: str, today: date) -> Iterator[tuple[int, int, DateRange | None]]:
    for match in _RELATIVE.finditer(text):
        dates = _guarded(match, today)
        lead = _LEAD.search(text[max(0, match.start() - _REACH) : match.start()])
        if dates and lead:
            yield match.start() - len(lead.group()), match.end(), _bounded(lead.group("bound").casefold(), dates)
        else:
            yield match.start(), match.end(), dates


def _bounded(bound: str, dates: DateRange) -> DateRange:
    """What "since last year" or "before last month" delimits."""
    if bound == "since":
        return DateRange(dates.first, date.max)
    if bound == "after":
        return DateRange(dates.last + timedelta(days=1), date.max)
    if bound.startswith(("before", "prior")):
        return DateRange(date.min, dates.first - timedelta(days=1))
    return DateRange(date.min, dates.last)


def _guarded(match: re.Match[str], today: date) -> DateRange | None:
    try:
        return _dates(match, today)
    except (OverflowError, ValueError):
        return None  # ninety decades before a year that has no such predecessor


def _dates(match: re.Match[str], today: date) -> DateRange:
    if day := match.group("day"):
        shift = timedelta(days=_DAYS.get(day.casefold(), 2))
        return DateRange(today - shift, today - shift)
    if to_date := match.group("todate"):
        since = match.group("since") or match.group("far") or _TO_DATE[to_date[0].casefold()]
        return DateRange(_period(since.casefold(), 0, today).first, today)
    if match.group("rolling"):
        return DateRange(_shifted(today, match.group("whole").casefold(), -1), today)
    if match.group("month"):
        return _named(match.group("name").casefold(), match.group("near").casefold(), today)
    if match.group("span"):
        return _span(match.group("way").casefold(), _count(match.group("count")), match.group("unit").casefold(), today)
    if match.group("ago"):
        return _period(match.group("of").casefold(), -_count(match.group("number")), today)
    return _period(match.group("one").casefold(), _shift(match.group("which")), today)


def _shift(which: str) -> int:
    return {"this": 0, "current": 0, "next": 1, "coming": 1}.get(which.casefold(), -1)


def _named(name: str, near: str, today: date) -> DateRange:
    """The month or weekday of that name: this year's or week's, or the nearest one before or behind the current one."""
    if name in _WEEKDAYS:
        ahead = _WEEKDAYS.index(name) - today.weekday()
        days = ahead if near == "this" else (ahead - 1) % 7 + 1 if _shift(near) > 0 else -((-ahead - 1) % 7 + 1)
        day = today + timedelta(days=days)
        return DateRange(day, day)
    ahead = MONTHS[name] - today.month
    months = ahead if near == "this" else (ahead - 1) % 12 + 1 if _shift(near) > 0 else -((-ahead - 1) % 12 + 1)
    return _period("month", months, today)


def _span(way: str, count: int, unit: str, today: date) -> DateRange:
    if way in ("next", "coming"):
        return DateRange(today, _shifted(today, unit, count))
    return DateRange(_shifted(today, unit, -count), today)


def _count(written: str) -> int:
    name = written.casefold()
    if name.isdecimal():
        return int(name)
    return 2 if name.startswith("couple") else 3 if name == "few" else max(1, _NUMBERS[name])


def _period(unit: str, shift: int, today: date) -> DateRange:
    """The calendar's `unit` that is `shift` of them after today's."""
    if unit == "day":
        day = today + timedelta(days=shift)
        return DateRange(day, day)
    if unit == "week":
        first = today - timedelta(days=today.weekday()) + timedelta(weeks=shift)
        return DateRange(first, first + timedelta(days=6))
    if unit == "weekend":
        week = _period("week", shift, today)
        return DateRange(week.last - timedelta(days=1), week.last)
    months = {"month": 1, "quarter": 3, "year": 12, "decade": 120}[unit]
    whole = (today.year * 12 + today.month - 1) // months + shift
    first, after = _month(whole * months), _month((whole + 1) * months)
    return DateRange(first, after - timedelta(days=1))


def _month(months: int) -> date:
    return date(months // 12, months % 12 + 1, 1)


def _shifted(day: date, unit: str, count: int) -> date:
    if unit in ("day", "week"):
        return day + timedelta(days=count * (7 if unit == "week" else 1))
    months = {"month": 1, "quarter": 3, "year": 12, "decade": 120}[unit]
    first = _month(day.year * 12 + day.month - 1 + count * months)
    last = (_month(first.year * 12 + first.month) - timedelta(days=1)).day
    return first.replace(day=min(day.day, last))


def _foreign(text: str, today: date) -> Iterator[tuple[int, int, DateRange | None]]:
    folded = text.casefold()
    if len(folded) != len(text):
        return  # a letter that folds to two would shift the spans
    taken: list[tuple[int, int]] = []
    for pattern, key in _phrases():
        for match in pattern.finditer(folded):
            if any(start < match.end() and match.start() < end for start, end in taken):
                continue
            meaning = _KEY.fullmatch(key.replace("\\1", match.group(1)) if "\\1" in key else key)
            if meaning:
                taken.append(match.span())
                count = int(meaning.group(1)) * (1 if key.startswith("in ") else -1)
                yield match.start(), match.end(), _calendar(meaning.group(2), count, today)


def _calendar(unit: str, count: int, today: date) -> DateRange | None:
    try:
        return _period(unit, count, today)
    except (OverflowError, ValueError):
        return None


@lru_cache(maxsize=1)
def _phrases() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Phrases of `LANGUAGES` with what they mean in English ("1 year ago"); the longest go first."""
    written: dict[str, str] = {}
    for language in LANGUAGES:
        data = locale_data(language)
        for key, phrases in data.get("relative-type", {}).items():
            written |= {
                re.escape(phrase): key for phrase in phrases if len(phrase) > 3 and re.escape(phrase) not in written
            }
        for key, patterns in data.get("relative-type-regex", {}).items():
            written |= {pattern.replace(r"[.,]?\d*+", ""): key for pattern in patterns}
    kept = [(phrase, key) for phrase, key in written.items() if re.search(r"day|week|month|year", key)]
    ordered = sorted(kept, key=lambda each: len(each[0]), reverse=True)
    return tuple((re.compile(rf"(?<!\w){phrase}(?!\w)"), key) for phrase, key in ordered)
