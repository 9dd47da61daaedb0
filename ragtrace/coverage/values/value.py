"""A typed value of a text: its kind, its span, what it stands for, and whether another one says the same; and numbers
that are not one run of digits: "two hundred and fifty", "one and a half", "2 1/2", "two dozen", "half an hour".

Units are converted by pint, which is loaded on first use and asked once per unit.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, Final, NamedTuple

__all__ = [
    "CLOCK",
    "CODES",
    "CURRENCIES",
    "DAY",
    "DEGREES",
    "HALF_CLOCK",
    "NO_AMOUNT",
    "NUMBER_WORDS",
    "DateRange",
    "StatedValues",
    "Value",
    "WrittenNumber",
    "base",
    "covers",
    "overlap",
    "same_kind",
    "same_value",
    "says",
    "unit_of",
    "written_numbers",
]

DAY: Final = 1440
"""Minutes of a day."""
NO_AMOUNT: Final = frozenset(("version", "clock"))
"""The kinds of values, beside dates, with which nothing is reckoned as with an amount."""
CLOCK: Final = "clock"
"""The unit of a time of the day, which is in minutes since midnight."""
HALF_CLOCK: Final = "clock of 12 hours"
"""The same where before or after noon is not said: 5:30 is 17:30 as well."""


class DateRange(NamedTuple):
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


class Value(NamedTuple):
    """One value at `text[start:end]`. `kind`: date, clock (a time of the day), quantity (with a unit), version, number.

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


_HALF_DAY: Final = DAY // 2
_POINTED: Final = re.compile(r"([01]?\d|2[0-4])\.([0-5]\d)")
_DIGITS: Final = re.compile(r"\d+")
_CALENDAR: Final = frozenset(("month", "year"))  # a month is 28 to 31 days
_SAME: Final = 0.5  # share of the shorter interval from which two dates are the same
_SAME_SPAN: Final = 0.89  # "the 2010s" are 2011 to 2020; share of the longer of two spans of years
_YEAR: Final = 366
_AS_EXACT: Final = 2.5  # times as long may the time be that states another: "in May" does not say May 4
DEGREES: Final = frozenset(("degree", "°c", "°f", "celsius", "fahrenheit"))
"""The units of temperature, and that which may be either."""


def same_value(one: Value, other: Value) -> bool:
    """Whether two values say the same: dates by overlap of a half or more, quantities after unit conversion.

    A date lies within a bound ("2021", "before 2023"); bounds of different directions are never the same.
    """
    if one.dates and other.dates:
        return _same_dates(one, other)
    if one.dates or other.dates:
        return False
    if one.kind == "version" or other.kind == "version":
        return one.raw == other.raw
    if one.kind == "clock" or other.kind == "clock":
        return _same_clock(one, other)
    if one.unit == other.unit or not one.unit or not other.unit or _degrees(one, other):
        return _close(one.number, other.number, 1e-9)
    return _converts(one, other)


def _same_clock(one: Value, other: Value) -> bool:
    """Whether two values name one time of the day; a plain number is an hour ("opens at 9" for 9:00), or hours and
    minutes with a point between them (14.12)."""
    if one.kind != other.kind:
        plain, clock = (one, other) if other.kind == "clock" else (other, one)
        if plain.kind != "number":
            return False
        pointed = _POINTED.fullmatch(plain.raw)
        minutes = 60 * int(pointed[1]) + int(pointed[2]) if pointed else 60 * plain.number
        return (minutes - clock.number) % _HALF_DAY == 0
    return (one.number - other.number) % (DAY if one.unit == other.unit == CLOCK else _HALF_DAY) == 0


def says(value: Value, given: Value) -> bool:
    """Whether evidence that states `given` states `value`: as `same_value`, but a date is the date that is named, not
    every one within a bound, and as exact. That it holds since 1990 does not say 2011, nor does "in 2026" say May 4."""
    if value.dates and given.dates:
        if value.dates == given.dates and value.bounds is None and value.other_dates is None is given.other_dates:
            return True
        return _names_date(value, given) and not _is_coarse(given, value)
    if given.kind == "clock" and value.kind == "number" and value.number in map(float, _DIGITS.findall(given.raw)):
        return True  # 30 of 17:30, where the claim has it apart
    return same_value(value, given)


class StatedValues:
    """The values of a text, ready to be asked for one."""

    def __init__(self, found: Sequence[Value]) -> None:
        self._raw = frozenset(value.raw for value in found)
        self._spans = [(value.dates, value) for value in found if value.dates]
        others = [value for value in found if not value.dates]
        self._no_amounts = [value for value in others if value.kind in NO_AMOUNT]
        amounts: dict[str, list[Value]] = {}
        for value in others:
            if value.kind not in NO_AMOUNT:
                amounts.setdefault(value.unit, []).append(value)
        self._amounts = {unit: (sorted(one.number for one in alike), alike) for unit, alike in amounts.items()}

    def holds(self, value: Value) -> bool:
        """Whether one of them says a value, or is written alike: "131.750" is read as thousands or not, by the text
        around it."""
        return value.raw in self._raw or self.says(value)

    def says(self, value: Value) -> bool:
        """Whether one of them says a value (see `says`); numbers of one unit are compared at once."""
        if value.dates:
            return any(says(value, other) for other in self._sharing_days(value, value.dates))
        if any(says(value, other) for other in self._no_amounts):
            return True
        if value.kind in NO_AMOUNT:
            return any(says(value, other) for _, alike in self._amounts.values() for other in alike)
        for unit, (numbers, alike) in self._amounts.items():
            if unit == value.unit or not unit or not value.unit:
                if _has_close(numbers, value.number):
                    return True
            elif _are_comparable(value.unit, unit) and any(says(value, other) for other in alike):
                return True
        return False

    def covers(self, value: Value) -> bool:
        """Whether one of them is a longer time that holds a date (see `covers`)."""
        return value.dates is not None and any(covers(other, value) for other in self._sharing_days(value, value.dates))

    def _sharing_days(self, value: Value, dates: DateRange) -> Iterator[Value]:
        """The dates that may have a day in common with one: others neither say nor cover it."""
        is_single = value.other_dates is None
        for given, other in self._spans:
            if not (is_single and other.other_dates is None and (given.last < dates.first or dates.last < given.first)):
                yield other


def _has_close(numbers: Sequence[float], number: float) -> bool:
    """Whether one of some numbers, in order, is the same as another one."""
    slack = 2e-9 * max(1.0, abs(number))
    place = bisect_left(numbers, number - slack)
    while place < len(numbers) and numbers[place] <= number + slack:
        if number == numbers[place] or _close(number, numbers[place], 1e-9):
            return True
        place += 1
    return False


@lru_cache(maxsize=1024)
def _are_comparable(one: str, other: str) -> bool:
    """Whether an amount in one unit can be the same as one in another."""
    if {one, other} <= DEGREES and "degree" in (one, other):
        return True
    return one not in CODES and other not in CODES and base(one)[0] == base(other)[0]


def covers(given: Value, value: Value) -> bool:
    """Whether `given` is a longer time, such as a year, that holds the date `value`."""
    return _is_coarse(given, value) and _names_date(value, given)


def _is_coarse(given: Value, value: Value) -> bool:
    """Whether a date is much less exact than another."""
    return bool(value.dates and given.dates) and all(
        one.days > _AS_EXACT * other.days for one in given.readings for other in value.readings
    )


def _names_date(value: Value, given: Value) -> bool:
    opposed = value.bounds and given.bounds and (value.bounds.first == date.min) != (given.bounds.first == date.min)
    return not opposed and _alike_any(value, given)


def same_kind(one: Value, other: Value) -> bool:
    """Whether two values could stand in each other's place: both dates, or the same (convertible) unit."""
    if one.dates or other.dates:
        return bool(one.dates and other.dates)
    if one.kind != other.kind:
        return False
    if one.kind == "clock" or one.unit == other.unit or _degrees(one, other):
        return True
    return bool(one.unit and other.unit) and base(one.unit)[0] == base(other.unit)[0]


def _degrees(one: Value, other: Value) -> bool:
    """Whether one says degrees without a scale and the other says of which."""
    return {one.unit, other.unit} <= DEGREES and "degree" in (one.unit, other.unit)


def _same_dates(one: Value, other: Value) -> bool:
    if one.bounds and other.bounds:
        if (one.bounds.first == date.min) != (other.bounds.first == date.min):
            return False
        return _alike_any(one, other)
    bounds, value = (one.bounds, other) if one.bounds else (other.bounds, one)
    if bounds:
        return any(_within(reading, bounds) for reading in value.readings)
    return _alike_any(one, other)


def _alike_any(one: Value, other: Value) -> bool:
    return any(_alike(own, given) for own in one.readings for given in other.readings)


def _alike(one: DateRange, other: DateRange) -> bool:
    """Whether two dates name the same time; two spans of years ("from 1994 to 2009") do so nearly to the day."""
    shared = overlap(one, other)
    if shared < _SAME or min(one.days, other.days) <= _YEAR:
        return shared >= _SAME
    return shared * min(one.days, other.days) >= _SAME_SPAN * max(one.days, other.days)


def _within(dates: DateRange, bounds: DateRange) -> bool:
    return overlap(bounds, dates) >= 1.0


def _close(one: float, other: float, share: float) -> bool:
    return abs(one - other) <= share * max(1e-9 if share > 1e-6 else 1.0, abs(one), abs(other))


def _converts(one: Value, other: Value) -> bool:
    if one.unit in CODES or other.unit in CODES:
        return False
    (dimension, scale, offset), (other_dimension, other_scale, other_offset) = base(one.unit), base(other.unit)
    if dimension != other_dimension:
        return False
    converted = (one.number * scale + offset - other_offset) / other_scale
    return _close(converted, other.number, 0.08 if _CALENDAR & {one.unit, other.unit} else 0.01)


CURRENCIES: Final = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "₽": "RUB", "₺": "TRY"}
CODES: Final = frozenset(
    """EUR USD GBP CHF JPY CAD AUD NZD SEK NOK DKK PLN CZK HUF RON INR CNY SGD HKD KRW BRL MXN ZAR TRY RUB ILS AED
    THB""".split()
)
_CURRENCY_WORDS: Final = {"euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "pound": "GBP",
                          "pounds": "GBP", "franc": "CHF", "francs": "CHF", "yen": "JPY", "rupee": "INR",
                          "rupees": "INR"}  # fmt: skip
_COUNTED: Final = frozenset(
    "points employees users seats tokens bits pages people persons items ppm ppb rpm db iu".split()
)
_PINT: Final = {
    "second": "second", "sec": "second", "minute": "minute", "min": "minute", "hour": "hour", "hr": "hour", "h": "hour",
    "day": "day", "week": "week", "month": "month", "year": "year", "yr": "year", "ms": "millisecond",
    "decade": "decade",
    "km": "kilometer", "kilometer": "kilometer", "kilometre": "kilometer", "m": "meter", "meter": "meter",
    "metre": "meter", "cm": "centimeter", "mm": "millimeter", "nm": "nanometer", "µm": "micrometer", "mile": "mile",
    "mi": "mile", "foot": "foot", "feet": "foot", "ft": "foot", "inch": "inch", "inches": "inch", "yard": "yard",
    "kg": "kilogram", "kilogram": "kilogram", "kilo": "kilogram", "g": "gram", "gram": "gram", "mg": "milligram",
    "µg": "microgram", "mcg": "microgram", "tonne": "metric_ton", "ton": "metric_ton", "lb": "pound", "lbs": "pound",
    "pound_mass": "pound", "ounce": "ounce", "oz": "ounce", "l": "liter", "liter": "liter", "litre": "liter",
    "ml": "milliliter", "gallon": "gallon", "kw": "kilowatt", "kwh": "kilowatt_hour", "mw": "megawatt",
    "mwh": "megawatt_hour", "gw": "gigawatt", "watt": "watt", "w": "watt",
    "volt": "volt", "kv": "kilovolt", "byte": "byte",
    "kb": "kilobyte", "mb": "megabyte", "gb": "gigabyte", "tb": "terabyte", "kib": "kibibyte", "mib": "mebibyte",
    "gib": "gibibyte", "tib": "tebibyte", "mbps": "megabit / second", "gbps": "gigabit / second",
    "mph": "mile / hour", "km/h": "kilometer / hour", "kmh": "kilometer / hour", "hz": "hertz", "khz": "kilohertz",
    "mhz": "megahertz", "ghz": "gigahertz", "celsius": "degC", "°c": "degC", "fahrenheit": "degF", "°f": "degF",
    "kelvin": "kelvin", "acre": "acre", "hectare": "hectare", "sqm": "meter ** 2", "m²": "meter ** 2",
    "m2": "meter ** 2", "km²": "kilometer ** 2", "km2": "kilometer ** 2", "square meter": "meter ** 2",
    "square metre": "meter ** 2",
    "square kilometer": "kilometer ** 2", "square kilometre": "kilometer ** 2", "square foot": "foot ** 2",
    "square feet": "foot ** 2", "cbm": "meter ** 3", "m³": "meter ** 3", "cubic meter": "meter ** 3",
    "cubic metre": "meter ** 3", "cubic foot": "foot ** 3", "cubic feet": "foot ** 3",
    "m3": "meter ** 3", "ft2": "foot ** 2", "ft3": "foot ** 3", "bar": "bar",
    "psi": "psi", "kpa": "kilopascal", "mmhg": "mmHg", "calorie": "calorie",
    "kcal": "kilocalorie", "kj": "kilojoule", "joule": "joule", "mg/dl": "milligram / deciliter", "degree": "degree",
    "mg/l": "milligram / liter", "mmol/l": "millimole / liter",
    "mmol/mol": "millimole / mole", "µmol/l": "micromole / liter", "nmol/l": "nanomole / liter",
    "ng/ml": "nanogram / milliliter", "pg/ml": "picogram / milliliter", "µg/l": "microgram / liter",
    "g/dl": "gram / deciliter", "g/l": "gram / liter", "ml/min": "milliliter / minute",
    "l/min": "liter / minute", "ml/h": "milliliter / hour", "l/h": "liter / hour", "mpa": "megapascal",
    "gpa": "gigapascal", "mah": "milliampere_hour", "ah": "ampere_hour",
}  # fmt: skip
_FIRST: Final = {meant: name for name, meant in reversed(_PINT.items())}


@lru_cache(maxsize=4096)
def unit_of(written: str) -> str:
    """The unit that a word names, each under one name ("mins" is `minute`): `%`, a currency's code; "" for none."""
    name = written.casefold().replace("μ", "µ")
    if name in ("%", "percent", "cent", "percentage"):
        return "%"
    if name in CURRENCIES:
        return CURRENCIES[name]
    if written in CODES:
        return written
    if name in _CURRENCY_WORDS:
        return _CURRENCY_WORDS[name]
    if name in _COUNTED:
        return name.removesuffix("s")
    singular = name[:-1] if len(name) > 2 and name.endswith("s") else name
    meant = _PINT.get(name) or _PINT.get(singular)
    return _FIRST[meant] if meant else ""


@lru_cache(maxsize=1024)
def base(unit: str) -> tuple[str, float, float]:
    """(dimension, scale, offset) of a unit: amount x scale + offset is in base units.

    What pint does not convert is a dimension of its own: currencies, percentages, counted things.
    """
    written = _PINT.get(unit)
    if written is None:
        return unit, 1.0, 0.0
    registry = _registry()
    zero = registry.Quantity(0.0, written).to_base_units()
    one = registry.Quantity(1.0, written).to_base_units()
    offset = float(zero.magnitude)
    return str(zero.dimensionality), float(one.magnitude) - offset, offset


@lru_cache(maxsize=1)
def _registry() -> Any:
    import pint

    return pint.UnitRegistry()


NUMBER_WORDS: Final = {
    word: number
    for number, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}

_TENS: Final = "|".join(word for word, number in NUMBER_WORDS.items() if number >= 20)
_ONES: Final = "|".join(word for word, number in NUMBER_WORDS.items() if 0 < number < 10)
_SMALL: Final = rf"(?:(?:{_TENS})(?:[-\s](?:{_ONES}))?|{'|'.join(word for word in NUMBER_WORDS if word != 'zero')})\b"
_HUNDREDS: Final = rf"(?:(?:a|{_SMALL})\shundred(?:\s(?:and\s)?{_SMALL})?)"
_WHOLE: Final = rf"(?:(?:{_HUNDREDS}|{_SMALL}|a)\sthousand(?:,?\s(?:and\s)?(?:{_HUNDREDS}|{_SMALL}))?|{_HUNDREDS})"
_COUNT: Final = rf"(?:\d{{1,6}}|{_SMALL})"
_SIGNS: Final = {"½": 0.5, "¼": 0.25, "¾": 0.75, "⅓": 1 / 3, "⅔": 2 / 3, "⅛": 0.125}
_PARTS: Final = {"half": 0.5, "quarter": 0.25}
_NUMBER: Final = re.compile(
    rf"""(?<![\w.,/])(?:
      (?P<whole>{_WHOLE})\b
    | (?P<count>{_COUNT})\sand\s(?:a|one)[\s-](?P<part>half|quarter)\b
    | (?P<digits>\d{{1,6}})?\s?(?P<sign>[{"".join(_SIGNS)}])
    | (?P<mixed>\d{{1,6}})\s(?P<over>[123])/(?P<under>[2348])(?![\w/]|[.,]\d)
    | (?P<dozens>{_COUNT}|a)\sdozen\b
    | (?P<fortnights>{_COUNT}|a)\sfortnights?\b
    | (?P<half>half|(?:a\s)?quarter\sof|three[\s-]quarters\sof)[\s-](?=an?\s[a-z])an?\b
    | an?\s(?=[a-z]+\sand\sa\s(?P<more>half|quarter)\b)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_KEY: Final = re.compile(
    rf"\b(?:hundred|thousand|dozen|fortnights?|half|quarters?)\b|[{''.join(_SIGNS)}]|\d\s\d/\d", re.IGNORECASE
)
"""One of these stands in each such number; looked for first, which is quick."""
_WORDS: Final = ("hundred", "thousand", "dozen", "fortnight", "half", "quarter", "/2", "/3", "/4", "/8", *_SIGNS)
_LEAD: Final = 64  # characters before and
_REST: Final = 48  # behind such a word within which its number lies


class WrittenNumber(NamedTuple):
    """A number at `text[start:end]`; its unit, if any, stands behind `end`, or is `unit` where the number itself holds
    it ("two fortnights"). behind: characters behind the unit that belong to it ("an hour *and a half*")."""

    start: int
    end: int
    number: float
    unit: str = ""
    behind: str = ""


def written_numbers(text: str) -> Iterator[WrittenNumber]:
    """The numbers of `text` that are written in several words or as fractions, in order."""
    folded = text.lower()
    if not any(word in folded for word in _WORDS):
        return
    done = 0
    for key in _KEY.finditer(text):
        if key.end() <= done:
            continue
        match = _NUMBER.search(text, max(done, key.start() - _LEAD), key.end() + _REST)
        if match is None:
            continue
        done = match.end()
        start, end = match.span()
        if match["whole"]:
            yield WrittenNumber(start, end, _whole(match["whole"]))
        elif match["count"]:
            yield WrittenNumber(start, end, _count(match["count"]) + _PARTS[match["part"].casefold()])
        elif match["sign"]:
            yield WrittenNumber(start, end, float(match["digits"] or 0) + _SIGNS[match["sign"]])
        elif match["mixed"]:
            yield WrittenNumber(start, end, float(match["mixed"]) + int(match["over"]) / int(match["under"]))
        elif match["dozens"]:
            yield WrittenNumber(start, end, 12 * _count(match["dozens"]))
        elif match["fortnights"]:
            yield WrittenNumber(start, end, 2 * _count(match["fortnights"]), "week")
        elif match["half"]:
            said = match["half"].casefold()
            yield WrittenNumber(start, end, 0.5 if said == "half" else 0.75 if said.startswith("three") else 0.25)
        else:
            yield WrittenNumber(start, end - 1, 1 + _PARTS[match["more"].casefold()], "", f" and a {match['more']}")


def _count(written: str) -> float:
    return float(written) if written[0].isdigit() else 1.0 if written.casefold() == "a" else _small(written.split())


def _small(words: list[str]) -> float:
    return float(sum(NUMBER_WORDS[part] for word in words for part in word.casefold().split("-")))


def _whole(written: str) -> float:
    """ "a thousand two hundred and fifty" as 1250."""
    total = current = 0.0
    for word in re.split(r"[\s,-]+", written.casefold()):
        if word == "hundred":
            current = max(current, 1.0) * 100
        elif word == "thousand":
            total, current = max(current, 1.0) * 1000, 0.0
        elif word not in ("a", "and"):
            current += NUMBER_WORDS[word]
    return total + current
