"""The sums that an answer writes out: "2 × 11.50 + 2 × 5", "3 days at $85", amounts in a list."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from ragtrace.coverage.values import NUMBER_WORDS, values
from ragtrace.coverage.values.value import CODES

__all__ = ["GROUPED", "TERM", "written_sums"]

LONGEST: Final = 64  # numbers of an expression
GROUPED: Final = re.compile(r"\d{1,3}(?:[, \u00a0\u202f’]\d{3})+(?!\d)")
_COUNT: Final = rf"\d{{1,3}}|{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))}"
_AT_PRICE: Final = re.compile(
    rf"""\b(?:(?P<count>{_COUNT})(?:\s(?!at\b)[^\W\d]+){{1,3}}
    | (?:the|an?|each)\s(?:(?!at\b)[^\W\d]+\s){{0,2}}(?!at\b)[^\W\d]+)
    \s(?:at|for)\s(?:{"|".join(sorted(CODES))}|[€$£])?\s?(?P<price>\d+(?:[.,]\d+)?)(?:\s?[€$£])?""",
    re.IGNORECASE | re.VERBOSE,
)
_AND: Final = re.compile(r"\s?(?:\{[\w-]+\}|\[\d+\])?,?\s(?:and|plus)\s|,\s", re.IGNORECASE)
TERM: Final = re.compile(r"(?<![\w.,])(\d[\d.,]*\d|\d)")
_SIGNS: Final = {"+": "+", "-": "-", "−": "-", "–": "-", "×": "*", "x": "*", "*": "*", "·": "*", "÷": "/", "/": "/",
                 "plus": "+", "minus": "-", "times": "*", "divided by": "/", "less": "-"}  # fmt: skip
_SIGN: Final = re.compile(
    r"[^\d.;=]{0,14}?(plus|minus|(?<![a-z])less(?!\s+than)|times|divided by|[-+−–×x*·÷/])[^\d.;=]{0,6}", re.IGNORECASE
)
_OF: Final = re.compile(r"\s?(?:%|per\s?cent)\s+(?:of|on)\s[^\d.;=%]{0,30}", re.IGNORECASE)
_PART_OF: Final = re.compile(r"\s+of\s+(?:the\s+)?[^\d.;=%\s]{0,3}\s?", re.IGNORECASE)
_SHARE: Final = re.compile(r"\s?(?:%|per\s?cent\b)", re.IGNORECASE)


def written_sums(answer: str) -> tuple[float, ...]:
    """What the sums come to that an answer writes out."""
    return tuple(dict.fromkeys([*_expressions(answer), *_charged(answer), *_listed(answer)]))


def _expressions(claim: str) -> Iterator[float]:
    """What each row of numbers with signs between them comes to: "2 × 11.50 + 2 × 5"."""
    terms = list(TERM.finditer(claim))
    shares = [_SHARE.match(claim, term.end()) is not None for term in terms]
    for start in range(len(terms)):
        sign_before = ""
        total, product, sign = 0.0, _number(terms[start].group(1)) * (0.01 if shares[start] else 1.0), 1.0
        for place in range(start, min(start + LONGEST, len(terms) - 1)):
            one, two, is_share = terms[place], terms[place + 1], shares[place + 1]
            operation = _operation(claim, one.end(), two.start())
            if (
                not operation
                and place > start
                and sign_before == "/"
                and _PART_OF.fullmatch(claim, one.end(), two.start())
            ):
                operation = "*"  # "9/24 of EUR 450"
            sign_before = operation
            if not operation:
                break
            number = _number(two.group(1))
            if operation in "*/":
                number = number / 100 if is_share else number
                product = product * number if operation == "*" else product / number if number else 0.0
            elif (
                is_share and not shares[start] and not _OF.match(claim, two.end())
            ):  # "2 x 114 less 10 %": of what is there
                whole = total + sign * product
                total, product, sign = whole, abs(whole) * number / 100, 1.0 if operation == "+" else -1.0
            else:
                number = number / 100 if is_share else number
                total, product, sign = total + sign * product, number, 1.0 if operation == "+" else -1.0
            yield total + sign * product
            if shares[start]:
                yield 100 * (total + sign * product)


def _charged(answer: str) -> Iterator[float]:
    """What counts at their prices come to: "three days at $85", "six nights at €18.00 and the seventh at €15.50"."""
    parts: list[tuple[int, float]] = []
    for part in _AT_PRICE.finditer(answer):
        written = (part.group("count") or "1").casefold()
        count = NUMBER_WORDS.get(written) or (_number(written) if written[0].isdigit() else 0.0)
        if parts and not _AND.fullmatch(answer, parts[-1][0], part.start()):
            parts = []
        parts.append((part.end(), float(count) * _number(part.group("price"))))
        if count > 1 or len(parts) > 1:
            yield math.fsum(amount for _, amount in parts)


def _listed(answer: str) -> Iterator[float]:
    """What the last amounts of lines that follow each other come to, those of the first two, three and so on."""
    run: list[float] = []
    for line in answer.splitlines():
        amounts = [value.number for value in values(line) if value.unit in CODES]
        run = [*run, amounts[-1]] if amounts else []
        if len(run) > 1:
            yield math.fsum(run)


def _operation(claim: str, start: int, end: int) -> str:
    """The operation that stands between two numbers of an expression; "" for none."""
    if _OF.fullmatch(claim, start, end):
        return "*"  # "1.60 % on the first EUR 25,000"
    between = _SIGN.fullmatch(claim, start, end)
    return _SIGNS[between.group(1).casefold()] if between else ""


def _number(written: str) -> float:
    if GROUPED.match(written):
        return float(re.sub(r"[^\d.]", "", written) or 0)
    return float(next((abs(value.number) for value in values(written) if value.dates is None), 0.0))
