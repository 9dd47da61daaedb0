"""Folds the store's totals into the series that are exposed: the registry's labels, with few values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from ragtrace.export.budget import Budget
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import Exemplar, Total

__all__ = ["FOLDED", "Folding", "Key", "Point", "fold"]

FOLDED: Final = frozenset({"segment", "source"})
"""The labels whose values are the host's, so that their number is bounded here."""

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
    """The series, and the (service, segment) pairs that are exposed."""

    series: dict[Key, Point]
    segments: set[tuple[str, str]]


def fold(totals: Sequence[Total], budget: Budget) -> Folding:
    """Sum the totals that become one series. Totals of metrics that the registry no longer has are left out."""
    known = [(total, dict(total.labels)) for total in totals if total.name in _SERIES]
    values: dict[Key, list[float]] = defaultdict(list)
    exemplars: dict[Key, Exemplar] = {}
    segments: set[tuple[str, str]] = set()
    for total, labels in known:
        for label in FOLDED.intersection(labels):
            labels[label] = budget.named(label, labels.get("service", ""), labels[label])
        key = _key(*_SERIES[total.name], labels)
        values[key].append(total.value)
        if total.exemplar is not None:
            exemplars[key] = _newer(exemplars.get(key), total.exemplar)
        if "segment" in labels:
            segments.add((labels["service"], labels["segment"]))
    series = {key: Point(math.fsum(summed), exemplars.get(key)) for key, summed in values.items()}
    return Folding(series, segments)


def _key(instrument: Instrument, part: str, labels: dict[str, str]) -> Key:
    """The series of a total. A label that the total lacks is empty, one that the registry lacks is summed over."""
    values = tuple(labels.get(name, "") for name in instrument.attributes)
    return Key(instrument.id, part, values, float(labels["le"]) if part == "_bucket" else None)


def _newer(known: Exemplar | None, found: Exemplar) -> Exemplar:
    return found if known is None or found.at >= known.at else known
