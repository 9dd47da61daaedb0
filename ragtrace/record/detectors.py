"""Detectors of personal and secret data in texts: e-mail addresses, phone numbers, cards, IBANs, IP addresses, keys.

Each gives the places `(start, end)` of what it found, in order. All run in time linear in the text: quantifiers are
bounded or possessive. Numbers that ordinary texts are full of (prices, dates, versions, sections, ISBNs) are no finds.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final, TypeAlias

from ragtrace.record.phones import find_phones

__all__ = ["FINDERS", "Span", "find_cards", "find_emails", "find_ibans", "find_ips", "find_keys"]

Span: TypeAlias = tuple[int, int]

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

_IPV4: Final = re.compile(r"(?<![\w.-])(?<![<>=!~]=)(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,8}+(?:\.\d{1,3}){0,3}+(?!\w)", re.IGNORECASE)
_NUMBERED: Final = re.compile(
    r"(?:\b(?:version|versions|ver|release|firmware|build|section|sections|sec|chapter|clause|paragraph|article|item"
    r"|table|figure|step|rule)\.?|§)\s{0,2}$",
    re.IGNORECASE,
)
_BEFORE: Final = 16  # characters before a number that say what it is

_KEYS: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:\s*+(?:Proc-Type|DEK-Info|Version|Comment):[^\n]{0,80})*+"
    r"(?:(?:\s|\\n)*+[A-Za-z0-9+/=]{16,}+)*+(?:(?:\s|\\n)*+[A-Za-z0-9+/=]{1,15}+(?=\s{0,4}(?:\\n)?-----END))?"
    r"(?:(?:\s|\\n)*+-----END [A-Z ]{0,30}-----)?"
    r"|(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}+|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}+|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+|glpat-[A-Za-z0-9_-]{16,}+|xox[abeprs]-[A-Za-z0-9-]{10,}+"
    r"|AIza[A-Za-z0-9_-]{35}|hf_[A-Za-z0-9]{20,}+|npm_[A-Za-z0-9]{30,}+"
    r")"
    r"|(?<![\w-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{4,}+(?:\.[A-Za-z0-9_-]*+)?"
)
_LABELED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:api[ _-]?key|access[ _-]?key|secret(?:[ _-]?key)?|token|password|passwd|pwd)\b[\"']?\s{0,2}"
    r"[:=]|bearer)\s{0,2}[\"']?([\w.+/=~$!#%&*-]{8,}+)",
    re.IGNORECASE,
)
_LABELED_LENGTH: Final = 200
_TOKEN: Final = re.compile(r"(?<![\w/=+-])[A-Za-z0-9_-]{32,}+(?![\w/=+-])")
_TOKEN_LENGTH: Final = 512
_TURNS: Final = 0.35  # how often a random token changes between capitals, small letters and digits, per character
_DISTINCT: Final = 16


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
    found = [match.span() for match in _IPV4.finditer(text) if _is_ipv4(text, match)] if "." in text else []
    if ":" in text:
        found += [span for match in _IPV6.finditer(text) if (span := _ipv6(match)) is not None]
    return _united(found)


def _is_ipv4(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - _BEFORE) : match.start()]
    return _is_address(match[0]) and len(match[0]) > len("1.2.3.4") and _NUMBERED.search(before) is None


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


def find_keys(text: str) -> list[Span]:
    """Keys of known makes, JSON web tokens, private keys, values named as secrets, and long random tokens."""
    found = [match.span() for match in _KEYS.finditer(text)]
    found += [match.span(1) for match in _LABELED.finditer(text) if _is_secret(match[1])]
    found += [match.span() for match in _TOKEN.finditer(text) if _is_random(match[0])]
    return _united(found)


def _is_secret(value: str) -> bool:
    """Letters and digits, and not the digits of a date or amount."""
    letters, digits = (sum(map(test, value)) for test in (str.isalpha, str.isdigit))
    return letters > 2 and digits > 0 and len(value) <= _LABELED_LENGTH


def _is_random(token: str) -> bool:
    """All three sorts of characters in frequent turns: no word, no name in capitals and digits, no hash in hex."""
    if len(token) > _TOKEN_LENGTH or len(set(token)) < _DISTINCT:
        return False
    sorts = ["d" if char.isdigit() else "u" if char.isupper() else "l" for char in token if char.isalnum()]
    turns = sum(one != other for one, other in pairwise(sorts))
    return len(set(sorts)) == 3 and turns >= _TURNS * len(token)


def _united(spans: list[Span]) -> list[Span]:
    """In order, overlapping ones as one."""
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start < united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


# In the order in which they run: what holds others comes first.
FINDERS: Final[dict[str, Callable[[str], list[Span]]]] = {
    "key": find_keys,
    "email": find_emails,
    "iban": find_ibans,
    "card": find_cards,
    "ip": find_ips,
    "phone": find_phones,
}
