"""Detectors of personal and secret data in texts: e-mail addresses, cards, IBANs, IP addresses; keys and telephone
numbers have modules of their own.

Each gives the places `(start, end)` of what it found, in order. All run in time linear in the text: quantifiers are
bounded or possessive. Numbers that ordinary texts are full of (prices, dates, versions, sections, ISBNs) are no finds.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final

from ragtrace.record.keys import find_keys
from ragtrace.record.phones import find_phones
from ragtrace.record.places import Span, united

__all__ = ["FINDERS", "find_cards", "find_emails", "find_ibans", "find_ips"]

_LOCAL: Final = frozenset("._%+'-")
_LOCAL_LENGTH: Final = 64
_DOMAIN: Final = re.compile(r"(?:[\w-]{1,63}+\.){1,8}[^\W\d_]{2,24}(?!\w)")

_RUN: Final = re.compile(r"(?<![\w.,+$€£])\d++(?:[ -]\d++)*+(?!\w)")
_LENGTHS: Final = range(14, 17)  # without separators; 19 digits in one are an id of 64 bits
_GROUPED: Final = {(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4)}
_ISSUED: Final = re.compile(  # Visa, Mastercard, American Express, Diners, JCB, Discover, UnionPay
    r"4(?:\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[689]\d)\d{11}|35\d{14}|6(?:011|5\d\d|4[4-9]\d)\d{12}|62\d{14,17}"
)

_IBAN: Final = re.compile(r"(?<![^\W_])([a-z]{2})\d{2}(?:[ -]?[a-z0-9]){11,30}+", re.IGNORECASE | re.ASCII)
_BY_LENGTH: Final = {  # ISO 13616 registry
    15: "NO", 16: "BE", 18: "DK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG DZ",
    25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
_IBAN_LENGTH: Final = {country: length for length, all_of in _BY_LENGTH.items() for country in all_of.split()}

_FOUR: Final = r"(?:\d{1,3}\.){3}\d{1,3}"
_IPV4: Final = re.compile(rf"(?<![\w.-])(?<![<>=!~]=)({_FOUR})(?:-({_FOUR}))?(?![\w-]|\.\d)")  # also a range of them
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,8}+(?:\.\d{1,3}){0,3}+(?!\w)", re.IGNORECASE)
_NUMBERED: Final = re.compile(
    r"(?:\b(?:version|versions|ver|release|firmware|build|section|sections|sec|chapter|clause|paragraph|article|item"
    r"|table|figure|step|rule)\.?|§)\s{0,2}$",
    re.IGNORECASE,
)
_BEFORE: Final = 16  # characters before a number that say what it is


def find_emails(text: str) -> list[Span]:
    """E-mail addresses, found from their @."""
    found: list[Span] = []
    at, end = text.find("@"), 0
    while at >= 0:
        domain = _DOMAIN.match(text, at + 1)
        start = _local(text, max(end, at - _LOCAL_LENGTH), at) if domain else at
        if domain and start < at:
            end = domain.end()
            found.append((start, end))
        at = text.find("@", max(at + 1, end))
    return found


def _local(text: str, low: int, at: int) -> int:
    start = at
    while start > low and (text[start - 1].isalnum() or text[start - 1] in _LOCAL):
        start -= 1
    while start < at and text[start] in "'.-":
        start += 1
    return start


def find_cards(text: str) -> list[Span]:
    """Payment card numbers: of a known issuer and length, grouped as cards are, with a right check digit (Luhn)."""
    return [span for run in _RUN.finditer(text) for span in _cards(text, *run.span())]


def _cards(text: str, start: int, end: int) -> list[Span]:
    """Cards among groups of digits that follow one another."""
    if end - start < _LENGTHS.start:
        return []
    groups = [(start + match.start(), start + match.end()) for match in re.finditer(r"\d++", text[start:end])]
    found: list[Span] = []
    first = 0
    while first < len(groups):
        count = next((n for n in (1, 3, 4, 5) if _is_card(text, groups[first : first + n], n)), 0)
        if count:
            found.append((groups[first][0], groups[first + count - 1][1]))
        first += count or 1
    return found


def _is_card(text: str, groups: list[Span], count: int) -> bool:
    sizes = tuple(end - start for start, end in groups)
    if len(groups) != count or (sizes not in _GROUPED if count > 1 else sizes[0] not in _LENGTHS):
        return False
    between = {text[end] for _, end in groups[:-1]}
    number = "".join(text[start:end] for start, end in groups)
    return len(between) < 2 and _ISSUED.fullmatch(number) is not None and _luhn(number)


def _luhn(number: str) -> bool:
    digits = [int(digit) for digit in reversed(number)]
    return sum(digits[::2] + [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]) % 10 == 0


def find_ibans(text: str) -> list[Span]:
    """International bank account numbers with a right checksum (mod 97)."""
    found: list[Span] = []
    match = _IBAN.search(text)
    while match is not None:
        end = _iban_end(text, match)
        if end is not None:
            found.append((match.start(), end))
        match = _IBAN.search(text, end or match.start() + 1)
    return found


def _iban_end(text: str, match: re.Match[str]) -> int | None:
    """Where the IBAN that begins at `match` ends; None when it is none."""
    length = _IBAN_LENGTH.get(match[1].upper(), 0)
    places = [place for place in range(*match.span()) if text[place].isalnum()] if length else []
    if not length or len(places) < length:
        return None
    end = places[length - 1] + 1
    if text[end : end + 1].isalnum():
        return None
    number = "".join(text[place] for place in (*places[4:length], *places[:4]))
    return end if int("".join(str(int(char, 36)) for char in number)) % 97 == 1 else None


def find_ips(text: str) -> list[Span]:
    """IP addresses; four numbers that a word calls a version or a section, or of one digit each, are none."""
    found: list[Span] = []
    if "." in text:
        for match in _IPV4.finditer(text):
            found += _ipv4(text, match)
    if ":" in text:
        found += [span for match in _IPV6.finditer(text) if (span := _ipv6(match)) is not None]
    return united(found)


def _ipv4(text: str, match: re.Match[str]) -> list[Span]:
    """The places of the address, or of the two ends of a range."""
    ends = [number for number in (1, 2) if match[number]]
    before = text[max(0, match.start() - _BEFORE) : match.start()]
    are_some = all(_is_address(match[each]) and len(match[each]) > len("1.2.3.4") for each in ends)
    return [match.span(each) for each in ends] if are_some and _NUMBERED.search(before) is None else []


def _ipv6(match: re.Match[str]) -> Span | None:
    """The place of the address, without the colon of a sentence behind it."""
    start, end = match.span()
    address = match[0]
    if address.endswith(":") and not address.endswith("::"):
        address, end = address[:-1], end - 1
    is_one = any(char.isdigit() for char in address) and address.count(":") > 1
    return (start, end) if is_one and _is_address(address) else None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# In the order in which they run: what holds others comes first.
FINDERS: Final[dict[str, Callable[[str], list[Span]]]] = {
    "key": find_keys,
    "email": find_emails,
    "iban": find_ibans,
    "card": find_cards,
    "ip": find_ips,
    "phone": find_phones,
}
