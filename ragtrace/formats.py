"""Formats for people: times as they give them and as they are shown, spans, shares, lists of names, texts of the host
on one line, commands as a shell takes them, and Markdown.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Final

from ragtrace.errors import ConfigurationError
from ragtrace.safe_text import UNSAFE, harmless

__all__ = [
    "TIMES",
    "clock",
    "code",
    "escaped",
    "joined",
    "named_services",
    "parse_span",
    "parse_time",
    "percent",
    "plain",
    "shell_word",
    "shortened",
    "show_command",
    "shown_span",
    "shown_time",
    "table",
    "written_time",
]

TIMES: Final = "`2026-11-21T10:00Z`, `2h ago` or `now`"
"""How a time may be given, for the help of an option."""

_ALLOWED: Final = (
    "a time with its zone (2026-11-21T10:00Z, 2026-11-21T10:00+01:00) or how long ago it was (90s, 30m ago, 2h ago, 7d)"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000_000
_AHEAD: Final = 300 * _SECOND  # clocks of two machines may differ by that
_LONGEST: Final = 100 * 366 * 86_400  # seconds
_WORDS: Final = {
    "s sec secs second seconds": 1, "m min mins minute minutes": 60, "h hour hours": 3_600,
    "d day days": 86_400, "w week weeks": 604_800,
}  # fmt: skip
_UNITS: Final = {word: seconds for words, seconds in _WORDS.items() for word in words.split()}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_NAMED: Final = 5  # services that a message names
_LONGEST_TEXT: Final = 400  # characters; the whole stands in `ragtrace show`
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|!~]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
_MENTION: Final = re.compile(r"@(?=\w)")


def parse_time(option: str, text: str, now: int | None = None) -> int:
    """Nanoseconds since the epoch. `option` is named in the error; `now` is the present, in the same unit.

    Raises: ConfigurationError for a text that is no time, a time without its zone, and one in the future.
    """
    present = time.time_ns() if now is None else now
    words = text.strip().casefold()
    at = present if words == "now" else _before(present, words)
    if at is None:
        at = _stated(option, text)
    if at < -(2**63):
        raise ConfigurationError.of(option, text, "a time from 1678 on")
    if at > present + _AHEAD:
        raise ConfigurationError.of(option, text, "a time that has passed: it lies in the future")
    return at


def parse_span(option: str, text: str) -> float:
    """A span of time in seconds: `90s`, `30m`, `12h`, `30d`, `8 weeks`. Raises: ConfigurationError."""
    seconds = _span(text.strip().casefold())
    if seconds is None:
        raise ConfigurationError.of(option, text, "a span of time up to a hundred years: 90s, 30m, 12h, 30d, 8w")
    return seconds


def _before(present: int, words: str) -> int | None:
    seconds = _span(words.removesuffix(" ago").rstrip())
    return None if seconds is None else present - round(seconds * _SECOND)


def _span(words: str) -> float | None:
    found = _SPAN.fullmatch(words)
    unit = _UNITS.get(found.group(2)) if found else None
    if found is None or unit is None or float(found.group(1)) * unit > _LONGEST:
        return None
    return float(found.group(1)) * unit


def _stated(option: str, text: str) -> int:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigurationError.of(option, text, _ALLOWED) from None
    if at.tzinfo is None:
        raise ConfigurationError.of(option, text, f"its zone too: {text.strip()}Z for UTC" if "T" in text else _ALLOWED)
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000


def shown_time(nanoseconds: int) -> str:
    """A time for people, in UTC."""
    return f"{_EPOCH + timedelta(microseconds=nanoseconds // 1_000):%Y-%m-%d %H:%M:%SZ}"


def written_time(nanoseconds: int) -> str:
    """A time in JSON, ISO 8601 in UTC."""
    at = _EPOCH + timedelta(microseconds=nanoseconds // 1_000)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown_span(seconds: float) -> str:
    """A span of time in its largest fitting unit: `45 s`, `12 min`, `3.5 h`, `8 d`."""
    for name, unit, least in (("d", 86_400, 2), ("h", 3_600, 1), ("min", 60, 2)):
        if seconds >= least * unit:
            return f"{_digits(seconds / unit)} {name}"
    return f"{_digits(seconds)} s"


def _digits(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def clock(iso: str) -> str:
    """A written time for people: `11-21 10:04:30Z`."""
    return f"{iso[5:10]} {iso[11:19]}Z"


def percent(share: float | None) -> str:
    """A share as people read it."""
    if share is None:
        return "-"
    return f"{share * 100:.{1 if share < 0.1 else 0}f}".removesuffix(".0") + " %"


def joined(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def named_services(services: Sequence[str]) -> str:
    """The first few services that a store has, for a message: `'a', 'b' ...`."""
    names = ", ".join(repr(plain(name)) for name in services[:_NAMED]) or "none"
    return f"{names}{' ...' if services[_NAMED:] else ''}"


def plain(text: str) -> str:
    """A text of the host on one line, without control characters."""
    return " ".join(harmless(text).split())


def shortened(text: str) -> str:
    """A text of the host that may be as long as a document, cut so that what is to be done stays in sight."""
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def show_command(request_id: str, store: str | None = None) -> str:
    """What shows a request, as a shell takes it: an id may be any text. store: where it is, if that is to be said."""
    word, named = shell_word(request_id), f" --store {quote(store)}" if store else ""
    return f"ragtrace show{named} -- {word}" if request_id.startswith("-") else f"ragtrace show {word}{named}"


def shell_word(text: str) -> str:
    """A text as one word of a shell; what cannot be printed is written as bash and zsh read it."""
    if plain(text) == text:
        return quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return f"\\u{ord(char):04x}" if UNSAFE.match(char) or (char.isspace() and char != " ") else char


def escaped(text: str) -> str:
    """A text that shows as it is, and calls nobody: `@everyone` has a mark without width behind its @."""
    return _MENTION.sub("@\u200b", _SPECIAL.sub(r"\\\1", plain(text)))


def code(text: str) -> str:
    """A text as code, whatever back-quotes it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{plain(text)}{space}{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table whose cells are escaped."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(escaped(cell) for cell in row) + " |"
