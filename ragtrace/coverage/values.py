"""Typed values in a text: dates as intervals, quantities with units, money, plain numbers, versions.

A value knows its kind, so that "30 days" is compared with "90 days" and not with "30 %". Units are converted by pint,
which is loaded on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Final

__all__ = [
    "DateRange",
    "Value",
    "best_overlap",
    "date_ranges",
    "overlap",
    "parse_quantity",
    "same_kind",
    "same_value",
    "values",
]

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sep sept", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE: Final = re.compile(
    rf"""(?<![\w.,])(?:
      (?P<iso>(?P<y1>\d{{4}})-(?P<m1>\d{{2}})(?:-(?P<d1>\d{{2}}))?)
    | (?P<a9>\d{{1,2}})(?P<s9>[/.])(?P<b9>\d{{1,2}})(?P=s9)(?P<y9>(?:19|20)\d{{2}})
    | (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m2>{_MONTH})\.?,?\s+(?P<y2>\d{{4}})
    | (?P<m3>{_MONTH})\.?\s+(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y3>\d{{4}})
    | (?P<m4>{_MONTH})\.?\s+(?P<y4>\d{{4}})
    | q(?P<q5>[1-4])\s*(?:of\s+)?(?P<y5>\d{{4}})
    | (?P<y6>(?:19|20)\d{{2}})\s*(?:-|–|to|through|until)\s*(?P<y7>(?:19|20)\d{{2}})(?!-?\d)
    | (?P<y8>(?:19|20)\d{{2}})
    )(?![\w]|[.,]\d)""",
    re.IGNORECASE | re.VERBOSE,
)
_CURRENCY: Final = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR"}
_CODES: Final = frozenset("EUR USD GBP CHF JPY CAD AUD NZD SEK NOK DKK PLN CZK INR CNY SGD".split())
_CURRENCY_WORDS: Final = {"euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "pound": "GBP",
                          "pounds": "GBP", "franc": "CHF", "francs": "CHF"}  # fmt: skip
_UNITS: Final = frozenset(
    """second seconds minute minutes hour hours day days week weeks month months year years km kilometer kilometers
    kilometre kilometres m meter meters metre metres cm mm mile miles kg kilogram kilograms g gram grams mg tonne tonnes
    ton tons lb lbs pound_mass l liter liters litre litres ml kw kwh mw mwh mb gb tb kb mph celsius °c hz khz mhz ghz
    points sqm employees users seats""".split()
)
_WORDS: Final = {
    word: number
    for number, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_SCALES: Final = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9}
_NUMBER: Final = re.compile(
    rf"""(?<![\w.,])(?P<pre>[€$£¥₹]|\b(?:{"|".join(sorted(_CODES))})\s)?\s?
    (?P<sign>[-−])?(?:(?P<digits>\d{{1,3}}(?:[, \u00a0\u202f]\d{{3}})+(?:\.\d+)?
      |\d{{1,3}}(?:\.\d{{3}})+(?:,\d+)?|\d+(?:[.,]\d+)?)
      |(?P<word>\b(?:{"|".join(_WORDS)})\b))
    (?P<tail>(?:[-\s]?(?:%|per\s?cent\b|°c|[€£]|[a-zà-ÿ]+))?(?:\s[a-zà-ÿ]+)?(?:\s[a-zà-ÿ]+)?)""",
    re.IGNORECASE | re.VERBOSE,
)
_VERSION: Final = re.compile(r"(?<![\w.])(?:v\d+(?:\.\d+)*|\d+(?:\.\d+){2,})(?![\w]|\.\d)", re.IGNORECASE)
_TAIL_TOKEN: Final = re.compile(r"%|°c|[€£]|[a-zà-ÿ]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DateRange:
    """A closed interval of days."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """Length in days, at least 1."""
        return (self.last - self.first).days + 1


@dataclass(frozen=True, slots=True)
class Value:
    """One value at `text[start:end]`. `kind`: date, quantity (with `unit`), version or number."""

    kind: str
    start: int
    end: int
    number: float = 0.0
    unit: str = ""
    dates: DateRange | None = None
    raw: str = ""
    other_dates: DateRange | None = None

    @property
    def readings(self) -> tuple[DateRange, ...]:
        """The dates that it may mean: 3/4/2025 is a day of March or of April."""
        return tuple(reading for reading in (self.dates, self.other_dates) if reading)


@lru_cache(maxsize=16384)
def date_ranges(text: str) -> tuple[DateRange, ...]:
    """The dates that `text` names, each as an interval of days: a day, a month, a quarter, a year, a span of years."""
    return tuple(reading for value in _dates(text) for reading in value.readings)


@lru_cache(maxsize=16384)
def values(text: str) -> tuple[Value, ...]:
    """All dates, quantities, versions and numbers of `text`, in order; what is part of a date is no number."""
    found = list(_dates(text))
    for more in (_versions(text), [_number(match) for match in _NUMBER.finditer(text)]):
        taken = [(value.start, value.end) for value in found]
        found += [each for each in more if not any(start < each.end and each.start < end for start, end in taken)]
    return tuple(sorted(found, key=lambda value: value.start))


def parse_quantity(text: str) -> Value | None:
    """The first quantity or number of `text`; None when there is none."""
    return next((value for value in values(text) if value.kind in ("quantity", "number")), None)


def overlap(wanted: DateRange, given: DateRange) -> float:
    """Shared days over the days of the shorter interval, in [0, 1]."""
    shared = (min(wanted.last, given.last) - max(wanted.first, given.first)).days + 1
    return max(0.0, shared / min(wanted.days, given.days))


def same_value(one: Value, other: Value) -> bool:
    """Whether two values say the same: dates by overlap of a half or more, quantities after unit conversion."""
    if one.dates and other.dates:
        return best_overlap(one.readings, other.readings) >= 0.5
    if one.dates or other.dates:
        return False
    if one.kind == "version" or other.kind == "version":
        return one.raw == other.raw
    if one.unit == other.unit or not one.unit or not other.unit:
        return _close(one.number, other.number)
    return _converts(one, other)


def same_kind(one: Value, other: Value) -> bool:
    """Whether two values could stand in each other's place: both dates, or the same (convertible) unit."""
    if one.dates or other.dates:
        return bool(one.dates and other.dates)
    if one.kind != other.kind:
        return False
    return one.unit == other.unit or (bool(one.unit and other.unit) and _dimension(one.unit) == _dimension(other.unit))


def _dates(text: str) -> list[Value]:
    found = []
    for match in _DATE.finditer(text):
        part = match.groupdict()
        dates, other = _either(part) if part["a9"] else (_range(part), None)
        if dates:
            value = Value("date", match.start(), match.end(), dates=dates, raw=match.group(), other_dates=other)
            found.append(value)
    return found


def _versions(text: str) -> list[Value]:
    return [
        Value("version", match.start(), match.end(), raw=match.group().casefold().removeprefix("v"))
        for match in _VERSION.finditer(text)
    ]


def _range(part: dict[str, str | None]) -> DateRange | None:
    def number(name: str) -> int:
        return int(part[name] or 0)

    def month(name: str) -> int:
        return _MONTHS[(part[name] or "").casefold()]

    try:
        if part["iso"]:
            return _day(number("y1"), number("m1"), number("d1")) if part["d1"] else _months(number("y1"), number("m1"))
        if part["y2"]:
            return _day(number("y2"), month("m2"), number("d2"))
        if part["y3"]:
            return _day(number("y3"), month("m3"), number("d3"))
        if part["y4"]:
            return _months(number("y4"), month("m4"))
        if part["y5"]:
            return _months(number("y5"), 3 * number("q5") - 2, 3)
        if part["y6"]:
            return DateRange(date(number("y6"), 1, 1), date(number("y7"), 12, 31))
        return DateRange(date(number("y8"), 1, 1), date(number("y8"), 12, 31))
    except ValueError:
        return None  # 31 February is no date


def _either(part: dict[str, str | None]) -> tuple[DateRange | None, DateRange | None]:
    """Day first and month first, as far as each is a date."""
    one, two, year = (int(part[name] or 0) for name in ("a9", "b9", "y9"))
    found = []
    for month, day in ((two, one), (one, two)):
        try:
            found.append(_day(year, month, day))
        except ValueError:
            continue  # 3/14/2025 is read month first only
    return (found[0] if found else None), (found[1] if len(found) > 1 and found[1] != found[0] else None)


def _day(year: int, month: int, day: int) -> DateRange:
    return DateRange(date(year, month, day), date(year, month, day))


def _months(year: int, month: int, count: int = 1) -> DateRange:
    after = date(year + (month + count - 1) // 12, (month + count - 1) % 12 + 1, 1)
    return DateRange(date(year, month, 1), after - timedelta(days=1))


def _number(match: re.Match[str]) -> Value:
    digits, word = match.group("digits"), match.group("word")
    group = "digits" if digits else "word"
    start = match.start("pre") if match.group("pre") else match.start(group)
    end = match.end(group)
    number = _amount(digits) if digits else float(_WORDS[(word or "").casefold()])
    number = -number if match.group("sign") else number
    scale, unit, length = _tail(match.group("tail") or "")
    currency = _currency(match.group("pre"))
    return Value(
        "quantity" if currency or unit else "number",
        start,
        end + length,
        number=number * scale,
        unit=currency or unit,
        raw=match.string[start : end + length].strip(),
    )


def _amount(digits: str) -> float:
    """1,000.50 and 1.000,50 and 5,5: the last mark is the decimal one, unless it groups thousands."""
    plain = re.sub(r"[^\d.,]", "", digits)
    head, mark, tail = plain.rpartition("," if plain.rfind(",") > plain.rfind(".") else ".")
    groups = len(tail) == 3 and not plain.startswith("0") and (mark == "," or plain.count(".") > 1)
    whole, fraction = (plain, "") if groups or not mark else (head, f".{tail}")
    return float(re.sub(r"[.,]", "", whole) + fraction)


def _currency(prefix: str | None) -> str:
    name = (prefix or "").strip()
    return _CURRENCY.get(name, name.upper())


def _tail(tail: str) -> tuple[float, str, int]:
    """Scale, unit and length of what follows a number: `million euros`, ` consecutive days`, `%`."""
    scale, end = 1.0, 0
    for position, token in enumerate(_TAIL_TOKEN.finditer(tail)):
        name = token.group().casefold()
        if position == 0 and name in _SCALES:
            scale, end = _SCALES[name], token.end()
            continue
        unit = _unit(name, token.group())
        if unit:
            return scale, unit, token.end()
    return scale, "", end


def _unit(name: str, written: str) -> str:
    if name in ("%", "percent", "cent"):
        return "%"
    if name in _CURRENCY:
        return _CURRENCY[name]
    if written in _CODES:
        return written
    if name in _CURRENCY_WORDS:
        return _CURRENCY_WORDS[name]
    return (name[:-1] if len(name) > 3 and name.endswith("s") else name) if name in _UNITS else ""


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(1.0, abs(one), abs(other))


@lru_cache(maxsize=1)
def _registry() -> Any:
    import pint

    return pint.UnitRegistry()


@lru_cache(maxsize=1024)
def _dimension(unit: str) -> str:
    try:
        return str(_registry().parse_units(unit).dimensionality)
    except Exception:
        return unit


def _converts(one: Value, other: Value) -> bool:
    if _dimension(one.unit) != _dimension(other.unit) or one.unit in _CODES or "%" in (one.unit, other.unit):
        return False
    registry = _registry()
    converted = float(registry.Quantity(one.number, one.unit).to(other.unit).magnitude)
    calendar = {one.unit, other.unit} & {"month", "year"}  # a month is 28 to 31 days
    return abs(converted - other.number) <= (0.08 if calendar else 0.01) * max(1e-9, abs(other.number))


def best_overlap(wanted: Iterable[DateRange], given: Iterable[DateRange]) -> float:
    """The best overlap of any wanted with any given interval; 0 when there is none."""
    options = list(given)
    return max((overlap(one, other) for one in wanted for other in options), default=0.0)
