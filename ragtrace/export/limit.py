"""How many series one scrape shows, and what is left out of more.

First come the families without a service and the numbers of requests, then what alerts watch and the other counters and
gauges, then the histograms that only people look at: whatever is left out, what comes before it is there for every
service. Within a kind, tenants share what is left evenly, and of a tenant the services that got their place first are
shown whole, so that no tenant and no new name takes away what others had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from ragtrace.export.series import Key, Point
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import INSTRUMENTS, REQUESTS
from ragtrace.store.label_budget import namespace

__all__ = ["MAX_SERIES", "Table", "size", "within"]

MAX_SERIES: Final = 100_000
"""How many series a scrape shows; a Prometheus keeps each of them in memory for hours."""

Table: TypeAlias = dict[Key, Point]


def within(tables: Mapping[str, Table], most: int, order: Iterable[str] = ()) -> tuple[dict[str, Table], int]:
    """The series that are shown, by instrument, and how many there are in all.

    most: how many may be shown. order: the services that got their place first, first; then come the others, by name.
    """
    total = sum(map(size, tables.values()))
    if total <= most:
        return dict(tables), total
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for instrument, table in tables.items():
        for key in table:
            counts[_part(INSTRUMENTS[instrument], key)] += _lines(key)
    places = {service: place for place, service in enumerate(order)}
    shown: set[tuple[int, str]] = set()
    left = most
    for tier in sorted({tier for tier, _ in counts}):
        sizes = {service: number for (of, service), number in counts.items() if of == tier}
        given = _shared(sizes, left, places)
        left -= sum(sizes[service] for service in given)
        shown |= {(tier, service) for service in given}
    kept = {
        instrument: {key: point for key, point in table.items() if _part(INSTRUMENTS[instrument], key) in shown}
        for instrument, table in tables.items()
    }
    return kept, total


def size(table: Table) -> int:
    """How many series a table has where it is shown."""
    return sum(map(_lines, table))


def _lines(key: Key) -> int:
    return 2 if key.part == "_sum" else 1  # a histogram's count is shown beside its sum


def _part(instrument: Instrument, key: Key) -> tuple[int, str]:
    """The kind of a series, the most important one first, and its service; nothing is shown or left out but whole."""
    if "service" not in instrument.attributes:
        return 0, ""
    service = key.labels[instrument.attributes.index("service")]
    if instrument.id == REQUESTS.id:
        return 1, service
    return (3 if instrument.kind == "histogram" and instrument.runbook is None else 2), service


def _shared(sizes: Mapping[str, int], left: int, places: Mapping[str, int]) -> list[str]:
    """The services that are shown: the small tenants whole, and of the others as much as an even share holds."""
    tenants: dict[str, list[str]] = defaultdict(list)
    for service in sorted(sizes, key=lambda service: (places.get(service, len(places)), service)):
        tenants[namespace(service)].append(service)
    needs = {tenant: sum(sizes[service] for service in services) for tenant, services in tenants.items()}
    given: list[str] = []
    waiting = len(tenants)
    for tenant in sorted(tenants, key=lambda tenant: (needs[tenant], tenant)):
        share = left // waiting
        waiting -= 1
        for service in tenants[tenant]:
            if sizes[service] <= share:
                given.append(service)
                share -= sizes[service]
                left -= sizes[service]
    return given
