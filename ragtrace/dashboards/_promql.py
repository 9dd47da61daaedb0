"""PromQL over instruments of the registry, with the variables and the releases that every dashboard has."""

from __future__ import annotations

from typing import Final

from ragtrace.registry import Instrument
from ragtrace.registry.instruments import RELEASE_TIMESTAMP, REQUESTS

__all__ = [
    "ANY",
    "KNOWN_RELEASES",
    "RANGE",
    "RELEASES",
    "TRACE_URL",
    "VARIABLES",
    "VARIABLE_QUERIES",
    "WINDOW",
    "gained",
    "increase",
    "mean",
    "mean_over_range",
    "quantile",
    "rate",
    "selector",
    "share",
    "share_upto",
]

WINDOW: Final = "$__rate_interval"
RANGE: Final = "$__range"

VARIABLES: Final = ("service", "segment", "stratum")
"""Labels that a person chooses; every query over an instrument that has them follows the choice."""

ANY: Final = ".*"
"""The pattern behind the choice "All"."""

VARIABLE_QUERIES: Final = {
    "service": f"label_values({REQUESTS.name}, service)",
    "segment": f'label_values({REQUESTS.name}{{service=~"$service"}}, segment)',
}
"""Where the values of a variable come from; each may use the variables before it."""

TRACE_URL: Final = "http://localhost:16686/trace/"
"""Where a trace is shown, up to its id: Jaeger on this machine, unless a person says otherwise."""


def selector(instrument: Instrument, part: str = "", **labels: str) -> str:
    """The series of the instrument that the variables choose; a label's value that starts with `~` is a pattern."""
    chosen = [f'{name}=~"${name}"' for name in VARIABLES if name in instrument.attributes and name not in labels]
    given = [f'{name}=~"{value[1:]}"' if value[:1] == "~" else f'{name}="{value}"' for name, value in labels.items()]
    matchers = ",".join(chosen + given)
    return f"{instrument.name}{part}{{{matchers}}}" if matchers else f"{instrument.name}{part}"


def rate(
    instrument: Instrument, *by: str, part: str = "", window: str = WINDOW, offset: str = "", **labels: str
) -> str:
    """Increase per second, summed by labels; `offset` ago where one is given."""
    ago = f" offset {offset}" if offset else ""
    return f"sum{_grouping(by)} (rate({selector(instrument, part, **labels)}[{WINDOW}]{ago}))"


def gained(counters: Instrument | tuple[Instrument, ...], *by: str, **labels: str) -> str:
    """How much counters gained in the range while they were scraped, summed by labels: for counts that people read.

    `increase` would take a few scrapes to speak for the time around them; it answers where a counter began anew. Of
    several counters no two have a series of the same labels.
    """
    each: list[str] = []
    for one in _listed(counters):
        scraped = f"{selector(one, **labels)}[{RANGE}]"
        exact = f"last_over_time({scraped}) - min_over_time({scraped}) unless resets({scraped}) > 0"
        each.append(f"({exact}) or increase({scraped})")
    return f"sum{_grouping(by)} ({' or '.join(each)})"


def increase(
    counters: Instrument | tuple[Instrument, ...], *by: str, part: str = "", window: str = RANGE, **labels: str
) -> str:
    """Increase over the window, summed by labels: for shares, and for what is drawn over time. Of several counters no
    two have a series of the same labels."""
    each = (f"increase({selector(one, part, **labels)}[{window}])" for one in _listed(counters))
    return f"sum{_grouping(by)} ({' or '.join(each)})"


def _listed(counters: Instrument | tuple[Instrument, ...]) -> tuple[Instrument, ...]:
    return (counters,) if isinstance(counters, Instrument) else counters


def _grouping(by: tuple[str, ...]) -> str:
    return f" by ({', '.join(by)})" if by else ""


def share(part: str, whole: str, on: str | None = None) -> str:
    """One over another, where there is any. on: labels by which many parts have one whole."""
    matching = "" if on is None else f"on ({on}) group_left () "
    return f"{part} / {matching}({whole} > 0)"


def mean(histogram: Instrument, *by: str, offset: str = "", **labels: str) -> str:
    """Mean of what a histogram observed, over time; `offset` ago where one is given."""
    total = rate(histogram, *by, part="_sum", offset=offset, **labels)
    return share(total, rate(histogram, *by, part="_count", offset=offset, **labels))


def mean_over_range(histogram: Instrument, *by: str, **labels: str) -> str:
    """Mean of all that a histogram observed in the range."""
    return share(increase(histogram, *by, part="_sum", **labels), increase(histogram, *by, part="_count", **labels))


def quantile(q: float, histogram: Instrument, *by: str) -> str:
    """Estimated quantile of what a histogram observed."""
    return f"histogram_quantile({q:g}, {rate(histogram, 'le', *by, part='_bucket')})"


def share_upto(histogram: Instrument, bound: float, *by: str, of: Instrument | None = None) -> str:
    """Share of the observations that do not exceed a bucket's bound; `of`: another histogram's count below the line."""
    within = rate(histogram, *by, part="_bucket", le=_bound(bound))
    return share(within, rate(of or histogram, *by, part="_count"))


def _bound(value: float) -> str:
    """A pattern for the label `le`, which is written `1.0` or `1` as the scraper likes it."""
    whole = f"{value:g}".replace(".", r"\\.")
    return f"~{whole}" if "." in whole else rf"~{whole}(\\.0)?"


KNOWN_RELEASES: Final = (
    f"1000 * max by (service, component, version) (last_over_time({selector(RELEASE_TIMESTAMP)}[{RANGE}]))"
)
"""Every release that was exported in the range, as its time in milliseconds, also while the exporter is away."""

RELEASES: Final = f"{KNOWN_RELEASES} >= ${{__from}}"
"""The releases of the range itself, which are the places of the annotations; `changes()` would miss the first one."""
