"""The series that are exposed: the store's totals, under the registry's labels and few values of them, with the zeros
from which counters grow.

A value of a label gets its place in the transaction that counts it first; the exporter gives those that only gauges
have. So no later value, no restart and no clock moves a series into `other`, where its count would look like an
increase. Of the judges of a service the last two are exposed; an earlier one has ended, and does not come back.

Of more series than one scrape shows, first come the families without a service and the numbers of requests, then what
alerts watch and the other counters and gauges, then the histograms that only people look at: whatever is left out, what
comes before it is there for every service. Within a kind, tenants share what is left evenly, and of a tenant the
services that got their place first are shown whole, so that no tenant and no new name takes away what others had.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from ragtrace.analyze import judge_id
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import (
    ATTRIBUTES,
    BUDGETS,
    INSTRUMENTS,
    LABEL_FOLDS,
    LATE_EVALUATIONS,
    OUTCOMES,
    PAGE_JUDGMENTS,
    REQUESTS,
    SLI_DISTANT_REQUESTS,
    SLI_DOUBTED_REQUESTS,
    SLI_GOOD_REQUESTS,
    SLI_REQUESTS,
    SLI_UNJUDGED_REQUESTS,
    STAGES,
)
from ragtrace.store import Exemplar, Total
from ragtrace.store.totals import INNER, LIMITS, OTHER, Place, namespace, places, shown

__all__ = [
    "MAX_JUDGES",
    "MAX_SERIES",
    "Folding",
    "Key",
    "SeriesBudget",
    "SeriesValue",
    "Table",
    "fold",
    "series_count",
    "within",
    "zeros",
]

MAX_JUDGES: Final = 2

_Labels: TypeAlias = Mapping[str, str]
_PARTS: Final = {"counter": ("",), "histogram": ("_bucket", "_sum"), "gauge": ()}
_SERIES: Final = {
    instrument.name + part: (instrument, part)
    for instrument in INSTRUMENTS.values()
    for part in _PARTS[instrument.kind]
}
_STATES_OF_STAGES: Final = tuple(
    product([stage.name for stage in STAGES], *(ATTRIBUTES[name] for name in ("scope", "stratum", "reference")))
)
MAX_SERIES: Final = 100_000
"""How many series a scrape shows; a Prometheus keeps each of them in memory for hours."""


class SeriesBudget:
    """Names the values of labels as they count: those that have a place, and as many more as the label's budget leaves.

    Args:
        known: by label and service (of services: by tenant), the values that have a place.

    `new` holds the places of values that count nowhere, such as those of gauges; `services` has those with a place, of
    each tenant the first one first.
    """

    def __init__(self, known: Mapping[tuple[str, str], Sequence[str]] | None = None) -> None:
        self._named = {key: set(values) for key, values in (known or {}).items()}
        self.new: list[Place] = []
        self._services: dict[str, str] = {}
        self.services = tuple(name for key, values in (known or {}).items() if key[0] == "service" for name in values)

    def named(self, label: str, service: str, value: str) -> str:
        """`value`, or `other` where the service's places for this label are taken."""
        return value if label not in BUDGETS or self._has((label, service, value)) else OTHER

    def service(self, service: str) -> str:
        """A service by the name under which it counts."""
        if service not in self._services:
            self._services[service] = shown(service, {place for place in places(service) if self._has(place)})
        return self._services[service]

    def _has(self, place: Place) -> bool:
        label, of, value = place
        named = self._named.setdefault((label, of), set())
        if value not in named and value != OTHER and len(named) < LIMITS[label]:
            named.add(value)
            self.new.append(place)
        return value in named


class Key(NamedTuple):
    """One exposed series: its instrument, the values of the instrument's labels in order, and for a bucket its `le`."""

    instrument: str
    part: str
    labels: tuple[str, ...]
    le: float | None = None


class SeriesValue(NamedTuple):
    """The value of a series and the newest request that is an example of it."""

    value: float
    exemplar: Exemplar | None = None


class Folding(NamedTuple):
    """The series, the (service, segment) pairs of requests, and by service the judges that are exposed."""

    series: dict[Key, SeriesValue]
    segments: set[tuple[str, str]]
    judges: Mapping[str, tuple[str, ...]]


def fold(totals: Sequence[Total], budget: SeriesBudget) -> Folding:
    """Sum the totals that become one series.

    totals: in the order in which they first appeared. Left out are those of metrics that the registry no longer has,
    and those of all judges of a service but the last `MAX_JUDGES`.
    """
    known = [(total, dict(total.labels)) for total in totals if total.name in _SERIES]
    judges = _live_judges(labels for _, labels in known)
    values: dict[Key, list[float]] = defaultdict(list)
    exemplars: dict[Key, Exemplar] = {}
    segments: set[tuple[str, str]] = set()
    for total, labels in known:
        if "judge" in labels and labels["judge"] not in judges[labels["service"]]:
            continue
        if "service" in labels:
            labels["service"] = budget.service(labels["service"])
            labels |= {label: budget.named(label, labels["service"], labels[label]) for label in INNER & labels.keys()}
        key = _key(*_SERIES[total.name], labels)
        values[key].append(total.value)
        if total.exemplar is not None:
            exemplars[key] = _newer(exemplars.get(key), total.exemplar)
        if "segment" in labels and key.instrument != PAGE_JUDGMENTS.id:
            segments.add((labels["service"], labels["segment"]))
    series = {key: SeriesValue(math.fsum(summed), exemplars.get(key)) for key, summed in values.items()}
    return Folding(series, segments, judges)


def _live_judges(labelings: Iterable[_Labels]) -> dict[str, tuple[str, ...]]:
    """By service, the judges that appeared last, in the order in which they did."""
    appeared: dict[str, dict[str, None]] = defaultdict(dict)
    for labels in labelings:
        if "judge" in labels:
            appeared[labels["service"]].setdefault(labels["judge"])
    return {service: tuple(judges)[-MAX_JUDGES:] for service, judges in appeared.items()}


def _key(instrument: Instrument, part: str, labels: _Labels) -> Key:
    """The series of a total. A label that the total lacks is empty, one that the registry lacks is summed over."""
    values = tuple(labels.get(name, "") for name in instrument.attributes)
    return Key(instrument.id, part, values, float(labels["le"]) if part == "_bucket" else None)


def _newer(known: Exemplar | None, found: Exemplar) -> Exemplar:
    return found if known is None or found.at >= known.at else known


def zeros(folding: Folding) -> dict[Key, SeriesValue]:
    """The counters that stand at 0 before they count: one that first appears at 1 has no increase in PromQL.

    Sound, judged and doubted requests, for every known segment, stage, scope, stratum and reference, with the judges of
    the service, or with today's rules where none has judged yet; answers far from their questions likewise, by the
    judges that have told of any. Requests that were not judged, for every known segment
    and judge, with the states and reasons that the service has shown in any. Each result of what people judged.
    """
    counted: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for key in folding.series:
        counted[key.instrument].add(key.labels)
    pairs = counted[SLI_REQUESTS.id] | counted[SLI_GOOD_REQUESTS.id]
    unjudged: set[tuple[str, ...]] = set()
    shown: dict[str, set[tuple[tuple[str, ...], tuple[str, ...]]]] = defaultdict(set)
    for service, _, *stage, _, state, reason in counted[SLI_UNJUDGED_REQUESTS.id]:
        shown[service].add((tuple(stage), (state, reason)))
    for service, segment in folding.segments:
        judges = folding.judges.get(service) or (judge_id(),)
        pairs |= {(service, segment, *stage, judge) for stage in _STATES_OF_STAGES for judge in judges}
        unjudged |= {
            (service, segment, *stage, judge, *why) for stage, why in shown.get(service, ()) for judge in judges
        }
    keys = {Key(one.id, "", labels) for one in (SLI_REQUESTS, SLI_GOOD_REQUESTS) for labels in pairs}
    keys |= {Key(SLI_UNJUDGED_REQUESTS.id, "", labels) for labels in unjudged}
    keys |= {Key(SLI_DOUBTED_REQUESTS.id, "", (*labels[:3], *labels[4:])) for labels in pairs}  # without the scope
    reading = {(labels[0], labels[2], labels[-1]) for labels in counted[SLI_DISTANT_REQUESTS.id]}
    keys |= {
        Key(SLI_DISTANT_REQUESTS.id, "", (*labels[:3], *labels[4:]))
        for labels in pairs
        if (labels[0], labels[2], labels[-1]) in reading
    }
    keys |= {Key(LATE_EVALUATIONS.id, "", segment) for segment in folding.segments}
    keys |= {Key(LABEL_FOLDS.id, "", (label,)) for label in ATTRIBUTES["label"]}
    for one, label in ((OUTCOMES, "result"), (PAGE_JUDGMENTS, "judgment")):
        judged = {labels[:-1] for labels in counted[one.id]}
        keys |= {Key(one.id, "", (*labels, value)) for labels in judged for value in ATTRIBUTES[label]}
    return dict.fromkeys(keys, SeriesValue(0.0))


Table: TypeAlias = dict[Key, SeriesValue]


def within(tables: Mapping[str, Table], most: int, order: Iterable[str] = ()) -> tuple[dict[str, Table], int]:
    """The series that are shown, by instrument, and how many there are in all.

    most: how many may be shown. order: the services that got their place first, first; then come the others, by name.
    """
    total = sum(map(series_count, tables.values()))
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


def series_count(table: Table) -> int:
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
