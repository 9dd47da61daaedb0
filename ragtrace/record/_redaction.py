"""Redaction: what detectors and the host's own patterns find in a text becomes `[EMAIL]`, `[CARD]`, `[CUSTOMER]`.

The detectors find e-mail addresses, cards, IBANs, IP addresses, secrets and telephone numbers. Each gives the places
`(start, end)` of its finds, in order. All run in time linear in the text: quantifiers are bounded or possessive.
Numbers that ordinary texts are full of (prices, dates, versions, sections, ISBNs, times of day) are no finds.

What stands behind a label such as `password=` is taken whatever it is, one character or a sentence in quotes; only
behind a colon and a space a word that prose goes on with ("the password: see your letter") is none.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

from ragtrace.record.guard import let_through

__all__ = ["FINDERS", "Redactor", "names_a_secret"]

_Span: TypeAlias = tuple[int, int]

_REMEMBERED: Final = 2000  # characters; longer texts are redacted each time
_TEXTS: Final = 4096
_SECRET: Final = "[KEY]"
_PASSES: Final = 8  # a find may stand free only when its neighbor is gone
# secrets
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
_LABELED_SECRET: Final = re.compile(
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
# telephone numbers
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
_LABELED_PHONE: Final = re.compile(
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
    (_LABELED_PHONE, 1, _SHORTEST, 15),
    (_INTERNATIONAL, 0, 8, 17),
    (_NORTH_AMERICAN, 0, 10, 11),
    (_PAIRS, 0, 10, 10),
    (_TRUNK, 0, 9, 12),
)
# e-mail addresses
_LOCAL: Final = frozenset("._%+'-")
_LOCAL_LENGTH: Final = 64
_DOMAIN: Final = re.compile(r"(?:[\w-]{1,63}+\.){1,8}[^\W\d_]{2,24}(?!\w)")
# payment cards
_RUN: Final = re.compile(r"(?<![\w.,+$€£])\d++(?:[ -]\d++)*+(?!\w)")
_LENGTHS: Final = range(14, 17)  # without separators; 19 digits in one are an id of 64 bits
_GROUPED: Final = {(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4)}
_ISSUED: Final = re.compile(  # Visa, Mastercard, American Express, Diners, JCB, Discover, UnionPay
    r"4(?:\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[689]\d)\d{11}|35\d{14}|6(?:011|5\d\d|4[4-9]\d)\d{12}|62\d{14,17}"
)
# bank accounts
_IBAN: Final = re.compile(r"(?<![^\W_])([a-z]{2})\d{2}(?:[ -]?[a-z0-9]){11,30}+", re.IGNORECASE | re.ASCII)
_BY_LENGTH: Final = {  # ISO 13616 registry
    15: "NO", 16: "BE", 18: "DK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG DZ",
    25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
_IBAN_LENGTH: Final = {country: length for length, all_of in _BY_LENGTH.items() for country in all_of.split()}
# IP addresses
_FOUR: Final = r"(?:\d{1,3}\.){3}\d{1,3}"
_IPV4: Final = re.compile(rf"(?<![\w.-])(?<![<>=!~]=)({_FOUR})(?:-({_FOUR}))?(?![\w-]|\.\d)")  # also a range of them
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,8}+(?:\.\d{1,3}){0,3}+(?!\w)", re.IGNORECASE)
_NUMBERED: Final = re.compile(
    r"(?:\b(?:version|versions|ver|release|firmware|build|section|sections|sec|chapter|clause|paragraph|article|item"
    r"|table|figure|step|rule)\.?|§)\s{0,2}$",
    re.IGNORECASE,
)
_BEFORE: Final = 16  # characters before a number that say what it is


class Redactor:
    """Replaces what it finds in texts; the same chunk, retrieved again and again, is redacted once.

    Args:
        detectors: names of `FINDERS`.
        patterns: the host's own, by the name that stands in the text instead.
        function: the host's own, called last. It must leave its own output as it is.
        report: told the kind of each fault of `function`.

    Redacting a redacted text changes nothing: what stands in a placeholder is never replaced again.
    """

    def __init__(
        self,
        detectors: Iterable[str],
        patterns: Mapping[str, re.Pattern[str]],
        function: Callable[[str], str] | None,
        report: Callable[[str], object],
    ) -> None:
        wanted = frozenset(detectors)
        finders = {name.upper(): find for name, find in FINDERS.items() if name in wanted}
        self._finders = finders | {name.upper(): _finder(pattern) for name, pattern in patterns.items()}
        self._hides_secrets = "key" in wanted
        self._function = function
        self._report = report
        names = "|".join(re.escape(name) for name in self._finders)
        self._placeholder = re.compile(rf"\[(?:{names})\]") if names else re.compile(r"(?!)")
        self._remembered = lru_cache(_TEXTS)(self._redacted)

    def redact(self, text: str) -> str | None:
        """`text` without what is not to leave; None when the host's function failed, so that nothing of it does."""
        try:
            return self._remembered(text) if len(text) <= _REMEMBERED else self._redacted(text)
        except _Failed as failed:
            self._report(failed.kind)
            return None

    def redact_value(self, value: Any) -> Any:
        """A JSON value with its texts and keys redacted; what stands under a key such as `password` is a secret."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            kept = {self.redact_value(key): self._entry(key, item) for key, item in value.items()}
            kept.pop(None, None)
            return kept
        return [self.redact_value(item) for item in value] if isinstance(value, list | tuple) else value

    def _entry(self, key: Any, value: Any) -> Any:
        if self._hides_secrets and isinstance(key, str) and names_a_secret(key):
            return _hidden(value)
        return self.redact_value(value)

    def _redacted(self, text: str) -> str:
        found = self._replaced(text)
        if self._function is None:
            return found
        try:
            changed = self._function(found)
        except BaseException as error:
            let_through(error)
            raise _Failed(type(error).__name__) from error
        if not isinstance(changed, str):
            raise _Failed(f"returned {type(changed).__name__}")
        return found if changed == found else self._replaced(str(changed))

    def _replaced(self, text: str) -> str:
        for _ in range(_PASSES):
            before = text
            for name, find in self._finders.items():
                spans = find(text)
                if spans:
                    text = "".join(_parts(text, self._allowed(text, spans), f"[{name}]"))
            if text == before:
                break
        return text

    def _allowed(self, text: str, spans: list[_Span]) -> list[_Span]:
        """Those that neither lie in a placeholder nor cut one; a find may hold a whole one."""
        taken = [match.span() for match in self._placeholder.finditer(text)] if "[" in text else []
        if not taken:
            return spans
        edges = {place for start, end in taken for place in range(start + 1, end)}
        return [(start, end) for start, end in spans if start not in edges and end not in edges]


class _Failed(Exception):
    """The host's function failed; it is asked again the next time."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def _hidden(value: Any) -> Any:
    """A secret, whatever it is made of; that there is none, or a switch, is no secret."""
    if isinstance(value, dict):
        return {key: _hidden(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(item) for item in value]
    return value if value is None or value == "" or isinstance(value, bool) else _SECRET


def _finder(pattern: re.Pattern[str]) -> Callable[[str], list[_Span]]:
    return lambda text: [match.span() for match in pattern.finditer(text) if match.end() > match.start()]


def _parts(text: str, spans: Iterable[_Span], placeholder: str) -> Iterator[str]:
    at = 0
    for start, end in spans:
        yield text[at:start]
        yield placeholder
        at = end
    yield text[at:]


def _united(spans: Iterable[_Span]) -> list[_Span]:
    """In order, overlapping ones as one."""
    found: list[_Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _find_keys(text: str) -> list[_Span]:
    """Keys of known makes, JSON web tokens, private keys, values named as secrets, and long random tokens."""
    found = [match.span() for match in _KEYS.finditer(text)]
    found += [match.span(1) for match in _LOGIN.finditer(text)] if "://" in text else []
    found += [span for match in _LABELED_SECRET.finditer(text) if (span := _labeled(text, match)) is not None]
    found += [match.span(1) for match in _BEARER.finditer(text) if _is_credential(match[1])]
    found += [match.span() for match in _TOKEN.finditer(text) if _is_random(match[0])]
    return _united(found)


def names_a_secret(name: str) -> bool:
    """Whether a key of a mapping says that its value is a secret: `db_password`, `apiKey`, `Authorization`."""
    return _NAME.search(name) is not None


def _labeled(text: str, match: re.Match[str]) -> _Span | None:
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


def _find_phones(text: str) -> list[_Span]:
    """The places of telephone numbers, in order, without overlaps."""
    if _DIGIT.search(text) is None:
        return []
    return _united(
        match.span(group)
        for pattern, group, fewest, most in _SHAPES
        for match in pattern.finditer(text)
        if _is_number(match[group], fewest, most)
    )


def _is_number(text: str, fewest: int, most: int) -> bool:
    """Whether the digits are as many as a number has, and are no dates or times of day."""
    count = sum(char.isdigit() for char in text)
    return fewest <= count <= most and _DATE.match(text) is None and _TIMES.fullmatch(text) is None


def _find_emails(text: str) -> list[_Span]:
    """E-mail addresses, found from their @."""
    spans: list[_Span] = []
    position, end = text.find("@"), 0
    while position >= 0:
        domain = _DOMAIN.match(text, position + 1)
        start = _local(text, max(end, position - _LOCAL_LENGTH), position) if domain else position
        if domain and start < position:
            end = domain.end()
            spans.append((start, end))
        position = text.find("@", max(position + 1, end))
    return spans


def _local(text: str, low: int, at: int) -> int:
    start = at
    while start > low and (text[start - 1].isalnum() or text[start - 1] in _LOCAL):
        start -= 1
    while start < at and text[start] in "'.-":
        start += 1
    return start


def _find_cards(text: str) -> list[_Span]:
    """Payment card numbers: of a known issuer and length, grouped as cards are, with a right check digit (Luhn)."""
    return [span for run in _RUN.finditer(text) for span in _cards(text, *run.span())]


def _cards(text: str, start: int, end: int) -> list[_Span]:
    """Cards among groups of digits that follow one another."""
    if end - start < _LENGTHS.start:
        return []
    groups = [(start + match.start(), start + match.end()) for match in re.finditer(r"\d++", text[start:end])]
    found: list[_Span] = []
    first = 0
    while first < len(groups):
        count = next((n for n in (1, 3, 4, 5) if _is_card(text, groups[first : first + n], n)), 0)
        if count:
            found.append((groups[first][0], groups[first + count - 1][1]))
        first += count or 1
    return found


def _is_card(text: str, groups: list[_Span], count: int) -> bool:
    sizes = tuple(end - start for start, end in groups)
    if len(groups) != count or (sizes not in _GROUPED if count > 1 else sizes[0] not in _LENGTHS):
        return False
    between = {text[end] for _, end in groups[:-1]}
    number = "".join(text[start:end] for start, end in groups)
    return len(between) < 2 and _ISSUED.fullmatch(number) is not None and _luhn(number)


def _luhn(number: str) -> bool:
    digits = [int(digit) for digit in reversed(number)]
    return sum(digits[::2] + [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]) % 10 == 0


def _find_ibans(text: str) -> list[_Span]:
    """International bank account numbers with a right checksum (mod 97)."""
    found: list[_Span] = []
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


def _find_ips(text: str) -> list[_Span]:
    """IP addresses; four numbers that a word calls a version or a section, or of one digit each, are none."""
    found: list[_Span] = []
    if "." in text:
        for match in _IPV4.finditer(text):
            found += _ipv4(text, match)
    if ":" in text:
        found += [span for match in _IPV6.finditer(text) if (span := _ipv6(match)) is not None]
    return _united(found)


def _ipv4(text: str, match: re.Match[str]) -> list[_Span]:
    """The places of the address, or of the two ends of a range."""
    ends = [number for number in (1, 2) if match[number]]
    before = text[max(0, match.start() - _BEFORE) : match.start()]
    are_some = all(_is_address(match[each]) and len(match[each]) > len("1.2.3.4") for each in ends)
    return [match.span(each) for each in ends] if are_some and _NUMBERED.search(before) is None else []


def _ipv6(match: re.Match[str]) -> _Span | None:
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
FINDERS: Final[dict[str, Callable[[str], list[_Span]]]] = {
    "key": _find_keys,
    "email": _find_emails,
    "iban": _find_ibans,
    "card": _find_cards,
    "ip": _find_ips,
    "phone": _find_phones,
}
