"""Numbers, amounts of money and quantities of a text, with their scale ("3.5 million") and unit.

A point or comma is read as the number shows by itself ("1.000,50"); where both readings are possible, an amount of
money and a number in a text that is not English have it between thousands ("EUR 2.500"), others as the decimal point.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ragtrace.coverage.text import is_english
from ragtrace.coverage.values.model import Value
from ragtrace.coverage.values.units import CODES, CURRENCIES, unit_of

__all__ = ["NUMBER_WORDS", "quantities_of"]

NUMBER_WORDS: Final = {
    word: number
    for number, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_SCALES: Final = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "m": 1e6, "mn": 1e6, "billion": 1e9,
                  "bn": 1e9, "trillion": 1e12}  # fmt: skip
_SIGNS: Final = "".join(CURRENCIES)
_UNIT: Final = r"%|°[cf]\b|m²|km²|k?mg?/[hdl]l?\b|m?l/(?:min|h)\b|mmol/l\b|[a-zà-ÿµμ]+"
_GOES_ON: Final = rf"(?!(?:to|or|and|{'|'.join(NUMBER_WORDS)})\b)"  # "eight to ten minutes": the minutes are ten's
_NUMBER: Final = re.compile(
    rf"""(?<![\w.,])(?P<pre>[{_SIGNS}]|\b(?=\w{{3}}\s)(?:{"|".join(sorted(CODES))})\s)?\s?
    (?P<sign>[-−])?(?:(?P<digits>\d{{1,3}}(?:[, \u00a0\u202f’]\d{{3}})+(?:\.\d+)?(?!\d)
      |\d{{1,3}}(?:\.\d{{3}})+(?:,\d+)?(?!\d)|\d{{1,40}}(?:[.,]\d{{1,40}})?)
      |(?P<word>\b(?=[efnostz][ehilnow])(?:{"|".join(NUMBER_WORDS)})\b))
    (?P<tail>(?:[-\s]?{_GOES_ON}(?:per\s?cent\b|[{_SIGNS}]|{_UNIT}))?(?:\s{_GOES_ON}[a-zà-ÿµ]+)?
      (?:\s{_GOES_ON}[a-zà-ÿ]+)?)""",
    re.IGNORECASE | re.VERBOSE,
)
_TAIL_TOKEN: Final = re.compile(rf"[{_SIGNS}]|{_UNIT}", re.IGNORECASE)
_POINTS: Final = re.compile(r"[\s-]points?\b", re.IGNORECASE)
_TO: Final = re.compile(r"\s*(?:-|–|—|\bto\b)\s*")
_EITHER: Final = re.compile(r"[1-9]\d{0,2}\.\d{3}")  # 2.500: two thousand five hundred, or two and a half


def quantities_of(text: str) -> list[Value]:
    """All numbers of `text` as values of kind `quantity` (with a unit) or `number`, in order."""
    matches = list(_NUMBER.finditer(text))
    found = [_value(match) for match in matches]
    for at in range(len(found) - 2, -1, -1):
        if _TO.fullmatch(text, found[at].end, found[at + 1].start):
            found[at : at + 2] = _ends(found[at], found[at + 1], matches[at + 1])
    return found


def _ends(low: Value, high: Value, match: re.Match[str]) -> tuple[Value, Value]:
    """Both ends of a range: a currency or scale that is written once is of both ("$5.1–5.2 bn")."""
    if low.unit in CODES and not high.unit:
        high = replace(high, kind="quantity", unit=low.unit)
    written = _written(match)
    scale = abs(high.number) / written if written else 1.0
    if not low.raw[-1:].isdigit() or (low.unit and low.unit != high.unit) or (scale == 1.0 and high.unit not in CODES):
        return low, high  # the minutes of "eight to ten minutes" are ten's
    number = low.number * scale if low.number * scale <= high.number else low.number
    return replace(low, kind=high.kind, unit=high.unit, number=number), high


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
    return _amount(digits, money, match.string) if digits else float(NUMBER_WORDS[match.group("word").casefold()])


def _amount(digits: str, money: bool, text: str) -> float:
    """1,000.50 and 1.000,50 and 5,5: the last mark is the decimal one, unless it groups thousands."""
    plain = re.sub(r"[^\d.,]", "", digits)
    head, mark, tail = plain.rpartition("," if plain.rfind(",") > plain.rfind(".") else ".")
    groups = len(tail) == 3 and not plain.startswith("0") and (mark == "," or plain.count(".") > 1)
    if _EITHER.fullmatch(plain):
        groups = money or not is_english(text)
    whole, fraction = (plain, "") if groups or not mark else (head, f".{tail}")
    return float(re.sub(r"[.,]", "", whole) + fraction)


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
        if unit := unit_of(token.group()):
            points = _POINTS.match(tail, token.end()) if unit == "%" else None
            return (scale, "percentage point", points.end()) if points else (scale, unit, token.end())
    return scale, "", end
