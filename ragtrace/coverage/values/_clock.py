"""Times of the day: "16:00", "4 pm", "half past five", "noon", "18.30 Uhr"; "from 9 to 5:30 pm" has two.

A time is read where it is written as one: with a.m. or p.m., with "o'clock" or "Uhr", on a clock of 24 hours (from
13:00 on, or with a zero before the hour), or as hours and minutes behind a word such as "at" or beside another one.
"1:50" alone is a ratio as well, and stays two numbers.
"""

from __future__ import annotations

import re
from typing import Final

from ragtrace.coverage.values._number_words import NUMBER_WORDS
from ragtrace.coverage.values.value import CLOCK, DAY, HALF_CLOCK, Value

__all__ = ["clock_times"]

_HOURS: Final = {word: number for word, number in NUMBER_WORDS.items() if 1 <= number <= 12}
_HOUR: Final = rf"(?:2[0-4]|[01]?\d|{'|'.join(_HOURS)})"
_HALF: Final = r"[ap](?:\.\s?m\b\.?|m\b)"
_BEFORE: Final = r"(?<![\w.,:/#$€£])"
_TIME: Final = re.compile(
    rf"""{_BEFORE}(?:
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
_REACH: Final = 24


def clock_times(text: str) -> list[Value]:
    """The times of the day in `text`, in order, as values of kind `clock`: minutes since midnight.

    Their unit is `CLOCK` where it is known which half of the day is meant, else `HALF_CLOCK`.
    """
    folded = text.lower()
    if not _IN_DIGITS.search(text) and not any(word in folded for word in _IN_WORDS):
        return []
    found: list[Value] = []
    for match in _TIME.finditer(text):
        value = _value(match)
        if value is None:
            continue
        if (begun := _beginning(text, value, found[-1].end if found else 0)) is not None:
            found.append(begun)
        found.append(value)
    return found


def _value(match: re.Match[str]) -> Value | None:
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
    lead = text[max(0, start - _REACH) : start]
    return bool(_LEADS.search(lead) or _SPAN_BEGINS.match(text, end) or _ends_span(lead))


def _ends_span(lead: str) -> bool:
    span = _SPAN_ENDS.search(lead)
    return span is not None and re.search(r"\d:[0-5]\d$", lead[: span.start()]) is not None


def _beginning(text: str, value: Value, since: int) -> Value | None:
    """The hour alone with which a span begins that ends at a time: "from 4 to 5:30 pm"."""
    lead_start = max(since, value.start - _REACH)
    found = _FROM.search(text[lead_start : value.start])
    if found is None:
        return None
    start, end = lead_start + found.start("hour"), lead_start + found.end("hour")
    return _clock(text, start, end, 60 * int(found["hour"]), is_sure=False)
