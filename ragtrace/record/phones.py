"""Finds telephone numbers: international, North American, with a trunk zero, or after a word such as `Tel.`.

Prices, dates, versions, section numbers, ISBNs and times of day are none. Quantifiers are bounded or possessive.
"""

from __future__ import annotations

import re
from typing import Final

from ragtrace.record.places import Span, united

__all__ = ["find_phones"]

_DIGIT: Final = re.compile(r"\d")
_SHORTEST: Final = 7

_INTERNATIONAL: Final = re.compile(
    r"(?<![\w+])(?:\+|(?<![-.,/])(?<!\d )(?=00[1-9]\d{0,2}[ ./(-])00)[1-9]\d{0,14}+"
    r"(?:[ ./-]{0,2}\(?\d{1,12}+\)?){0,7}+(?!\w)"
)
_NORTH_AMERICAN: Final = re.compile(
    r"(?<![\w.,/+$€£-])(?:1[-. ])?(?:\([2-9]\d\d\)[ -]?\d{3}[-. ]|[2-9]\d\d([-.])\d{3}\1)\d{4}(?!\w|[-.,]\d)"
)
_TRUNK: Final = re.compile(
    r"(?<![\w.,/+$€£-])(?<!\d )(?:\(0[1-9]\d{1,4}\) ?|0[1-9]\d{1,3}[ /-]{1,3})\d{2,8}+"
    r"(?:[ -]\d{2,8}+){0,3}+(?!\w|[-.,/]\d)"
)
_PAIRS: Final = re.compile(r"(?<![\w.,/+$€£-])0[1-9]([ .-])\d\d(?:\1\d\d){3}(?!\w|[-.,/ ]\d)")
_LABELED: Final = re.compile(
    r"\b(?:tel(?:ephone|efon)?|phone|mobile|mobil|cell|fax|hotline|call)\b\.?:?(?:\s(?:no|nr|number|us|at|on|is)\b\.?:?)"
    r"{0,2}\s{0,3}(\+?\(?\d(?:[ ()/.-]{0,2}\d){6,14}+)(?!\w|[.,]\d)",
    re.IGNORECASE,
)
_DATE: Final = re.compile(
    r"(?:19|20)\d\d[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.](?:19|20)\d\d|(?:19|20)\d\d-(?:19|20)\d\d"
)
_TIMES: Final = re.compile(r"(?:[01]\d|2[0-3])[0-5]\d(?:[ -]{1,3}(?:[01]\d|2[0-3])[0-5]\d){1,3}")

# pattern, the group that is the number, fewest and most digits
_SHAPES: Final = (
    (_LABELED, 1, _SHORTEST, 15),
    (_INTERNATIONAL, 0, 8, 17),
    (_NORTH_AMERICAN, 0, 10, 11),
    (_PAIRS, 0, 10, 10),
    (_TRUNK, 0, 9, 12),
)


def find_phones(text: str) -> list[Span]:
    """The places of telephone numbers, in order, without overlaps."""
    if _DIGIT.search(text) is None:
        return []
    return united(
        match.span(group)
        for pattern, group, fewest, most in _SHAPES
        for match in pattern.finditer(text)
        if _is_number(match[group], fewest, most)
    )


def _is_number(text: str, fewest: int, most: int) -> bool:
    """Whether the digits are as many as a number has, and are no dates or times of day."""
    count = sum(char.isdigit() for char in text)
    return fewest <= count <= most and _DATE.match(text) is None and _TIMES.fullmatch(text) is None
