"""Renders what the store holds as Prometheus metric families: names, help, units and labels come from the registry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Exemplar as PrometheusExemplar

from ragtrace.export.limit import MAX_SERIES, Table, size, within
from ragtrace.export.series import Budget, Key, Point, fold, zeros
from ragtrace.export.snapshot import Snapshot, fault_counts, gauges
from ragtrace.registry import UNIT_NAMES, Instrument
from ragtrace.registry.instruments import EXPOSITION_DROPPED, EXPOSITION_SERIES, INSTRUMENTS
from ragtrace.store import Exemplar
from ragtrace.store.totals import bound

__all__ = ["families"]

_EXEMPLAR_CHARACTERS: Final = 128  # OpenMetrics 1.0: the limit on an exemplar's label names and values together


def families(held: Snapshot, budget: Budget | None = None, max_series: int = MAX_SERIES) -> Iterator[Metric]:
    """Every metric family of the registry, in the registry's order; those without a series are left out.

    budget: names what senders name, and knows afterwards what got a place; None: `held`'s own. max_series: how many
    series are shown; of more the least important ones are left out (`ragtrace.export.limit`).
    """
    names = held.budget() if budget is None else budget
    folding = fold(held.totals, names)
    points = {**zeros(folding), **folding.series, **_faults(held)}
    tables: dict[str, Table] = defaultdict(dict)
    for key, point in points.items():
        tables[key.instrument][key] = point
    for gauge, values in gauges(held, names).items():
        tables[gauge] |= {Key(gauge, "", labels): Point(value) for labels, value in values.items()}
    tables, total = within(tables, max_series, names.services)
    left = total - sum(map(size, tables.values()))
    tables[EXPOSITION_SERIES.id] = {Key(EXPOSITION_SERIES.id, "", ()): Point(total - left + 2)}
    tables[EXPOSITION_DROPPED.id] = {Key(EXPOSITION_DROPPED.id, "", ()): Point(left)}
    for instrument in INSTRUMENTS.values():
        if table := tables.get(instrument.id):
            yield _BUILD[instrument.kind](instrument, dict(sorted(table.items())))


def _faults(held: Snapshot) -> dict[Key, Point]:
    counts = fault_counts(held.faults)
    return {Key(instrument, "", (label,)): Point(count) for (instrument, label), count in counts.items()}


def _gauge(instrument: Instrument, points: Mapping[Key, Point]) -> Metric:
    family = GaugeMetricFamily(instrument.name, instrument.brief, labels=instrument.attributes, unit=_unit(instrument))
    for key, point in points.items():
        family.add_metric(key.labels, point.value)
    return family


def _counter(instrument: Instrument, points: Mapping[Key, Point]) -> Metric:
    family = CounterMetricFamily(
        instrument.name, instrument.brief, labels=instrument.attributes, unit=_unit(instrument)
    )
    for key, point in points.items():
        family.add_metric(key.labels, point.value, exemplar=_exemplar(point.exemplar))
    return family


def _histogram(instrument: Instrument, points: Mapping[Key, Point]) -> Metric:
    family = HistogramMetricFamily(
        instrument.name, instrument.brief, labels=instrument.attributes, unit=_unit(instrument)
    )
    for labels in sorted({key.labels for key in points}):
        bounds = (*instrument.buckets, float("inf"))
        held = [points.get(Key(instrument.id, "_bucket", labels, le), Point(0.0)) for le in bounds]
        # A bound that the registry gained later has seen less than the one below it: raise it, buckets are cumulative.
        values = accumulate((point.value for point in held), max)
        buckets = [_bucket(*bucket) for bucket in zip(bounds, values, held, strict=True)]
        family.add_metric(labels, buckets, points.get(Key(instrument.id, "_sum", labels), Point(0.0)).value)
    return family


def _bucket(le: float, value: float, point: Point) -> tuple[str, float] | tuple[str, float, PrometheusExemplar]:
    exemplar = _exemplar(point.exemplar)
    return (bound(le), value) if exemplar is None else (bound(le), value, exemplar)


def _exemplar(exemplar: Exemplar | None) -> PrometheusExemplar | None:
    if exemplar is None or len("trace_id") + len(exemplar.trace_id) > _EXEMPLAR_CHARACTERS:
        return None
    return PrometheusExemplar({"trace_id": exemplar.trace_id}, exemplar.value, exemplar.at)


_BUILD: Final = {"gauge": _gauge, "counter": _counter, "histogram": _histogram}


def _unit(instrument: Instrument) -> str:
    return UNIT_NAMES.get(instrument.unit, "")
