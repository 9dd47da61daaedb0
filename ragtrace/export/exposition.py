"""The text that Prometheus scrapes, in either of its two formats: a snapshot of the store as metric families.

Names, help, units and labels come from the registry. What is no total: gauges, and counters of faults.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, exposition as text_format
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics_format
from prometheus_client.samples import Exemplar as PrometheusExemplar

from ragtrace.export._series import MAX_SERIES, Key, SeriesBudget, SeriesValue, Table, fold, series_count, within, zeros
from ragtrace.registry import UNIT_NAMES, Instrument, instruments
from ragtrace.registry.instruments import (
    ATTRIBUTES,
    BUDGETS,
    EXPOSITION_DROPPED,
    EXPOSITION_SERIES,
    INSTRUMENTS,
    STAGES,
)
from ragtrace.store import (
    ATTRIBUTION,
    COVERAGE,
    Backlog,
    Drawing,
    Exemplar,
    Release,
    ServiceCalibration,
    SourceState,
    Store,
    Total,
)
from ragtrace.store.totals import OTHER, bound
from ragtrace.types import Fault

__all__ = [
    "DROPS",
    "Snapshot",
    "collected",
    "collector",
    "exposition",
    "families",
    "snapshot",
]

_FORGOTTEN: Final = 2 * 86_400  # seconds for which it is shown that somebody had a service's totals forgotten
_RATES_SHOWN: Final = 30 * 86_400  # seconds from the end of the window whose requests people labeled
_COMPONENTS: Final = frozenset(component for stage in STAGES for component in stage.components)

_Labels: TypeAlias = tuple[str, ...]

DROPS: Final[Mapping[tuple[str, str | None], str]] = {
    ("sink.queue", "full"): "queue_full",
    ("sink.spool", "full"): "spool_full",
    ("sink.spool", "damaged"): "spool_damaged",
    ("sink.spool", "missing"): "spool_damaged",
    ("sink.spool", "lost"): "spool_damaged",
    ("sink.encode", None): "unwritable",
    ("request", "dropped"): "abandoned",
}
"""The faults by which something is lost, by place and kind (None: any kind), and the reason that they count under."""
_JOB_STATES: Final = ("pending", "leased", "dead")
_EXEMPLAR_CHARACTERS: Final = 128  # OpenMetrics 1.0: the limit on an exemplar's label names and values together


class _Collected:
    """Families that are collected already, as a prometheus_client collector."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = tuple(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def collected(store: Store, max_series: int = MAX_SERIES) -> tuple[Metric, ...]:
    """What the store's committed rows give at this moment, for the one exporter that has the store's lease: label
    values that are shown for the first time get their place in the store before anybody sees them.

    Raises: StoreError when the store cannot be read.
    """
    held = snapshot(store)
    budget = held.budget()
    metrics = tuple(families(held, budget, max_series))
    if budget.new:
        store.expose(budget.new)
    return metrics


def collector(metrics: Iterable[Metric]) -> CollectorRegistry:
    """A registry that holds these families."""
    registry = CollectorRegistry(support_collectors_without_names=True)
    registry.register(_Collected(metrics))
    return registry


def exposition(store: Store, openmetrics: bool = False, *, max_series: int = MAX_SERIES) -> bytes:
    """All metrics of the store: OpenMetrics 1.0 with exemplars, or Prometheus's text format 0.0.4 without. Nothing is
    written to the store.

    max_series: how many series are shown; of more the least important ones are left out.
    Raises: StoreError when the store cannot be read.
    """
    held = snapshot(store)
    registry = collector(families(held, max_series=max_series))
    text: bytes = (openmetrics_format if openmetrics else text_format).generate_latest(registry)
    return text


class Snapshot(NamedTuple):
    """All of the store that is exposed; its size depends on the number of series and of jobs that wait, not on the
    number of requests. `exposed` are the label values that have a place, by label and service; `forgotten` says when
    somebody had the totals of a service forgotten, in Unix seconds."""

    totals: Sequence[Total] = ()
    releases: Sequence[Release] = ()
    last_success: Mapping[str, float] = {}
    backlog: Mapping[str, Backlog] = {}
    faults: Sequence[Fault] = ()
    sources: Sequence[SourceState] = ()
    drawings: Sequence[Drawing] = ()
    calibrations: Sequence[ServiceCalibration] = ()
    exposed: Mapping[tuple[str, str], Sequence[str]] = {}
    forgotten: Mapping[str, float] = {}
    at: float = 0.0

    def budget(self) -> SeriesBudget:
        """The places of label values, those that are free included."""
        return SeriesBudget(self.exposed)


def snapshot(store: Store) -> Snapshot:
    """Read what is exposed.

    Raises: StoreError when the store cannot be read.
    """
    now = time.time()
    return Snapshot(
        totals=store.totals(),
        releases=store.releases(),
        last_success=store.last_success(),
        backlog=store.backlog(now),
        faults=store.faults(),
        sources=store.sources(),
        drawings=store.drawings(),
        calibrations=store.calibrations(),
        exposed=store.exposed(),
        forgotten=store.forgotten(now - _FORGOTTEN),
        at=now,
    )


def _fault_counts(faults: Iterable[Fault]) -> dict[tuple[str, str], float]:
    """Faults by instrument and label: each one in one metric, as something dropped or as an internal error."""
    counts: dict[tuple[str, str], float] = {(instruments.DROPPED.id, reason): 0.0 for reason in DROPS.values()}
    for fault in faults:
        reason = DROPS.get((fault.where, fault.kind)) or DROPS.get((fault.where, None))
        key = (instruments.DROPPED.id, reason) if reason else (instruments.INTERNAL_ERRORS.id, fault.where)
        counts[key] = counts.get(key, 0.0) + fault.count
    return counts


def _gauges(held: Snapshot, budget: SeriesBudget) -> dict[str, dict[_Labels, float]]:
    """The values of each gauge, by instrument and labels, under the names that `budget` gives."""
    newest = list(_newest(_named(held.releases, budget)))
    kinds = ATTRIBUTES["job_kind"]
    success: dict[_Labels, float] = {}
    for service, at in held.last_success.items():
        name = budget.service(service)
        success[name,] = max(at, success.get((name,), at))
    return {
        instruments.RELEASE_TIMESTAMP.id: {(one.service, one.component, one.version): one.at / 1e9 for one in newest},
        instruments.VERSION_INFO.id: {(one.service, one.component, one.version): 1 for one in _current(newest)},
        instruments.ANALYZER_LAST_SUCCESS.id: success,
        instruments.QUEUE_JOBS.id: _by_state(held.backlog.get(COVERAGE, Backlog())),
        instruments.ATTRIBUTION_JOBS.id: _by_state(held.backlog.get(ATTRIBUTION, Backlog())),
        instruments.QUEUE_OLDEST.id: {(kind,): _age(held.backlog.get(kind, Backlog()), held.at) for kind in kinds},
        instruments.TOTALS_FORGOTTEN.id: {(service,): at for service, at in held.forgotten.items()},
        instruments.BUILD_INFO.id: {(_version(),): 1},
        **_sources(held.sources, budget),
        **_corrected(held, budget),
        **_calibrated(held, budget),
    }


def _named(releases: Iterable[Release], budget: SeriesBudget) -> Iterator[Release]:
    """Releases under the names that are shown: components that a stage has, and the first others of each service."""
    others: dict[str, set[str]] = defaultdict(set)
    for release in sorted(releases, key=lambda release: (release.known_since, release.component)):
        service, component = budget.service(release.service), release.component
        if component not in _COMPONENTS and component not in others[service]:
            if len(others[service]) < BUDGETS["component"] - len(_COMPONENTS):
                others[service].add(component)
            else:
                component = OTHER
        yield replace(release, service=service, component=component)


def _by_state(backlog: Backlog) -> dict[_Labels, float]:
    return {(state,): getattr(backlog, state) for state in _JOB_STATES}


def _age(backlog: Backlog, now: float) -> float:
    return 0.0 if backlog.oldest is None else max(0.0, now - backlog.oldest)


def _version() -> str:
    try:
        return metadata.version("ragtrace")
    except metadata.PackageNotFoundError:
        return "unknown"  # a checkout that is not installed


def _newest(releases: Iterable[Release]) -> Iterator[Release]:
    seen: dict[tuple[str, str], int] = defaultdict(int)
    for release in sorted(releases, key=lambda release: release.at, reverse=True):
        seen[release.service, release.component] += 1
        if seen[release.service, release.component] <= BUDGETS["version"]:
            yield release


def _current(newest_first: Iterable[Release]) -> Iterable[Release]:
    """The newest release of each component."""
    found: dict[tuple[str, str], Release] = {}
    for release in newest_first:
        found.setdefault((release.service, release.component), release)
    return found.values()


def _sources(states: Iterable[SourceState], budget: SeriesBudget) -> dict[str, dict[_Labels, float]]:
    """What is reported of sources; of those that are folded into `other` the worst, and their documents summed."""
    delay: dict[_Labels, float] = {}
    newest: dict[_Labels, float] = {}
    documents: dict[_Labels, float] = {}
    reported: dict[_Labels, float] = {}
    for state in states:
        service = budget.service(state.service)
        key = (service, budget.named("source", service, state.source))
        reported[key] = min(reported.get(key, float("inf")), state.reported_at / 1e9)
        if state.delay_seconds is not None:
            delay[key] = max(delay.get(key, 0.0), state.delay_seconds)
        if state.newest_at is not None:
            newest[key] = min(newest.get(key, float("inf")), state.newest_at / 1e9)
        if state.documents is not None:
            documents[key] = documents.get(key, 0.0) + state.documents
    return {
        instruments.SOURCE_DELAY.id: delay,
        instruments.SOURCE_NEWEST_TIMESTAMP.id: newest,
        instruments.SOURCE_DOCUMENTS.id: documents,
        instruments.SOURCE_REPORT_TIMESTAMP.id: reported,
    }


def _corrected(held: Snapshot, budget: SeriesBudget) -> dict[str, dict[_Labels, float]]:
    """The rates of each service by its last window that has any. Several services that count as `other` have none: a
    rate is of one service."""
    last: dict[str, Drawing] = {}
    for drawing in held.drawings:
        service = budget.service(drawing.service)
        is_fresh = drawing.until / 1e9 >= held.at - _RATES_SHOWN
        if drawing.rates and is_fresh and service == drawing.service:
            last[service] = max(last.get(service, drawing), drawing, key=lambda each: (each.until, each.drawn_at))
    bounds = {"estimate": "rate", "low": "low", "high": "high"}
    return {
        instruments.CORRECTED_RATE.id: {
            (service, found.stage, bound): getattr(found, name)
            for service, drawing in last.items()
            for found in drawing.rates
            for bound, name in bounds.items()
        },
        instruments.CORRECTED_RATE_TIMESTAMP.id: {(service,): each.until / 1e9 for service, each in last.items()},
    }


def _calibrated(held: Snapshot, budget: SeriesBudget) -> dict[str, dict[_Labels, float]]:
    """What the calibration of each service promises that was accepted last. Several services that count as `other` have
    none."""
    last: dict[str, ServiceCalibration] = {}
    for found in sorted(held.calibrations, key=lambda each: each.accepted_at or 0):
        if found.state == "active" and found.is_current and budget.service(found.service) == found.service:
            last[found.service] = found
    named: dict[_Labels, float] = {}
    for service, found in last.items():
        known = [each for each in found.faults if each.injected]
        named |= {(service, each.stage): each.named / each.injected for each in known}
        if known:
            named[service, "any"] = sum(each.named for each in known) / sum(each.injected for each in known)
    bounds = {"estimate": "blamed", "high": "blamed_high"}
    return {
        instruments.CALIBRATION_NAMED.id: named,
        instruments.CALIBRATION_BLAMED.id: {
            (service, bound): getattr(found, name) for service, found in last.items() for bound, name in bounds.items()
        },
    }


def families(held: Snapshot, budget: SeriesBudget | None = None, max_series: int = MAX_SERIES) -> Iterator[Metric]:
    """Every metric family of the registry, in the registry's order; those without a series are left out.

    budget: names what senders name, and knows afterwards what got a place; None: `held`'s own. max_series: how many
    series are shown; of more the least important ones are left out (`ragtrace.export._series`).
    """
    names = held.budget() if budget is None else budget
    folding = fold(held.totals, names)
    points = {**zeros(folding), **folding.series, **_faults(held)}
    tables: dict[str, Table] = defaultdict(dict)
    for key, point in points.items():
        tables[key.instrument][key] = point
    for gauge, values in _gauges(held, names).items():
        tables[gauge] |= {Key(gauge, "", labels): SeriesValue(value) for labels, value in values.items()}
    tables, total = within(tables, max_series, names.services)
    left = total - sum(map(series_count, tables.values()))
    tables[EXPOSITION_SERIES.id] = {Key(EXPOSITION_SERIES.id, "", ()): SeriesValue(total - left + 2)}
    tables[EXPOSITION_DROPPED.id] = {Key(EXPOSITION_DROPPED.id, "", ()): SeriesValue(left)}
    for instrument in INSTRUMENTS.values():
        if table := tables.get(instrument.id):
            yield _BUILD[instrument.kind](instrument, dict(sorted(table.items())))


def _faults(held: Snapshot) -> dict[Key, SeriesValue]:
    counts = _fault_counts(held.faults)
    return {Key(instrument, "", (label,)): SeriesValue(count) for (instrument, label), count in counts.items()}


def _gauge(instrument: Instrument, points: Mapping[Key, SeriesValue]) -> Metric:
    family = GaugeMetricFamily(instrument.name, instrument.brief, labels=instrument.attributes, unit=_unit(instrument))
    for key, point in points.items():
        family.add_metric(key.labels, point.value)
    return family


def _counter(instrument: Instrument, points: Mapping[Key, SeriesValue]) -> Metric:
    family = CounterMetricFamily(
        instrument.name, instrument.brief, labels=instrument.attributes, unit=_unit(instrument)
    )
    for key, point in points.items():
        family.add_metric(key.labels, point.value, exemplar=_exemplar(point.exemplar))
    return family


def _histogram(instrument: Instrument, points: Mapping[Key, SeriesValue]) -> Metric:
    family = HistogramMetricFamily(
        instrument.name, instrument.brief, labels=instrument.attributes, unit=_unit(instrument)
    )
    for labels in sorted({key.labels for key in points}):
        bounds = (*instrument.buckets, float("inf"))
        held = [points.get(Key(instrument.id, "_bucket", labels, le), SeriesValue(0.0)) for le in bounds]
        # A bound that the registry gained later has seen less than the one below it: raise it, buckets are cumulative.
        values = accumulate((point.value for point in held), max)
        buckets = [_bucket(*bucket) for bucket in zip(bounds, values, held, strict=True)]
        family.add_metric(labels, buckets, points.get(Key(instrument.id, "_sum", labels), SeriesValue(0.0)).value)
    return family


def _bucket(le: float, value: float, point: SeriesValue) -> tuple[str, float] | tuple[str, float, PrometheusExemplar]:
    exemplar = _exemplar(point.exemplar)
    return (bound(le), value) if exemplar is None else (bound(le), value, exemplar)


def _exemplar(exemplar: Exemplar | None) -> PrometheusExemplar | None:
    if exemplar is None or len("trace_id") + len(exemplar.trace_id) > _EXEMPLAR_CHARACTERS:
        return None
    return PrometheusExemplar({"trace_id": exemplar.trace_id}, exemplar.value, exemplar.at)


_BUILD: Final = {"gauge": _gauge, "counter": _counter, "histogram": _histogram}


def _unit(instrument: Instrument) -> str:
    return UNIT_NAMES.get(instrument.unit, "")
