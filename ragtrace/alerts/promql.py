"""PromQL that several rules share, and the names of the recorded series."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from ragtrace.alerts.durations import Duration
from ragtrace.alerts.settings import BurnRate

__all__ = [
    "BUDGET",
    "BY_INDICATOR",
    "BY_REFERENCE",
    "Pattern",
    "bad_ratio",
    "burning",
    "either",
    "increase",
    "page_burning",
    "quoted",
    "requests",
    "selector",
    "wilson",
]

BY_INDICATOR: Final = "service, segment, metric"
BY_REFERENCE: Final = "service, segment, metric, reference"
BUDGET: Final = "ragtrace:sli:budget"


class Pattern(str):
    """A regular expression in the place of a label's value."""

    __slots__ = ()


def requests(window: Duration) -> str:
    """The recorded number of requests of an indicator."""
    return f"ragtrace:sli_requests:increase{window.name}"


def bad_ratio(window: Duration) -> str:
    """The recorded share of them that was bad."""
    return f"ragtrace:sli_bad:ratio_rate{window.name}"


def wilson(window: Duration) -> str:
    """The recorded lower bound of that share."""
    return f"ragtrace:sli_bad:wilson{window.name}"


def burning(burn_rate: BurnRate) -> str:
    """The recorded bound of what burns on both windows of a pair."""
    return f"ragtrace:sli_burning:{burn_rate.name}"


def page_burning() -> str:
    """The recorded bound of what burns fast enough for a page."""
    return "ragtrace:sli_burning:page"


def quoted(text: str) -> str:
    """A string of PromQL."""
    return json.dumps(text, ensure_ascii=False)


def selector(name: str, labels: Mapping[str, str] | None = None, **more: str) -> str:
    """A series by its labels. A value is a literal, whatever stands in it, unless it is a `Pattern`."""
    written = []
    for label, value in {**(labels or {}), **more}.items():
        operator = "=~" if isinstance(value, Pattern) else "="
        written.append(f"{label}{operator}{quoted(value)}")
    return f"{name}{{{', '.join(written)}}}" if written else name


def increase(name: str, window: Duration, past: str = "", *, by: str, labels: Mapping[str, str] | None = None) -> str:
    """How much a counter has risen in a window, summed; `past` is an offset."""
    return f"sum by ({by}) (increase({selector(name, labels)}[{window}]{past}))"


def either(*alternatives: str) -> str:
    """Any of the expressions, each on lines of its own."""
    return "\nor\n".join(alternatives)
