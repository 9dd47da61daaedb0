"""Folds the store's totals into the series that are exposed: the registry's labels, a bounded number of segments.

Which segments keep their name follows from the order in which the store lists totals (oldest first), so that a series
never moves into `other` later and counters stay monotone over restarts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ragtrace.registry import Instrument
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import Exemplar, Total

__all__ = ["MAX_SEGMENTS", "OTHER", "Folding", "Key", "Point", "fold"]

MAX_SEGMENTS: Final = 50
OTHER: Final = "other"

_PARTS: Final = {"counter": ("",), "histogram": ("_bucket", "_sum"), "gauge": ()}
_SERIES: Final = {
    instrument.name + part: (instrument, part)
    for instrument in INSTRUMENTS.values()
    for part in _PARTS[instrument.kind]
}


class Key(NamedTuple):
    """One exposed series: its instrument, the values of the instrument's labels in order, and for a bucket its `le`."""

    instrument: str
    part: str
    labels: tuple[str, ...]
    le: float | None = None


class Point(NamedTuple):
    """The value of a series and the newest request that is an example of it."""

    value: float
    exemplar: Exemplar | None = None


class Folding(NamedTuple):
    """The series, the (service, segment) pairs that are exposed, and how many segments of each service were folded."""

    series: dict[Key, Point]
    segments: set[tuple[str, str]]
    folded: dict[str, int]


def fold(totals: Sequence[Total], max_segments: int = MAX_SEGMENTS) -> Folding:
    """Sum the totals that become one series. Totals of metrics that the registry no longer has are left out.

    `max_segments`: how many segments of each service keep their name; the others are summed as `other`.
    """
    known = [(total, dict(total.labels)) for total in totals if total.name in _SERIES]
    folded = _fold_segments([labels for _, labels in known], max_segments)
    values: dict[Key, list[float]] = defaultdict(list)
    exemplars: dict[Key, Exemplar] = {}
    for total, labels in known:
        key = _key(*_SERIES[total.name], labels)
        values[key].append(total.value)
        if total.exemplar is not None:
            exemplars[key] = _newer(exemplars.get(key), total.exemplar)
    series = {key: Point(math.fsum(summed), exemplars.get(key)) for key, summed in values.items()}
    segments = {(labels["service"], labels["segment"]) for _, labels in known if "segment" in labels}
    return Folding(series, segments, folded)


def _fold_segments(labelings: Iterable[dict[str, str]], max_segments: int) -> dict[str, int]:
    """Rename, in place, the segments past the first `max_segments` of each service; the number renamed by service."""
    kept: dict[str, set[str]] = defaultdict(set)
    renamed: dict[str, set[str]] = defaultdict(set)
    for labels in labelings:
        if "segment" not in labels:
            continue
        service, segment = labels["service"], labels["segment"]
        if segment == OTHER or segment in kept[service]:
            continue
        if len(kept[service]) < max_segments:
            kept[service].add(segment)
        else:
            renamed[service].add(segment)
            labels["segment"] = OTHER
    return {service: len(renamed[service]) for service in kept}


def _key(instrument: Instrument, part: str, labels: dict[str, str]) -> Key:
    """The series of a total. A label that the total lacks is empty, one that the registry lacks is summed over."""
    values = tuple(labels.get(name, "") for name in instrument.attributes)
    return Key(instrument.id, part, values, float(labels["le"]) if part == "_bucket" else None)


def _newer(known: Exemplar | None, found: Exemplar) -> Exemplar:
    return found if known is None or found.at >= known.at else known
