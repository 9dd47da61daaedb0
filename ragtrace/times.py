"""Times as people give them, and how they are shown."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from ragtrace.errors import ConfigurationError

__all__ = ["TIMES", "parse_span", "parse_time", "shown_span", "shown_time", "written_time"]

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
