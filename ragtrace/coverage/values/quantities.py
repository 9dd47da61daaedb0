"""Quantities: the numbers of a text with scale and unit, what is asked of them, and where they stand in its tables.

`values` gives them in order with dates and versions; what is part of one of these is no number. A point or comma is
read as the number shows by itself ("1.000,50"); where both readings are possible, an amount of money and a number in a
text that is not English have it between thousands ("EUR 2.500"), others as the decimal point. A number that is part of
a name ("section 26 (2)", "Act 2015", "ISO 27001:2022") says how much of nothing.

The heading of a figure gives its scale and currency: a caption or line above ("(in millions)", "Amounts in thousands of
euros"), a column's ("€m", "£'000") or a row's label ("Revenue ($bn)"); the nearest one counts. Tables are Markdown,
CSV, tabs, or columns two spaces apart.
"""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from ragtrace.coverage.text import content_stems, is_english, stem
from ragtrace.coverage.values.dates import clock_times, dates_of
from ragtrace.coverage.values.value import (
    CODES,
    CURRENCIES,
    NUMBER_WORDS,
    Value,
    WrittenNumber,
    base,
    same_kind,
    same_value,
    unit_of,
    written_numbers,
)
from ragtrace.coverage.values.versions import versions_in_values

__all__ = [
    "NUMBER_WORDS",
    "AmountWanted",
    "Figure",
    "amount_match",
    "amount_wanted",
    "amounts_in",
    "counted",
    "dates_in",
    "figures_in",
    "head_of",
    "is_reference",
    "values",
]

_LINES: Final = re.compile(r"(?m)^[^\n,]*(?:,\S[^\n,]*){2,}\n")  # with no space behind their commas
_QUOTED: Final = re.compile(r'"[^"\n]*"|,(?=\S)')
_GROUPED: Final = re.compile(r"(?<!\d)\d{1,3},\d{3}(?!\d)")


@lru_cache(maxsize=16384)
def values(text: str) -> tuple[Value, ...]:
    """All dates, quantities, versions and numbers of `text`, in order; what is part of a date is no number."""
    text = _readable(text)
    found = dates_of(text)
    for more in (versions_in_values(text), clock_times(text), _written_of(text), _quantities_of(text)):
        found = _merged(found, more)
    return tuple(found)


def dates_in(text: str) -> list[Value]:
    """The dates among the `values` of a text, found without the others."""
    return dates_of(_readable(text))


def _readable(text: str) -> str:
    """A text with the commas between the cells of a table as semicolons: 310,295 are two figures there, and "1,577" is
    one."""
    return _QUOTED.sub(lambda match: ";" if match[0] == "," else match[0], text) if _is_csv(text) else text


@lru_cache(maxsize=1024)
def _is_csv(text: str) -> bool:
    """Whether a text holds a table in which commas part the cells: a heading, and a line of as many cells below it."""
    for heading in _LINES.finditer(text) if "\n" in text and "," in text else ():
        below = text[heading.end() :].partition("\n")[0]
        commas = sum(match[0] == "," for match in _QUOTED.finditer(below))
        if not _GROUPED.search(heading[0]) and commas == heading[0].count(",") and ", " not in below:
            return True
    return False


def _merged(taken: list[Value], more: list[Value]) -> list[Value]:
    """Both in order of their start, of `more` only what overlaps nothing of `taken`."""
    merged: list[Value] = []
    index = 0
    for value in more:
        while index < len(taken) and taken[index].end <= value.start:
            merged.append(taken[index])
            index += 1
        if index == len(taken) or value.end <= taken[index].start:
            merged.append(value)
    return merged + taken[index:]


_TENS: Final = tuple(word for word, number in NUMBER_WORDS.items() if number >= 20)
_ONES: Final = tuple(word for word, number in NUMBER_WORDS.items() if 0 < number < 10)
_SCALES: Final = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "m": 1e6, "mn": 1e6, "billion": 1e9,
                  "bn": 1e9, "trillion": 1e12}  # fmt: skip
_SIGNS: Final = "".join(CURRENCIES)
_UNIT: Final = (
    r"%|°[cf]\b|k?m²|m³|(?:k?m|ft)[23]\b|k?mg?/[hdl]l?\b|m?l/(?:min|h)\b|[mnµμ]mol/l\b|mmol/mol\b|[npµμ]g/m?l\b"
    r"|[a-zà-ÿµμ]+"
)
_GOES_ON: Final = (  # "eight to ten minutes": the minutes are ten's; "three pallets mean EUR 45": the euros are 45's
    rf"(?!(?:to|or|and|{'|'.join(NUMBER_WORDS)})\b|(?:{'|'.join(sorted(CODES))})\s\d)"
)
_NUMBER: Final = re.compile(
    rf"""(?<![\w.,])(?P<pre>[{_SIGNS}]|\b(?=\w{{3}}\s)(?:{"|".join(sorted(CODES))})\s)?\s?
    (?P<sign>[-−])?(?:(?P<digits>\d{{1,3}}(?:[, \u00a0\u202f’]\d{{3}})+(?:\.\d+)?(?!\d)
      |\d{{1,3}}(?:\.\d{{3}})+(?:,\d+)?(?!\d)|\d{{1,40}}(?:[.,]\d{{1,40}})?)
      |(?P<word>\b(?=[efnostz][ehilnow])(?:(?:{"|".join(_TENS)})-(?:{"|".join(_ONES)})|{"|".join(NUMBER_WORDS)})\b))
    (?P<tail>(?:[-\s]?{_GOES_ON}(?:per\s?cent\b|[{_SIGNS}]|{_UNIT}))?(?:\s{_GOES_ON}[a-zà-ÿµ]+)?
      (?:\s{_GOES_ON}[a-zà-ÿ]+)?)""",
    re.IGNORECASE | re.VERBOSE,
)
_KEY: Final = re.compile(rf"\d|\b(?=[efnostz])(?:{'|'.join(NUMBER_WORDS)})\b", re.IGNORECASE)
_PLURAL: Final = re.compile(r"\s[^\W\d]+s\b")
_BEFORE_DIGITS: Final = 8  # characters, and more than a currency, spaces and a sign before a number are
_PARTS_OF: Final[dict[str, dict[str, int]]] = {
    "second": {"minute": 60},
    "minute": {"hour": 60},
    "hour": {"day": 24},
    "day": {"week": 7},
    "month": {"year": 12},
    "g": {"kg": 1000},
    "inch": {"foot": 12},
    "cent": dict.fromkeys(("EUR", "USD", "GBP", "CAD", "AUD", "NZD"), 100),
}
"""Of units, those that they are parts of, and how many make one."""
_CENTS: Final = re.compile(r"\s(?:cents?|pence)\b", re.IGNORECASE)
_AND: Final = re.compile(r",?\s(?:and\s)?|", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"\bbetween\s$", re.IGNORECASE)
_ARTICLE: Final = re.compile(
    r"(?<!between\s)\ban?\s(minute|hour|day|week|year|euro|dollar|pound)\sand\s$", re.IGNORECASE
)
_WRITTEN_TAIL: Final = re.compile(
    rf"(?:[-\s]?{_GOES_ON}(?:per\s?cent\b|[{_SIGNS}]|{_UNIT}))?(?:\s{_GOES_ON}[a-zà-ÿµ]+)?", re.IGNORECASE
)
_TAIL_TOKEN: Final = re.compile(rf"[{_SIGNS}]|{_UNIT}", re.IGNORECASE)
_POWER: Final = re.compile(
    r"(?:square|cubic|sq|cu)\s(?:met(?:er|re)|kilomet(?:er|re)|f(?:oo|ee)t|k?m\b|ft\b)s?\b", re.IGNORECASE
)
_SHORT_POWER: Final = {"sq": "square", "cu": "cubic"}
_SHORT_LENGTH: Final = {"m": "meter", "km": "kilometer", "ft": "feet"}
_RATE: Final = frozenset(("a", "an", "each", "every", "per"))
_PER_CENT: Final = re.compile(r"per\s?cent\b", re.IGNORECASE)
_POINTS: Final = re.compile(r"[\s-]points?\b", re.IGNORECASE)
_TO: Final = re.compile(r"\s*(?:-|–|—|\bto\b)\s*")
_EITHER: Final = re.compile(r"[1-9]\d{0,2}\.\d{3}")  # 2.500: two thousand five hundred, or two and a half


def _quantities_of(text: str) -> list[Value]:
    """All numbers of `text` as values of kind `quantity` (with a unit) or `number`, in order."""
    matches = list(_numbers_of(text))
    quantities = [_value(match) for match in matches]
    for index in range(len(quantities) - 2, -1, -1):
        if _TO.fullmatch(text, quantities[index].end, quantities[index + 1].start):
            quantities[index : index + 2] = _ends(quantities[index], quantities[index + 1], matches[index + 1])
    return _joined(text, quantities)


def _numbers_of(text: str) -> Iterator[re.Match[str]]:
    """The matches of `_NUMBER`, sought from right before each digit or number word on: most of a text has neither."""
    end = 0
    while key := _KEY.search(text, end):
        match = _NUMBER.search(text, max(end, key.start() - _BEFORE_DIGITS))
        if match is None:
            return
        yield match
        end = match.end()


def _joined(text: str, quantities: Sequence[Value]) -> list[Value]:
    """The same, of amounts in a unit and its parts one: an hour and ten minutes, 5 euros and 20 cents."""
    joined: list[Value] = []
    for value in quantities:
        per = _PARTS_OF.get(value.unit) or (_PARTS_OF["cent"] if _CENTS.match(text, value.end) else None)
        whole = joined[-1] if joined else None
        if whole and whole.unit in _PARTS_OF["cent"] and _is_in_cents(text, whole, value):
            joined[-1] = _whole_of(text, whole, value, _PARTS_OF["cent"][whole.unit])
            continue
        if per and whole and whole.unit in per and not _BETWEEN.search(text, max(0, whole.start - 9), whole.start):
            if whole.number.is_integer() and _AND.fullmatch(text, whole.end, value.start):
                joined[-1] = _whole_of(text, whole, value, per[whole.unit])
                continue
        elif per and (article := _ARTICLE.search(text, max(0, value.start - _LEAD), value.start)):
            unit = unit_of(article[1])
            if unit in per:
                one = Value("quantity", article.start(), article.end(1), number=1.0, unit=unit)
                value = _whole_of(text, one, value, per[unit])
        joined.append(value)
    return joined


def _is_in_cents(text: str, whole: Value, value: Value) -> bool:
    """Whether a number without a unit tells the cents of an amount before it: five euros fifty, 5 euros 50."""
    if (
        value.unit
        or not 10 <= value.number < 100
        or not whole.number.is_integer()
        or text[whole.end : value.start] != " "
    ):
        return False
    return value.raw.isalpha() or (len(value.raw) == 2 and not _PLURAL.match(text, value.end))


def _whole_of(text: str, whole: Value, part: Value, per: int) -> Value:
    cents = _CENTS.match(text, part.end) if not part.unit else None
    end = cents.end() if cents else part.end
    number = whole.number + part.number / per
    return Value("quantity", whole.start, end, number=number, unit=whole.unit, raw=text[whole.start : end])


def _written_of(text: str) -> list[Value]:
    """Those of its numbers that are no run of digits and no single word; half of nothing that is counted is none."""
    return [value for number in written_numbers(text) if (value := _of_written(text, number)) is not None]


def _of_written(text: str, number: WrittenNumber) -> Value | None:
    tail = _WRITTEN_TAIL.match(text, number.end)
    scale, unit, length = (1.0, unit_of(number.unit), 0) if number.unit else _tail(tail[0] if tail else "", False)
    amount = number.number * scale
    if not unit and scale == 1.0 and amount < 1:
        return None
    end = number.end + length
    if number.behind:
        if not unit:
            return None
        end += len(number.behind)
    raw = text[number.start : end].strip()
    return Value("quantity" if unit else "number", number.start, end, number=amount, unit=unit, raw=raw)


def _ends(low: Value, high: Value, match: re.Match[str]) -> tuple[Value, Value]:
    """Both ends of a range: a currency or scale that is written once is of both ("$5.1–5.2 bn")."""
    if low.unit in CODES and not high.unit:
        high = high._replace(kind="quantity", unit=low.unit)
    written = _written(match)
    scale = abs(high.number) / written if written else 1.0
    if not low.raw[-1:].isdigit() or (low.unit and low.unit != high.unit) or (scale == 1.0 and high.unit not in CODES):
        return low, high  # the minutes of "eight to ten minutes" are ten's
    number = low.number * scale if low.number * scale <= high.number else low.number
    return low._replace(kind=high.kind, unit=high.unit, number=number), high


def _value(match: re.Match[str]) -> Value:
    group = "digits" if match.group("digits") else "word"
    start = match.start("pre") if match.group("pre") else match.start(group)
    end = match.end(group)
    prefix = (match.group("pre") or "").strip()
    currency = CURRENCIES.get(prefix, prefix.upper())
    scale, unit, length = _tail(match.group("tail") or "", bool(currency))
    money = bool(currency) or unit in CODES
    number = _written(match, money=money and scale == 1.0)  # 1.577 billion dollars are no 1,577
    number = -number if match.group("sign") else number
    return Value(
        "quantity" if currency or unit else "number",
        start,
        end + length,
        number=number * scale,
        unit=currency or unit,
        raw=match.string[start : end + length].strip(),
    )


def _written(match: re.Match[str], *, money: bool = False) -> float:
    digits = match.group("digits")
    if digits:
        return _amount(digits, money, match.string)
    return float(sum(NUMBER_WORDS[word] for word in match.group("word").casefold().split("-")))


def _amount(digits: str, money: bool, text: str) -> float:
    """1,000.50 and 1.000,50 and 5,5: the last mark is the decimal one, unless it groups thousands."""
    plain = re.sub(r"[^\d.,]", "", digits)
    head, mark, tail = plain.rpartition("," if plain.rfind(",") > plain.rfind(".") else ".")
    groups = len(tail) == 3 and not plain.startswith("0") and (mark == "," or plain.count(".") > 1)
    if _EITHER.fullmatch(plain):
        groups = money or not is_english(text)
    whole, fraction = (plain, "") if groups or not mark else (head, f".{tail}")
    return float(re.sub(r"[.,]", "", whole) + fraction)


@lru_cache(maxsize=4096)  # a text's numbers mostly have one of few words behind them
def _tail(tail: str, money: bool) -> tuple[float, str, int]:
    """Scale, unit and length of what follows a number: `million euros`, ` consecutive days`, `%`."""
    scale, end = 1.0, 0
    for position, token in enumerate(_TAIL_TOKEN.finditer(tail)):
        name = token.group().casefold()
        if position == 0 and name in _SCALES and (money or name not in ("m", "mn")):  # 5 m is a length, $5m is not
            scale, end = _SCALES[name], token.end()
            continue
        if money:
            break  # "$300 next month"
        if name in _RATE and not _PER_CENT.match(tail, token.start()):
            break  # "60 calls a minute" are no minutes, "24.88 p per kWh" no energy
        power = _POWER.match(tail, token.start())  # "square metres" are no metres
        unit, behind = (_power(power[0]), power.end()) if power else (unit_of(token.group()), token.end())
        if unit:
            points = _POINTS.match(tail, token.end()) if unit == "%" else None
            return (scale, "percentage point", points.end()) if points else (scale, unit, behind)
    return scale, "", end


def _power(written: str) -> str:
    """The unit of an area or a volume in words: "square metres", "sq m"."""
    power, length = written.casefold().split()
    return unit_of(f"{_SHORT_POWER.get(power, power)} {_SHORT_LENGTH.get(length, length)}")


_NEXT_WORD: Final = re.compile(r"[\s\-]*([^\W\d_]+)")


def counted(text: str, value: Value) -> str:
    """The stem of the word behind a value: "claim" in "3 claims"."""
    match = _NEXT_WORD.match(text, value.end)
    return stem(match.group(1)) if match else ""


_REACH: Final = 40  # characters before a number in which the word stands that it belongs to
_PARTS: Final = r"""sub-?section|section|sect?\.|article|art\.|sub-?clause|clause|chapter|ch\.|sub-?paragraph|paragraph
    |para\.?|page|pp?\.|part|table|figure|fig\.|annex|appendix|schedule|exhibit|rule|item|foot-?note|note|line|row|column|step
    |phase|regulation|recital|title|form|question|option|example|slide|entry|module|unit"""
_NAMED: Final = r"""act|regulations?|rules|order|code|bill|ordinance|directive|decision|treaty|convention|statute
    |standard|constitution|handbook|edition|rfc|iso|iec|ieee|din|en|bs|ansi|nist|cve|pub\.?|publication|bulletin|circular|notice
    |policy|volume|vol\.|issue|no\.|nos\.|number"""
_HEAD: Final = re.compile(
    rf"""(?:\b(?P<head>{_PARTS}|{_NAMED})s?\.?(?:\s+\((?:EU|EC|EEC)\))?(?:\s+(?:no\.?|number|nos\.))?
        (?:\s+(?:\d+(?:[.:]\d+)*[a-z]?(?:\s?\(\w{{1,3}}\))*\s*(?:,|and|or|to|–|-)\s*){{1,3}})?\s+[§#]?
        |(?P<sign>§+)\s?)$""",
    re.IGNORECASE | re.VERBOSE,
)
_BRACKET: Final = re.compile(r"[\w)]\s?\($")
_STANDARD: Final = re.compile(r"\b[A-Z]{2,6}[ -]\d[\d./-]*[:-]$")


def is_reference(text: str, value: Value) -> bool:
    """Whether a value of `text` is the number of a section, page or list item, or the year or number in a name."""
    return head_of(text, value) is not None


def head_of(text: str, value: Value) -> str | None:
    """The word that such a number belongs to, in small letters ("section"); "" for one in brackets; else None."""
    if value.kind in ("quantity", "clock") or value.bounds or not text[value.start : value.start + 1].isdigit():
        return None
    lead = text[max(0, value.start - _REACH) : value.start]
    if match := _HEAD.search(lead):
        return (match["head"] or "section").casefold().rstrip(".")
    if _BRACKET.search(lead) and text[value.end : value.end + 1] == ")" and value.end - value.start <= 2:
        return ""
    return "" if _STANDARD.search(lead) else None


_EXAMPLE: Final = re.compile(
    r"""(?:\b(?:for\s+(?:example|instance)|e\.g\.|suppose|imagine)[\s,:]{1,3}[`"'“\u2018]?|\bsay,\s
    |\b(?:something|anything|values?|inputs?)\s+like\s[`"'“\u2018])(?:[A-Z]{3}\s|[$€£¥]\s?)?$""",
    re.VERBOSE,
)


def is_example(text: str, value: Value) -> bool:
    """Whether a value of `text` is an example that stands for any other: "say, EUR 100", "something like `12.5`"."""
    return _EXAMPLE.search(text[max(0, value.start - _REACH) : value.start]) is not None


_LOW: Final = re.compile(
    r"\b(?:at\s+least|more\s+than|over|above|minimum(?:\s+of)?|from|exceed(?:s|ing)?)\s*$|[>≥]\s*=?\s*$", re.IGNORECASE
)
_HIGH: Final = re.compile(
    r"\b(?:at\s+most|up\s+to|less\s+than|under|below|maximum(?:\s+of)?|within)\s*$|[<≤]\s*=?\s*$", re.IGNORECASE
)
_FROM: Final = re.compile(r"(?:\b(?:between|from)\s+)?(?<![\w.,-])\d[\d.,]*\s*(?:-|–|to|and)\s*$", re.IGNORECASE)
_OR_MORE: Final = re.compile(r"\s*(?:\+|(?:or|and)\s+(?:more|above|over))", re.IGNORECASE)
_OR_LESS: Final = re.compile(r"\s*(?:or|and)\s+(?:less|below|under|fewer)", re.IGNORECASE)
_LEAD: Final = 16


@dataclass(frozen=True, slots=True)
class AmountWanted:
    """An amount that is asked for; with `low` or `high` any amount between them, in the amount's own unit."""

    value: Value
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_bound(self) -> bool:
        """Whether a range is asked for."""
        return self.low > -math.inf or self.high < math.inf


def amounts_in(text: str) -> list[tuple[int, int]]:
    """(start, end) of the quantities of `text`, each with the words that make it a bound: "700-1000 $" is one."""
    spans = list(_amounts(text))
    return [(start, end) for start, end in spans if not any(start == first and end < last for first, last in spans)]


def _amounts(text: str) -> Iterator[tuple[int, int]]:
    for value in values(text):
        if value.kind == "quantity":
            lead = text[max(0, value.start - _LEAD) : value.start]
            bound = _FROM.search(lead) or _LOW.search(lead) or _HIGH.search(lead)
            rest = _OR_MORE.match(text, value.end) or _OR_LESS.match(text, value.end)
            yield value.start - len(lead) + bound.start() if bound else value.start, rest.end() if rest else value.end


@lru_cache(maxsize=4096)
def amount_wanted(text: str) -> AmountWanted | None:
    """What `text` asks for; None without a number."""
    found = [value for value in values(text) if value.kind in ("quantity", "number")]
    if not found:
        return None
    value = found[0]
    if len(found) > 1 and re.fullmatch(r"\s*(?:-|–|to|and)\s*", text[value.end : found[1].start]):
        last = found[1]
        if not value.unit or value.unit == last.unit:
            return AmountWanted(last, *sorted((value.number, last.number)))
    before, behind = text[max(0, value.start - _LEAD) : value.start], text[value.end :]
    if _LOW.search(before) or _OR_MORE.match(behind):
        return AmountWanted(value, low=value.number)
    if _HIGH.search(before) or _OR_LESS.match(behind):
        return AmountWanted(value, high=value.number)
    return AmountWanted(value)


def amount_match(wanted: AmountWanted, given: Value) -> float:
    """1 where the amount, converted, is the one asked for or within the bounds; else 0."""
    if not wanted.is_bound:
        return float(same_value(wanted.value, given))
    if not same_kind(wanted.value, given):
        return 0.0
    _, scale, offset = base(wanted.value.unit)
    _, given_scale, given_offset = base(given.unit)
    number = (given.number * given_scale + given_offset - offset) / scale
    slack = 1e-9 * max(1.0, abs(number))
    return float(wanted.low - slack <= number <= wanted.high + slack)


_FACTORS: Final = {
    "t": 1e3,
    "k": 1e3,
    "0": 1e3,
    "m": 1e6,
    "b": 1e9,
    "l": 1e5,
    "c": 1e7,
    "tr": 1e12,
    "tn": 1e12,
    "ts": 1e3,
    "mr": 1e9,
}
_LONG: Final = (
    r"thousands?|millions?|billions?|trillions?|lakhs?|crores?|mio\.?|mrd\.?|tsd\.?|mn|mln|bn|tn"
    r"|(?<!\d)['’]?000(?:['’]?s)?(?!\d)"
)
_SIGN: Final = rf"(?:(?:US|A|C|NZ|HK|S)?[{''.join(CURRENCIES)}]|\b(?:{'|'.join(sorted(CODES))})\b)"
_MONEY: Final = rf"(?:{_SIGN}|(?:US\s|U\.S\.\s)?(?:dollars?|euros?|pounds?(?:\ssterling)?|francs?|yen|rupees?)\b)"
_HEADING: Final = re.compile(
    rf"""(?<![\d\w])(?P<a>{_SIGN})\s?(?:in\s)?(?P<compact>{_LONG}|[mk])(?![\w])(?!\s?\d)   # €m, £'000, USD million
    | (?:(?P<g>{_MONEY})\s+)?\bin\s+(?:(?P<b>{_MONEY})\s*)?(?P<phrase>{_LONG})(?!\w)
        (?:\s+(?:of\s+)?(?P<c>{_MONEY}))?(?!\s+of\s)
    | \(\s*(?:(?P<d>{_MONEY})\s*,?\s*(?:in\s+)?)?(?P<bracket>{_LONG})(?![\w])[^()\n]{{0,60}}\)
    | (?:^|(?<=[|\t]))[ ]*(?:(?P<e>{_MONEY})\s+)?(?P<alone>{_LONG})(?:\s+of\s+(?P<f>{_MONEY}))?[ ]*(?=$|[|\t])""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_HEADS: Final = tuple("thousand million billion trillion lakh crore mio mrd tsd mn mln bn tn 000".split())
_HEADS_SHORT: Final = re.compile(rf"[\s{''.join(CURRENCIES)}][mk](?!\w)", re.IGNORECASE)
_OWN: Final = re.compile(r"\d\s?(?:hundred|thousand|k|million|m|mn|billion|bn|trillion)\b", re.IGNORECASE)
_UNSCALED: Final = re.compile(
    r"%|\b(?:per\s?cent|percent\w*|per\s+share|per\s+unit|ratio|margin|eps|rate|yield|year|headcount|employees|days)\b"
    rf"|\(\s*{_SIGN}\s*\)",
    re.IGNORECASE,
)
_APART: Final = re.compile(r"[|\t]|[ ]{2,}")
_COMMA: Final = re.compile(r'"[^"\n]*"|,')
_LINE: Final = re.compile(r"[^\n]+")
_STOP: Final = re.compile(r"[.!?]\s")


class Figure(NamedTuple):
    """A figure of a text. value: as it is written; meant: as its heading scales it, None without one; row, column: -1
    for none; words: the stems of its row, or sentence, and of its column's heading."""

    value: Value
    meant: Value | None
    row: int
    column: int
    words: frozenset[str]


class _Scale(NamedTuple):
    factor: float
    currency: str


class _Cell(NamedTuple):
    start: int
    end: int


def figures_in(text: str, sentences: Sequence[tuple[int, int]]) -> tuple[Figure, ...]:
    """All figures of `text` in order, dates and versions apart. sentences: their spans, which are the rows of prose."""
    return tuple(_figures(text, sentences))


def _figures(text: str, sentences: Sequence[tuple[int, int]]) -> Iterator[Figure]:
    found = [value for value in values(text) if value.kind in ("quantity", "number")]
    headings = list(_HEADING.finditer(text)) if _may_head(text) else []
    whole: _Scale | None = None
    columns: dict[int, _Scale | None] = {}
    titles: dict[int, str] = {}
    starts, begun = [value.start for value in found], [match.start() for match in headings]
    for number, line in enumerate(_LINE.finditer(text)):
        cells = _cells(text, line)
        inside = found[bisect_left(starts, line.start()) : bisect_left(starts, line.end())]
        given = headings[bisect_left(begun, line.start()) : bisect_left(begun, line.end())]
        is_table = len(cells) > 1
        row: dict[int, _Scale] = {}  # from where in the line it counts
        for match in given:
            behind = [value for value in inside if value.start >= match.end() and not _OWN.search(value.raw)]
            column = _column(cells, match.start())
            if behind and (is_table or not _STOP.search(text, match.end(), behind[0].start)):
                row[match.start()] = _scale(match)
            elif is_table and column > 0:
                columns[column] = _scale(match)
            else:
                whole, columns = _scale(match), {}
        if is_table and not inside and any(map(str.isalnum, line[0])):
            titles = {_column(cells, cell.start): text[slice(*cell)] for cell in cells if cell.start < cell.end}
            columns |= {at: None for at, title in titles.items() if _UNSCALED.search(title) and at not in columns}
        elif not is_table:
            titles = {}
        label = next((text[slice(*cell)] for cell in cells if text[slice(*cell)].strip()), "") if is_table else ""
        read: dict[tuple[tuple[int, int], int], frozenset[str]] = {}  # a sentence of several figures is read once
        for value in inside:
            column = _column(cells, value.start) if is_table else -1
            near = [scale for start, scale in row.items() if start < value.start]
            scale = near[-1] if near else None if _UNSCALED.search(label) else columns.get(column, whole)
            place, span = (number, line.span()) if is_table else _sentence(value, sentences, line)
            if (span, column) not in read:
                read[span, column] = content_stems(f"{text[slice(*span)]} {titles.get(column, '')}")
            yield Figure(value, _meant(value, scale), place, column, read[span, column])


def _may_head(text: str) -> bool:
    """Whether `text` has any of the words that every heading of a scale has: nearly none has, and a look is cheap."""
    folded = text.casefold()
    return any(word in folded for word in _HEADS) or _HEADS_SHORT.search(text) is not None


def _cells(text: str, line: re.Match[str]) -> list[_Cell]:
    start, end = line.span()
    marks = [match.span() for match in _APART.finditer(text, start, end)]
    if not marks and _is_csv(text):
        marks = [match.span() for match in _COMMA.finditer(text, start, end) if match[0] == ","]
    edges = [(start, start), *marks, (end, end)]
    cells = [_Cell(one[1], two[0]) for one, two in pairwise(edges)]
    kept = [cell for cell in cells if text[slice(*cell)].strip()]
    return cells if "|" in text[start:end] and len(kept) > 1 else kept


def _column(cells: Sequence[_Cell], at: int) -> int:
    filled = next((place for place, cell in enumerate(cells) if cell.start < cell.end), 0)
    return next((place - filled for place, cell in enumerate(cells) if cell.start <= at <= cell.end), -1)


def _sentence(value: Value, sentences: Sequence[tuple[int, int]], line: re.Match[str]) -> tuple[int, tuple[int, int]]:
    """The number, below -1, and the span of the sentence that a figure stands in; else its line."""
    place = bisect_right(sentences, (value.start, sys.maxsize)) - 1
    inside = place >= 0 and value.start < sentences[place][1]
    return (-2 - place, sentences[place]) if inside else (-1, line.span())


def _scale(match: re.Match[str]) -> _Scale:
    written = next(match[name] for name in ("compact", "phrase", "bracket", "alone") if match[name])
    plain = written.casefold().strip("'’")
    factor = _FACTORS.get(plain[:2]) or _FACTORS[plain[0]]
    currency = next((match[name] for name in "abcdefg" if match[name]), "")
    return _Scale(
        factor, unit_of(currency[-1:]) or unit_of(currency) or unit_of(currency.split()[-1]) if currency else ""
    )


def _meant(value: Value, scale: _Scale | None) -> Value | None:
    """A figure as its heading scales it: one with a unit or a scale of its own says itself how large it is."""
    if scale is None or (value.unit and value.unit not in CODES) or _OWN.search(value.raw):
        return None
    unit = value.unit or scale.currency
    return value._replace(number=value.number * scale.factor, unit=unit, kind="quantity" if unit else value.kind)
