"""Dates of a text as intervals of days, and times of the day: months, quarters, halves, fiscal years, "4 pm", "16:00".

A date is read as what it names; words around it that make it a bound ("before 2023", "since May 2024", "2020 or later")
give the interval that it delimits besides. Months are read in English, and where the text is in another language, in
those that dateparser's data (Unicode CLDR) has.

A time ("16:00", "4 pm", "half past five", "noon", "18.30 Uhr"; "from 9 to 5:30 pm" has two) is read where it is written
as one: with a.m. or p.m., with "o'clock" or "Uhr", on a clock of 24 hours (from 13:00 on, or with a zero before the
hour), or as hours and minutes behind a word such as "at" or beside another one. "1:50" alone is a ratio as well, and
stays two numbers.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from ragtrace.coverage.text import is_english
from ragtrace.coverage.values.value import CLOCK, DAY, HALF_CLOCK, NUMBER_WORDS, DateRange, Value

__all__ = ["LANGUAGES", "MONTHS", "clock_times", "date_ranges", "dates_of", "locale_data"]

_YEAR: Final = r"(?:19|20)\d\d"
_DASH: Final = r"\s*(?:-|–|—|/|\bto\b|\bthrough\b|\buntil\b|\band\b)\s*"
_ORDINALS: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_BEGINS: Final = r"(?=[\dadfhjmnoqst])"  # a digit, a month, quarter, half, ordinal, or fiscal, financial and tax year
_YEAR_AT_LEAST: Final = re.compile(r"\d{4}|[a-zA-Z’']\d\d")
"""Four digits, or two behind a letter or apostrophe (FY24): what each date has, and most numbers have not."""
_OTHER_DIGIT: Final = re.compile(r"[^\D0-9]")


@lru_cache(maxsize=4)
def _pattern(foreign: bool, small: bool) -> re.Pattern[str]:
    """foreign: with the months of other languages; small: for a text in small letters, where it is found sooner."""
    month = "|".join(sorted(map(re.escape, _months_of(foreign)), key=len, reverse=True))
    day = r"\d{1,2}(?:st|nd|rd|th|er|\.|º)?"
    of = r"(?:of\s+|de\s+|del\s+)?"
    free = r"(?<!(?<!pre)(?<!ost)(?<!mid)-)"  # behind no hyphen but that of mid-May
    fiscal = r"(?:fy|fiscal\s+years?|fiscal|financial\s+year|tax\s+year)\s*[’']?"
    return re.compile(
        rf"""{"" if foreign else _BEGINS}(?:(?<![\w.,$€£])|(?<=[\u3040-\u9fff\uac00-\ud7af])){free}(?:
          (?P<interval>(?P<i1>\d{{4}}-\d\d-\d\d)/(?P<i2>\d{{4}}-\d\d-\d\d))
        | (?P<iso>(?P<y1>\d{{4}})-(?P<m1>0[1-9]|1[0-2])(?:-(?P<d1>\d{{2}})(?:t[\d:.]+(?:z|[+-][\d:]+)?)?)?)
        | (?P<a9>\d{{1,2}})(?P<s9>[/.])(?P<b9>\d{{1,2}})(?P=s9)(?P<y9>{_YEAR})
        | (?P<dA>\d{{1,2}}){_DASH}(?P<dB>{day})\s+(?P<mD>{month})\.?,?\s+(?P<yD>\d{{4}})
        | (?P<d2>{day})\s+{of}(?P<m2>{month})\.?,?\s+{of}(?P<y2>\d{{4}})
        | (?P<mE>{month})\.?\s+(?P<dE>\d{{1,2}}){_DASH}(?P<dF>\d{{1,2}}),?\s+(?P<yE>{_YEAR})
        | (?P<m3>{month})\.?\s+(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?\s?,?\s+(?:of\s+)?(?P<y3>\d{{4}})
        | (?P<mA>{month})\.?{_DASH}(?P<mB>{month})\.?,?\s+{of}(?P<yA>\d{{4}})
        | (?P<m4>{month})\.?,?\s+{of}(?P<y4>\d{{4}})
        | (?:q(?P<q5>[1-4])|(?P<o5>first|second|third|fourth|[1-4](?:st|nd|rd|th))\s+quarter)
          [\s,]*(?:of\s+)?(?:{fiscal}\s*|[’'])?(?P<y5>\d{{4}}|(?<=fy|.[’'])\d\d)
        | (?P<qB>[1-4])q\s?(?:{fiscal}\s*|[’'])?(?P<yB>{_YEAR}|(?<!\s)\d\d)
        | (?P<hC>[12])h\s?[’']?(?P<yC>{_YEAR}|(?<!\s)\d\d)
        | (?P<y10>{_YEAR})[\s-]?q(?P<q10>[1-4])
        | (?:h(?P<h6>[12])|(?P<p6>first|second)\s+half)\s*(?:of\s+)?(?P<y11>{_YEAR})
        | {fiscal}\s*(?P<f7>{_YEAR}|(?<=fy)\d\d|(?<=[’'])\d\d)(?:[/–-](?P<g7>{_YEAR}|\d\d))?
        | (?P<y12>{_YEAR})(?P<s12>[/–-])(?P<z12>\d\d)(?![/–-]\d)
        | (?P<decade>(?:19|20)\d0)s
        | (?P<y6>{_YEAR})\s*(?:-|–|—|\bto\b|\bthrough\b|\buntil\b)\s*(?P<y7>{_YEAR})(?!-?\d)
        | (?P<yJ>{_YEAR})\s?[年년](?:\s?(?P<mJ>\d{{1,2}})[月월](?:\s?(?P<dJ>\d{{1,2}})[日일])?)?
        | (?P<y8>{_YEAR})(?!\s?-\s?\d{{3}}|-\d\d-\d)
        )(?:(?<=[年月日년월일])|(?![\w]|[.,]\d))""",
        re.VERBOSE if small else re.VERBOSE | re.IGNORECASE,
    )


def _months_of(foreign: bool) -> dict[str, int]:
    return _foreign_months() if foreign else MONTHS


def date_ranges(text: str) -> tuple[DateRange, ...]:
    """The dates that `text` names, each as an interval of days; "before 2023" is the time until the end of 2022."""
    return _date_ranges(text)


@lru_cache(maxsize=4096)
def _date_ranges(text: str) -> tuple[DateRange, ...]:
    found: list[DateRange] = []
    for value in dates_of(text):
        found += [value.bounds] if value.bounds else value.readings
    return tuple(found)


def dates_of(text: str) -> list[Value]:
    """All dates of `text` as values of kind `date`, in order."""
    plain = _with_ascii_digits(text)
    if not _YEAR_AT_LEAST.search(plain):
        return []
    foreign = not is_english(text)
    months, small = _months_of(foreign), plain.isascii()
    found = []
    for match in _pattern(foreign, small).finditer(plain.lower() if small else plain):
        dates, other = _either(match) if match["a9"] else (_range(match, months), None)
        if dates:
            start, end = match.span()
            found.append(Value("date", start, end, dates=dates, raw=plain[start:end], other_dates=other))
    return _bounded(text, found) if found else found


def _with_ascii_digits(text: str) -> str:
    """`text` with the digits of every script as 0 to 9; its length stays."""
    if text.isascii() or not _OTHER_DIGIT.search(text):
        return text
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in text)


def _range(match: re.Match[str], months: dict[str, int]) -> DateRange | None:
    if year := match["y8"]:  # nearly always
        return _years(int(year), int(year))
    given = {name: value.casefold() for name, value in match.groupdict().items() if value}
    try:
        return next((read(given, months) for name, read in _SHAPES if name in given), None)
    except ValueError:
        return None  # 31 February is no date


def _day_of(given: dict[str, str], day: str, month: int, year: str) -> DateRange:
    return _day(int(given[year]), month, int(re.sub(r"\D", "", given[day])))


def _fiscal(given: dict[str, str]) -> DateRange:
    first = _full_year(given["f7"])
    return _years(first, _full_year(given["g7"]) if "g7" in given else first)


_LONGEST: Final = 60  # years from one to another whose century is not written


def _season(given: dict[str, str]) -> DateRange:
    """2018/19 is both years, and 1961–70 all ten; 2018/07 is none, since its second part does not follow, nor is
    2018-07, which may be a month."""
    first, part = int(given["y12"]), int(given["z12"])
    last = first - first % 100 + part + (100 if part < first % 100 else 0)
    is_span = last > first and (given["s12"] == "–" or (given["s12"] == "-" and part > 12))
    if last != first + 1 and not (is_span and last <= first + _LONGEST):
        raise ValueError(given["y12"])
    return _years(first, last)


def _east_asian(given: dict[str, str]) -> DateRange:
    year = int(given["yJ"])
    if "dJ" in given:
        return _day(year, int(given["mJ"]), int(given["dJ"]))
    return _months(year, int(given["mJ"])) if "mJ" in given else _years(year, year)


def _of_iso(given: dict[str, str]) -> DateRange:
    year, month = int(given["y1"]), int(given["m1"])
    return _day(year, month, int(given["d1"])) if "d1" in given else _months(year, month)


def _half(given: dict[str, str]) -> DateRange:
    number = int(given["h6"]) if "h6" in given else _ORDINALS[given["p6"]]
    return _months(int(given["y11"]), 6 * number - 5, 6)


def _quarter(given: dict[str, str]) -> DateRange:
    number = int(given["q5"]) if "q5" in given else _ORDINALS[given["o5"]]
    return _months(_full_year(given["y5"]), 3 * number - 2, 3)


_SHAPES: Final[tuple[tuple[str, Callable[[dict[str, str], dict[str, int]], DateRange]], ...]] = (
    ("i1", lambda g, m: _ordered(DateRange(date.fromisoformat(g["i1"]), date.fromisoformat(g["i2"])))),
    ("y1", lambda g, m: _of_iso(g)),
    ("yD", lambda g, m: _ordered(DateRange(_day_of(g, "dA", m[g["mD"]], "yD").first,
                                           _day_of(g, "dB", m[g["mD"]], "yD").last))),
    ("y2", lambda g, m: _day_of(g, "d2", m[g["m2"]], "y2")),
    ("yE", lambda g, m: _ordered(DateRange(_day_of(g, "dE", m[g["mE"]], "yE").first,
                                           _day_of(g, "dF", m[g["mE"]], "yE").last))),
    ("y3", lambda g, m: _day_of(g, "d3", m[g["m3"]], "y3")),
    ("yA", lambda g, m: _ordered(DateRange(_months(int(g["yA"]), m[g["mA"]]).first,
                                           _months(int(g["yA"]), m[g["mB"]]).last))),
    ("y4", lambda g, m: _months(int(g["y4"]), m[g["m4"]])),
    ("y5", lambda g, m: _quarter(g)),
    ("qB", lambda g, m: _months(_full_year(g["yB"]), 3 * int(g["qB"]) - 2, 3)),
    ("hC", lambda g, m: _months(_full_year(g["yC"]), 6 * int(g["hC"]) - 5, 6)),
    ("y10", lambda g, m: _months(int(g["y10"]), 3 * int(g["q10"]) - 2, 3)),
    ("y11", lambda g, m: _half(g)),
    ("f7", lambda g, m: _fiscal(g)),
    ("y12", lambda g, m: _season(g)),
    ("decade", lambda g, m: _years(int(g["decade"]), int(g["decade"]) + 9)),
    ("y6", lambda g, m: _ordered(_years(int(g["y6"]), int(g["y7"])))),
    ("yJ", lambda g, m: _east_asian(g)),
)  # fmt: skip


def _ordered(dates: DateRange) -> DateRange:
    if dates.first > dates.last:
        raise ValueError(f"{dates.first} is after {dates.last}")
    return dates


def _either(match: re.Match[str]) -> tuple[DateRange | None, DateRange | None]:
    """Day first and month first, as far as each is a date."""
    one, two, year = (int(match[name]) for name in ("a9", "b9", "y9"))
    found = []
    for month, day in ((two, one), (one, two)):
        try:
            found.append(_day(year, month, day))
        except ValueError:
            continue  # 3/14/2025 is read month first only
    return (found[0] if found else None), (found[1] if len(found) > 1 and found[1] != found[0] else None)


def _full_year(written: str) -> int:
    year = int(written)
    return year if year >= 100 else 2000 + year if year < 70 else 1900 + year


def _years(first: int, last: int) -> DateRange:
    return DateRange(date(first, 1, 1), date(last, 12, 31))


def _day(year: int, month: int, day: int) -> DateRange:
    return DateRange(date(year, month, day), date(year, month, day))


def _months(year: int, month: int, count: int = 1) -> DateRange:
    if year == date.max.year:
        raise ValueError(year)
    after = date(year + (month + count - 1) // 12, (month + count - 1) % 12 + 1, 1)
    return DateRange(date(year, month, 1), after - timedelta(days=1))


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
_LEADING: Final = tuple(
    """before preceding pre until til till through by ending ended after following post since starting beginning
    effective""".split()
)  # how the last word before a date ends that makes it a bound
_LED: Final = {
    "in": ("starting", "beginning"),
    "on": ("starting", "beginning", "ending", "ended"),
    "to": ("prior", "up"),
    "from": ("starting", "as", "effective", "force", "valid"),
    "than": ("earlier", "later", "sooner"),
}
"""The same of words that do so behind one of these alone."""
_ARTICLES: Final = frozenset("the start end year date of".split())
_MONTHS: Final = {"three": 3, "six": 6, "nine": 9, "twelve": 12}
_BETWEEN: Final = re.compile(r"\bbetween\s+$", re.IGNORECASE)


def _bounded(text: str, found: list[Value]) -> list[Value]:
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
    return one._replace(start=start, end=other.end, dates=dates, other_dates=None, raw=text[start : other.end])


def _delimited(text: str, value: Value) -> Value:
    dates = value.dates
    lead, rest = text[max(0, value.start - _REACH) : value.start], text[value.end : value.end + _REACH]
    if dates is None:
        return value
    if not _may_delimit(lead):
        return _delimited_behind(value, dates, rest)
    if period := _ENDED.search(lead):
        whole = DateRange(_beginning(dates.last, period), dates.last)
        return value._replace(start=value.start - len(lead) + period.start(), dates=whole, other_dates=None,
                       raw=lead[period.start() :] + value.raw)  # fmt: skip
    for pattern, bound, day, shift in ((_BEFORE, _ended, dates.first, 1), (_UNTIL, _ended, dates.last, 0),
                                       (_AFTER, _begun, dates.last, 1), (_SINCE, _begun, dates.first, 0)):  # fmt: skip
        if (match := pattern.search(lead)) and (bounds := bound(day, shift)):
            return value._replace(start=value.start - len(lead) + match.start(), bounds=bounds,
                           raw=lead[match.start() :] + value.raw)  # fmt: skip
    return _delimited_behind(value, dates, rest)


def _may_delimit(lead: str) -> bool:
    """Whether the last words before a date may be those of a bound: nearly none are, which is seen without a search."""
    if not lead.isascii() or lead[-1:] == "-":
        return True
    words = lead.lower().split()
    if not lead[-1:].isspace() or not words:
        return False
    while len(words) > 1 and words[-1] in _ARTICLES:
        words.pop()
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    return last.endswith(_LEADING) or before.endswith(_LED.get(last, ()))


def _delimited_behind(value: Value, dates: DateRange, rest: str) -> Value:
    for pattern, bound, day in ((_ONWARD, _begun, dates.first), (_DOWNWARD, _ended, dates.last)):
        if (match := pattern.match(rest)) and (bounds := bound(day, 0)):
            return value._replace(end=value.end + match.end(), bounds=bounds, raw=value.raw + match.group())
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


LANGUAGES: Final = tuple("de fr es it pt nl pl sv da nb fi cs ro tr ru uk el ar he hi".split())
_ENGLISH: Final = (
    "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
    "september sep sept", "october oct", "november nov", "december dec",
)  # fmt: skip
MONTHS: Final = {name: number for number, names in enumerate(_ENGLISH, start=1) for name in names.split()}
"""English names and abbreviations, in lower case, with their numbers."""


def locale_data(language: str) -> dict[str, Any]:
    """dateparser's data of one language: names of months, and phrases such as "last year" by their meaning."""
    found: dict[str, Any] = import_module(f"dateparser.data.date_translation_data.{language}").info
    return found


@lru_cache(maxsize=1)
def _foreign_months() -> dict[str, int]:
    """The months' names in `LANGUAGES`, in lower case; an English name, or the first language's, goes first."""
    found = dict(MONTHS)
    for language in LANGUAGES:
        data = locale_data(language)
        for name, number in MONTHS.items():
            for written in data.get(name, ()):
                folded = written.casefold().rstrip(".")
                if len(folded) >= 3:
                    found.setdefault(folded, number)
    return found


_HOURS: Final = {word: number for word, number in NUMBER_WORDS.items() if 1 <= number <= 12}
_HOUR: Final = rf"(?:2[0-4]|[01]?\d|{'|'.join(_HOURS)})"
_HALF: Final = r"[ap](?:\.\s?m\b\.?|m\b)"
_EDGE: Final = r"(?<![\w.,:/#$€£])"
_TIME: Final = re.compile(
    rf"""{_EDGE}(?:
      (?P<hour>2[0-4]|[01]?\d):(?P<minute>[0-5]\d)(?::[0-5]\d)?(?!\d|:|[.,]\d)(?:\s?(?P<half>{_HALF}|uhr\b|h\b(?!/)))?
    | (?P<short>{_HOUR})(?:[.](?P<points>[0-5]\d))?\s?(?P<named>{_HALF}|uhr\b|o['’]\s?clock\b)
      (?:\s(?:in\sthe\s)?(?P<part>morning|afternoon|evening))?
    | (?P<french>2[0-4]|1?\d)\s?h\s?(?P<after>[0-5]\d)(?!\d|\s?m)
    | (?P<off>half\spast|quarter\spast|quarter\sto)\s(?P<of>{_HOUR})(?![\w:.])(?:\s?(?P<then>{_HALF}))?
    | (?P<word>(?:twelve\s|12\s)?(?:noon|midnight)|midday)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_OFFSETS: Final = {"half past": 30, "quarter past": 15, "quarter to": -15}
_LEADS: Final = re.compile(
    r"(?:\b(?:at|from|between|until|till|before|after|around|about|daily|(?:mon|tues|wednes|thurs|fri|satur|sun)days?)"
    r"[:,]?|[(–-])\s?$",
    re.IGNORECASE,
)
_SPAN: Final = r"\s?(?:-|–|—|to|and|until|till)\s?"
_SPAN_ENDS: Final = re.compile(rf"{_SPAN}$", re.IGNORECASE)
_SPAN_BEGINS: Final = re.compile(rf"{_SPAN}(?:\d{{1,2}}:[0-5]\d|\d{{1,2}}\s?[ap]\.?m)", re.IGNORECASE)
_FROM: Final = re.compile(
    rf"(?:\b(?:from|between)\s|(?<![\w.,:/-])(?=\d{{1,2}}[-–]))(?P<hour>1[0-2]|[1-9]){_SPAN}$", re.IGNORECASE
)
_IN_DIGITS: Final = re.compile(r"\d(?::\d|\s?(?:h\s?\d|[ap]\.?\s?m\b|uhr\b|o['’]))", re.IGNORECASE)
_IN_WORDS: Final = ("clock", "noon", "midday", "midnight", "half past", "quarter past", "quarter to", " pm", " p.m")
_LENGTH: Final = re.compile(r"\s?(?:hours?|hrs?|minutes?|mins?|seconds?|km|miles?)\b", re.IGNORECASE)
_EARLIEST: Final = 7
_LEAD: Final = 24


def clock_times(text: str) -> list[Value]:
    """The times of the day in `text`, in order, as values of kind `clock`: minutes since midnight.

    Their unit is `CLOCK` where it is known which half of the day is meant, else `HALF_CLOCK`.
    """
    folded = text.lower()
    if not _IN_DIGITS.search(text) and not any(word in folded for word in _IN_WORDS):
        return []
    found: list[Value] = []
    for match in _TIME.finditer(text):
        value = _clock_value(match)
        if value is None:
            continue
        if (begun := _span_beginning(text, value, found[-1].end if found else 0)) is not None:
            found.append(begun)
        found.append(value)
    return found


def _clock_value(match: re.Match[str]) -> Value | None:
    text, start, end = match.string, match.start(), match.end()
    if word := match["word"]:
        return _clock(text, start, end, 0 if "midnight" in word.casefold() else 720, is_sure=True)
    if off := match["off"]:
        minutes = 60 * _hour(match["of"]) + _OFFSETS[" ".join(off.casefold().split())]
        return _clock(text, start, end, *_of_half(minutes, match["then"] or ""))
    if match["french"]:
        if int(match["french"]) < _EARLIEST:
            return None  # "2 h 30" is how long
        return _clock(text, start, end, 60 * int(match["french"]) + int(match["after"]), is_sure=True)
    if match["short"]:
        hour = _hour(match["short"])
        named = match["named"].casefold()
        if named[0] in "ap" and hour > 12:
            return None
        half = {"morning": "a", "afternoon": "p", "evening": "p"}.get((match["part"] or "").casefold(), named)
        minutes, is_sure = _of_half(60 * hour + int(match["points"] or 0), half if half[0] in "ap" else "")
        return _clock(text, start, end, minutes, is_sure=is_sure or named == "uhr")
    written, half = match["hour"], (match["half"] or "").casefold()
    minutes, is_sure = _of_half(60 * int(written) + int(match["minute"]), half if half[:1] in ("a", "p") else "")
    is_sure = is_sure or written[0] == "0" or int(written) > 12 or half == "uhr"
    if half in ("", "h") and (_LENGTH.match(text, end) or not (is_sure or _stands_as_time(text, start, end))):
        return None
    return _clock(text, start, end, minutes, is_sure=is_sure)


def _hour(written: str) -> int:
    return _HOURS.get(written.casefold()) or int(written)


def _of_half(minutes: int, half: str) -> tuple[int, bool]:
    """Minutes by a.m. or p.m., and whether one of them is said."""
    if not half:
        return minutes, False
    return (minutes % 720 + 720 if half[0] in "pP" else minutes % 720) if minutes < 780 else minutes, True


def _clock(text: str, start: int, end: int, minutes: int, is_sure: bool) -> Value:
    return Value(
        "clock", start, end, number=float(minutes % DAY), unit=CLOCK if is_sure else HALF_CLOCK, raw=text[start:end]
    )


def _stands_as_time(text: str, start: int, end: int) -> bool:
    """Whether hours and minutes stand where a time does: behind "at" and the like, or in a span of two."""
    lead = text[max(0, start - _LEAD) : start]
    return bool(_LEADS.search(lead) or _SPAN_BEGINS.match(text, end) or _ends_span(lead))


def _ends_span(lead: str) -> bool:
    span = _SPAN_ENDS.search(lead)
    return span is not None and re.search(r"\d:[0-5]\d$", lead[: span.start()]) is not None


def _span_beginning(text: str, value: Value, since: int) -> Value | None:
    """The hour alone with which a span begins that ends at a time: "from 4 to 5:30 pm"."""
    lead_start = max(since, value.start - _LEAD)
    found = _FROM.search(text[lead_start : value.start])
    if found is None:
        return None
    start, end = lead_start + found.start("hour"), lead_start + found.end("hour")
    return _clock(text, start, end, 60 * int(found["hour"]), is_sure=False)
