"""How times, spans, shares and names are written in a triage report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from shlex import quote
from typing import Final

from ragtrace.controls import UNSAFE, harmless
from ragtrace.triage.report import Tally, UnjudgedState

__all__ = [
    "UNJUDGED",
    "by_gold",
    "clock",
    "counted",
    "joined",
    "judge_command",
    "percent",
    "plain",
    "shortened",
    "show_command",
    "span",
    "written",
]

UNJUDGED: Final[dict[UnjudgedState, str]] = {"doubted": "in doubt", "not_known": "not known"}
"""The words for what no single request proves."""

_LONGEST: Final = 400  # characters; the whole stands in `ragtrace show`
_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def written(nanoseconds: int) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    at = datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(iso: str) -> str:
    """A written time for people: `11-21 10:04:30Z`."""
    return f"{iso[5:10]} {iso[11:19]}Z"


def span(seconds: float) -> str:
    """A span of time in its largest fitting unit."""
    size = abs(seconds)
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.3g} s"


def percent(share: float | None) -> str:
    """A share as people read it."""
    if share is None:
        return "-"
    return f"{share * 100:.{1 if share < 0.1 else 0}f}".removesuffix(".0") + " %"


def counted(tally: Tally, what: str = "broken") -> str:
    """`17 of 32 broken (53 %)`, or `(31 % of the traffic)` where the requests were not all kept at one rate."""
    if not tally.of:
        return "no request is judged"
    share = percent(tally.share)
    of = "" if share == percent(tally.count / tally.of) else " of the traffic"
    return f"{tally.count:,} of {tally.of:,} {what} ({share}{of})"


def joined(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def by_gold(gold: bool) -> str:
    """By what evidence requests were judged."""
    return "with gold evidence" if gold else "without gold evidence"


def plain(text: str) -> str:
    """A text of the host on one line, without control characters."""
    return " ".join(harmless(text).split())


def shortened(text: str) -> str:
    """A text of the host that may be as long as a document, cut so that what is to be done stays in sight."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def show_command(request_id: str, store: str | None = None) -> str:
    """What shows a request, as a shell takes it: an id may be any text. store: where it is, if that is to be said."""
    word, named = _word(request_id), f" --store {quote(store)}" if store else ""
    return f"ragtrace show{named} -- {word}" if request_id.startswith("-") else f"ragtrace show {word}{named}"


def judge_command(
    judgment: str, *, service: str, segment: str, stage: str, severity: str, at: str, store: str | None = None
) -> str:
    """What says whether an alert was right, as a shell takes it. at: when it began to fire."""
    given = {"service": service, "segment": segment, "stage": stage, "severity": severity, "at": at, "store": store}
    options = [f"--{name}={_word(value)}" for name, value in given.items() if value]
    return " ".join(["ragtrace triage judge", judgment, *options])


def _word(text: str) -> str:
    """A text as one word of a shell; what cannot be printed is written as bash and zsh read it."""
    if plain(text) == text:
        return quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return f"\\u{ord(char):04x}" if UNSAFE.match(char) or (char.isspace() and char != " ") else char
