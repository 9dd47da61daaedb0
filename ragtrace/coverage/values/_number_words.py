"""Numbers that are not one run of digits: "two hundred and fifty", "one and a half", "2 1/2", "two dozen", "half an
hour"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["NUMBER_WORDS", "WrittenNumber", "written_numbers"]

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
