"""Renders what the store holds as Prometheus metric families: names, help, units and labels come from the registry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from itertools import accumulate, product
from typing import Final, NamedTuple, TypeAlias

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Exemplar as PrometheusExemplar

from ragtrace.export.series import MAX_SEGMENTS, Folding, Key, Point, fold
from ragtrace.registry import UNIT_NAMES, Instrument
from ragtrace.registry.instruments import (
    ANALYZER_LAST_SUCCESS,
    ATTRIBUTES,
    ATTRIBUTION_JOBS,
    BUILD_INFO,
    FOLDED_SEGMENTS,
    INSTRUMENTS,
    INTERNAL_ERRORS,
    LATE_EVALUATIONS,
    QUEUE_JOBS,
    RELEASE_TIMESTAMP,
    SLI_GOOD_REQUESTS,
    SLI_REQUESTS,
)
from ragtrace.store import ATTRIBUTION, Exemplar, JobState, Release, Store, Total
from ragtrace.store.totals import bound
from ragtrace.types import Fault

__all__ = ["MAX_RELEASES", "Snapshot", "families", "snapshot"]

MAX_RELEASES: Final = 20
"""How many releases of one component of one service are shown, newest first."""

_EXEMPLAR_CHARACTERS: Final = 128  # OpenMetrics 1.0: the limit on an exemplar's label names and values together

Labels: TypeAlias = tuple[str, ...]


class Snapshot(NamedTuple):
    """All of the store that is exposed; its size depends on the number of series, not on the number of requests."""

    totals: Sequence[Total] = ()
    releases: Sequence[Release] = ()
    last_success: Mapping[str, float] = {}
    jobs: Mapping[JobState, int] = {}
    faults: Sequence[Fault] = ()
    explanations: Mapping[JobState, int] = {}


def snapshot(store: Store) -> Snapshot:
    """Read what is exposed.

    Raises: StoreError when the store cannot be read.
    """
    return Snapshot(
        store.totals(),
        store.releases(),
        store.last_success(),
        store.queue_depth(),
        store.faults(),
        store.queue_depth(ATTRIBUTION),
    )


def families(held: Snapshot, max_segments: int = MAX_SEGMENTS) -> Iterator[Metric]:
    """Every metric family of the registry, in the registry's order; those without a series are left out."""
    folding = fold(held.totals, max_segments)
    points = {**_zeros(folding), **folding.series, **_faults(held.faults)}
    by_instrument: dict[str, dict[Key, Point]] = defaultdict(dict)
    for key, point in sorted(points.items(), key=lambda item: item[0]):
        by_instrument[key.instrument][key] = point
    gauges = _gauges(held, folding)
    for instrument in INSTRUMENTS.values():
        if gauges.get(instrument.id):
            yield _gauge(instrument, gauges[instrument.id])
        elif instrument.id in by_instrument:
            build = _counter if instrument.kind == "counter" else _histogram
            yield build(instrument, by_instrument[instrument.id])


def _zeros(folding: Folding) -> dict[Key, Point]:
    """Good and total counters at 0 for every known segment, and a good counter beside every total one.

    A counter that first appears at 1 has no increase in PromQL, and one that never appears no ratio.
    """
    labelings = {key.labels for key in folding.series if key.instrument in (SLI_REQUESTS.id, SLI_GOOD_REQUESTS.id)}
    for service, segment in folding.segments:
        labelings |= {(service, segment, *rest) for rest in _SLI_LABELS}
    zeros = {Key(one.id, "", labels) for one in (SLI_REQUESTS, SLI_GOOD_REQUESTS) for labels in labelings}
    zeros |= {Key(LATE_EVALUATIONS.id, "", segment) for segment in folding.segments}
    return dict.fromkeys(zeros, Point(0.0))


_SLI_LABELS: Final = tuple(
    product(
        [instrument.sli.name for instrument in INSTRUMENTS.values() if instrument.sli is not None],
        *(ATTRIBUTES[name] for name in ("scope", "stratum", "reference")),
    )
)


def _faults(faults: Iterable[Fault]) -> dict[Key, Point]:
    counts: dict[str, int] = defaultdict(int)
    for fault in faults:
        counts[fault.where] += fault.count
    return {Key(INTERNAL_ERRORS.id, "", (where,)): Point(count) for where, count in counts.items()}


def _gauges(held: Snapshot, folding: Folding) -> dict[str, dict[Labels, float]]:
    none = dict.fromkeys(ATTRIBUTES["state"], 0)
    return {
        RELEASE_TIMESTAMP.id: {
            (release.service, release.component, release.version): release.first_seen_at / 1e9
            for release in _newest(held.releases)
        },
        ANALYZER_LAST_SUCCESS.id: {(service,): at for service, at in held.last_success.items()},
        QUEUE_JOBS.id: {(state,): count for state, count in (none | dict(held.jobs)).items()},
        ATTRIBUTION_JOBS.id: {(state,): count for state, count in (none | dict(held.explanations)).items()},
        FOLDED_SEGMENTS.id: {(service,): count for service, count in folding.folded.items()},
        BUILD_INFO.id: {(_version(),): 1},
    }


def _version() -> str:
    try:
        return metadata.version("ragtrace")
    except metadata.PackageNotFoundError:
        return "unknown"  # a checkout that is not installed


def _newest(releases: Iterable[Release]) -> Iterator[Release]:
    seen: dict[tuple[str, str], int] = defaultdict(int)
    for release in sorted(releases, key=lambda release: release.first_seen_at, reverse=True):
        seen[release.service, release.component] += 1
        if seen[release.service, release.component] <= MAX_RELEASES:
            yield release


def _gauge(instrument: Instrument, values: Mapping[Labels, float]) -> Metric:
    family = GaugeMetricFamily(instrument.name, instrument.brief, labels=instrument.attributes, unit=_unit(instrument))
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
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


def _unit(instrument: Instrument) -> str:
    return UNIT_NAMES.get(instrument.unit, "")
