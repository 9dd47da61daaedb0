"""How times, spans, shares and names are written in a triage report."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from ragtrace.triage.report import Tally

__all__ = ["clock", "counted", "percent", "plain", "span", "written"]

_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
_UNSAFE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # and what turns lines round


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


def counted(tally: Tally) -> str:
    """`17 of 32 bad (53 %)`."""
    return f"{tally.bad} of {tally.known} bad ({percent(tally.share)})" if tally.known else "no request tells"


def plain(text: str) -> str:
    """A text of the host on one line, without control characters."""
    return " ".join(_UNSAFE.sub("", text).split())
