"""What the words around a date make of it: "before 2023", "since May 2024", "from 2020 to March 2022"."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from ragtrace.coverage.values.model import DateRange, Value

__all__ = ["bounded"]

_REACH: Final = 32  # characters before and behind a date that are looked at
_ARTICLE: Final = r"\s+(?:the\s+)?(?:(?:start|beginning|end|year|date)\s+(?:of\s+)?)?$"
_BEFORE: Final = re.compile(rf"\b(?:before|prior\s+to|earlier\s+than|preceding|pre){_ARTICLE}|\bpre-$", re.IGNORECASE)
_UNTIL: Final = re.compile(
    rf"\b(?:until|till?|up\s+to|through|by|(?:no|not)\s+later\s+than|on\s+or\s+before|ending){_ARTICLE}", re.IGNORECASE
)
_AFTER: Final = re.compile(rf"(?<!on or )\b(?:after|later\s+than|following|post){_ARTICLE}|\bpost-$", re.IGNORECASE)
_SINCE: Final = re.compile(
    rf"""\b(?:since|starting(?:\s+(?:in|on|from))?|beginning(?:\s+(?:in|on))?|as\s+from|effective(?:\s+(?:from|since))?
        |in\s+force\s+(?:from|since)|valid\s+from|on\s+or\s+after|(?:no|not)\s+(?:earlier|sooner)\s+than){_ARTICLE}""",
    re.IGNORECASE | re.VERBOSE,
)
_ONWARD: Final = re.compile(
    r"^\s*(?:onwards?|or\s+(?:later|newer|after)|and\s+(?:later|after|onwards?)|\+)", re.IGNORECASE
)
_DOWNWARD: Final = re.compile(r"^\s*(?:or|and)\s+(?:earlier|before|older|prior)", re.IGNORECASE)
_TO: Final = re.compile(r"\s*(?:-|–|—|to|through|until|till?)\s*", re.IGNORECASE)
_AND: Final = re.compile(r"\s+and\s+", re.IGNORECASE)
_ENDED: Final = re.compile(
    r"""\b(?:(?P<months>three|six|nine|twelve|3|6|9|12)[\s-]months?|(?P<quarter>quarter)|(?P<year>year))
        (?:\s+period)?\s+(?:ended|ending)\s+(?:on\s+)?$""",
    re.IGNORECASE | re.VERBOSE,
)
_MONTHS: Final = {"three": 3, "six": 6, "nine": 9, "twelve": 12}
_BETWEEN: Final = re.compile(r"\bbetween\s+$", re.IGNORECASE)


def bounded(text: str, found: list[Value]) -> list[Value]:
    """`found` (dates in order), with `bounds` where words around them give some; ends of one span become one value."""
    joined: list[Value] = []
    for value in found:
        if joined and _spans(text, joined[-1], value):
            joined[-1] = _joined(text, joined[-1], value)
        else:
            joined.append(value)
    return [_delimited(text, value) for value in joined]


def _spans(text: str, one: Value, other: Value) -> bool:
    between = text[one.end : other.start]
    if len(between) > _REACH or not (one.dates and other.dates and one.dates.first <= other.dates.last):
        return False
    lead = text[max(0, one.start - _REACH) : one.start]
    return bool(_TO.fullmatch(between) or (_AND.fullmatch(between) and _BETWEEN.search(lead)))


def _joined(text: str, one: Value, other: Value) -> Value:
    ends = [dates for dates in (one.dates, other.dates) if dates]
    dates = DateRange(ends[0].first, max(end.last for end in ends))
    lead = _BETWEEN.search(text[max(0, one.start - _REACH) : one.start])
    start = one.start - len(lead.group()) if lead else one.start
    return replace(one, start=start, end=other.end, dates=dates, other_dates=None, raw=text[start : other.end])


def _delimited(text: str, value: Value) -> Value:
    dates = value.dates
    lead, rest = text[max(0, value.start - _REACH) : value.start], text[value.end : value.end + _REACH]
    if dates is None:
        return value
    if period := _ENDED.search(lead):
        whole = DateRange(_beginning(dates.last, period), dates.last)
        return replace(value, start=value.start - len(lead) + period.start(), dates=whole, other_dates=None,
                       raw=lead[period.start() :] + value.raw)  # fmt: skip
    for pattern, bound, day, shift in ((_BEFORE, _ended, dates.first, 1), (_UNTIL, _ended, dates.last, 0),
                                       (_AFTER, _begun, dates.last, 1), (_SINCE, _begun, dates.first, 0)):  # fmt: skip
        if (match := pattern.search(lead)) and (bounds := bound(day, shift)):
            return replace(value, start=value.start - len(lead) + match.start(), bounds=bounds,
                           raw=lead[match.start() :] + value.raw)  # fmt: skip
    for pattern, bound, day in ((_ONWARD, _begun, dates.first), (_DOWNWARD, _ended, dates.last)):
        if (match := pattern.match(rest)) and (bounds := bound(day, 0)):
            return replace(value, end=value.end + match.end(), bounds=bounds, raw=value.raw + match.group())
    return value


def _beginning(last: date, period: re.Match[str]) -> date:
    """The first day of the months that end on `last`: after June 30, April 1 begins the quarter."""
    written = (period.group("months") or "").casefold()
    months = 3 if period.group("quarter") else 12 if period.group("year") else _MONTHS.get(written) or int(written)
    after = last + timedelta(days=1)
    at = after.year * 12 + after.month - 1 - months
    year, month = at // 12, at % 12 + 1
    return date(year, month, min(after.day, monthrange(year, month)[1]))


def _ended(last: date, less: int) -> DateRange | None:
    return DateRange(date.min, last - timedelta(days=less)) if last > date.min + timedelta(days=less) else None


def _begun(first: date, more: int) -> DateRange | None:
    return DateRange(first + timedelta(days=more), date.max) if first < date.max - timedelta(days=more) else None
