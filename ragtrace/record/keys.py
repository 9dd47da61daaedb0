"""Finds secrets: keys of known makes, private keys, values behind a label such as `password=`, long random tokens.

What stands behind a label is taken whatever it is, one character or a sentence in quotes; only behind a colon and a
space a word that prose goes on with ("the password: see your letter") is none. Quantifiers are bounded or possessive.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from ragtrace.record.places import Span, united

__all__ = ["find_keys", "names_a_secret"]

_KEYS: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:\s*+(?:Proc-Type|DEK-Info|Version|Comment):[^\n]{0,80})*+"
    r"(?:(?:\s|\\n)*+[A-Za-z0-9+/=]{16,}+)*+(?:(?:\s|\\n)*+[A-Za-z0-9+/=]{1,15}+(?=\s{0,4}(?:\\n)?-----END))?"
    r"(?:(?:\s|\\n)*+-----END [A-Z ]{0,30}-----)?"
    r"|(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}+|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}+|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+|glpat-[A-Za-z0-9_-]{16,}+|xox[abeprs]-[A-Za-z0-9-]{10,}+"
    r"|AIza[A-Za-z0-9_-]{35}|hf_[A-Za-z0-9]{20,}+|npm_[A-Za-z0-9]{30,}+"
    r"|hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]++"
    r")"
    r"|(?<![\w-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{4,}+(?:\.[A-Za-z0-9_-]*+)?"
)
_LOGIN: Final = re.compile(r"(?<=://)[^\s/@:]{0,64}+:([^\s/@]++)@")

_NAMES: Final = (
    r"(?:pass(?:word|wd|wort|phrase|code)|kennwort|(?<![a-z])pwd|(?:api|access|private|auth|secret|signing)[ _-]?key"
    r"|(?P<weak>secret|token))"
)
_SCHEMES: Final = r"(?:(?:bearer|basic|token|api-?key|digest|negotiate|apikey)\s{1,4})?"
_LABEL: Final = rf"(?:{_NAMES}|(?P<header>(?<![a-z])(?:proxy-)?authorization))[\"'`*_\\]{{0,3}}\s{{0,3}}"
_LABELED: Final = re.compile(
    rf"{_LABEL}(?P<sign>:=|=>|[:=]=?)(?P<space>[*_]{{0,2}}[ \t]{{0,4}}){_SCHEMES}"
    r"(?:\\?(?P<quote>[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\n\\])++)|(?P<value>[^\s\"'`<>\\]++))",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"(?<![\w-])bearer[ \t]{1,4}([\w.~+/-]++=*+)", re.IGNORECASE)
_NAME: Final = re.compile(rf"(?:{_NAMES}|(?<![a-z])(?:proxy-)?authorization)$", re.IGNORECASE)

_WORD_BEHIND: Final = re.compile(r"[,;]?[ \t]{1,3}(?=[^\W\d_])")
_PROSE: Final = frozenset(
    "a about after all always an and any anything are as ask at be before by can cannot change check choose click "
    "contact do does each enter every for forgot forgotten from get give given has have how if in incorrect invalid "
    "is it its keep letters made may minimum must need needed needs never new no none not of old on once one only "
    "open optional or our please protected provided read refer required reset save see sent set shall should some "
    "something stored switch tell that the their there these they this to two type under unless use used using "
    "visit was what when where which will with without wrong you your ".split()
)
_DATED: Final = re.compile(r"\d{4}-\d\d?-\d\d?(?:T[\d:.+Z-]{0,30})?")
_BRACKETS: Final = ("()", "[]", "{}")

_TOKEN: Final = re.compile(r"(?<![\w/=+-])[A-Za-z0-9_-]{32,}+(?![\w/=+-])")
_TOKEN_LENGTH: Final = 512
_TURNS: Final = 0.35  # how often a random token changes between capitals, small letters and digits, per character
_DISTINCT: Final = 16
_LONG_WORD: Final = 15  # no English word behind "bearer" is longer


def find_keys(text: str) -> list[Span]:
    """Keys of known makes, JSON web tokens, private keys, values named as secrets, and long random tokens."""
    found = [match.span() for match in _KEYS.finditer(text)]
    found += [match.span(1) for match in _LOGIN.finditer(text)] if "://" in text else []
    found += [span for match in _LABELED.finditer(text) if (span := _labeled(text, match)) is not None]
    found += [match.span(1) for match in _BEARER.finditer(text) if _is_credential(match[1])]
    found += [match.span() for match in _TOKEN.finditer(text) if _is_random(match[0])]
    return united(found)


def names_a_secret(name: str) -> bool:
    """Whether a key of a mapping says that its value is a secret: `db_password`, `apiKey`, `Authorization`."""
    return _NAME.search(name) is not None


def _labeled(text: str, match: re.Match[str]) -> Span | None:
    """Where the value behind a label is; None where prose follows."""
    if match["quoted"] is not None:
        return match.span("quoted")
    start, end = match.span("value")
    end = _end(text, start, end)
    if start == end or (match["sign"] == ":" and match["space"] and _is_prose(text, start, end, match)):
        return None
    return start, end


def _end(text: str, start: int, end: int) -> int:
    """Without the marks of a sentence behind the value."""
    value = text[start:end]
    closing = [closing for opening, closing in _BRACKETS if opening not in value]
    return start + len(value.rstrip("".join([".,;:", *closing])))


def _is_prose(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """A word that prose goes on with; behind `token:` and `secret:`, which mean much, any word or amount or date."""
    value = text[start:end]
    goes_on = _WORD_BEHIND.match(text, end) is not None
    if match["weak"] and (value.isdecimal() or _DATED.fullmatch(value)):
        return True
    return value.isalpha() and goes_on and (bool(match["weak"]) or value.lower() in _PROSE)


def _is_credential(value: str) -> bool:
    """What follows the word "bearer" where no header does: no word of prose."""
    return len(value) > _LONG_WORD or not (value.rstrip(".").replace("-", "").replace("/", "").isalpha())


def _is_random(token: str) -> bool:
    """All three sorts of characters in frequent turns: no word, no name in capitals and digits, no hash in hex."""
    if len(token) > _TOKEN_LENGTH or len(set(token)) < _DISTINCT:
        return False
    sorts = ["d" if char.isdigit() else "u" if char.isupper() else "l" for char in token if char.isalnum()]
    turns = sum(one != other for one, other in pairwise(sorts))
    return len(set(sorts)) == 3 and turns >= _TURNS * len(token)
