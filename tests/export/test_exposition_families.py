"""Rendering: what Prometheus's own parsers read from a snapshot of the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from ragtrace.analyze import judge_id
from ragtrace.export.exposition import DROPS, Snapshot, families
from ragtrace.registry.instruments import BUDGETS, INSTRUMENTS, QUERY_COVERAGE
from ragtrace.store import (
    Backlog,
    CorrectedRate,
    Delta,
    Drawing,
    Exemplar,
    FaultFigures,
    Release,
    ServiceCalibration,
    SourceState,
    Total,
)
from ragtrace.store.totals import histogram_deltas
from ragtrace.types import Fault

BOUNDS = ("estimate", "low", "high")
TRACE = "0af7651916cd43dd8448eb211c80319c"
SHOP = (("segment", "price"), ("service", "shop"))
STAGE = (("reference", "none"), ("scope", "all"), ("stage", "retrieval"), ("stratum", "random"))
SLI = tuple(sorted((("judge", "j1"), *SHOP, *STAGE)))
UNJUDGED = "ragtrace_sli_unjudged_requests_total"


class _Collected:
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self.metrics


def _registry(held: Snapshot) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Collected(families(held)))
    return registry


def _read(held: Snapshot) -> dict[str, Metric]:
    return {metric.name: metric for metric in _from_openmetrics(_registry(held))}


def _from_openmetrics(registry: CollectorRegistry) -> Iterable[Metric]:
    parsed: Iterable[Metric] = parse_openmetrics(generate_openmetrics(registry).decode())  # type: ignore[no-untyped-call]
    return parsed


def _from_text(registry: CollectorRegistry) -> Iterable[Metric]:
    return parse_text(generate_latest(registry).decode())


def _samples(held: Snapshot, name: str) -> list[Sample]:
    return [sample for metric in _read(held).values() for sample in metric.samples if sample.name == name]


def _totals(deltas: Iterable[Delta]) -> list[Total]:
    return [Total(delta.name, tuple(sorted(delta.labels)), delta.value, delta.exemplar) for delta in deltas]


def _coverage(value: float, trace: str = TRACE) -> list[Total]:
    labels = (*SHOP, ("stratum", "random"))
    exemplar = Exemplar(trace, value, 1700000000.5)
    return _totals(histogram_deltas(QUERY_COVERAGE.name, labels, value, QUERY_COVERAGE.buckets, exemplar))


def test_histogram_has_the_registrys_buckets() -> None:
    """One observation: cumulative buckets at the registry's bounds, a sum and a count."""
    held = Snapshot(_coverage(0.87))
    buckets = _samples(held, "ragtrace_query_coverage_ratio_bucket")
    bounds = [*QUERY_COVERAGE.buckets, float("inf")]
    assert [float(sample.labels["le"]) for sample in buckets] == bounds
    assert [sample.value for sample in buckets] == [float(bound >= 0.87) for bound in bounds]
    assert [sample.value for sample in _samples(held, "ragtrace_query_coverage_ratio_sum")] == [0.87]
    assert [sample.value for sample in _samples(held, "ragtrace_query_coverage_ratio_count")] == [1.0]


def test_bucket_carries_the_exemplar() -> None:
    """OpenMetrics shows the trace id, value and time on the smallest bucket that holds the value, and only there."""
    buckets = _samples(Snapshot(_coverage(0.87)), "ragtrace_query_coverage_ratio_bucket")
    exemplars = {sample.labels["le"]: sample.exemplar for sample in buckets if sample.exemplar}
    assert list(exemplars) == ["0.9"]
    shown = exemplars["0.9"]
    assert (shown.labels, shown.value, float(shown.timestamp or 0)) == ({"trace_id": TRACE}, 0.87, 1700000000.5)


def test_text_format_shows_no_exemplar() -> None:
    """The older format has no exemplars; the same series are in it."""
    text = generate_latest(_registry(Snapshot(_coverage(0.87)))).decode()
    assert TRACE not in text
    assert 'ragtrace_query_coverage_ratio_bucket{le="0.9",segment="price",service="shop",stratum="random"} 1.0' in text


@pytest.mark.parametrize(("length", "shown"), [(120, True), (121, False)])
def test_exemplar_keeps_to_openmetrics_limit(length: int, shown: bool) -> None:
    """Label name and value have 128 characters together; a longer one is left out, its sample stays."""
    buckets = _samples(Snapshot(_coverage(0.5, "t" * length)), "ragtrace_query_coverage_ratio_bucket")
    assert any(sample.exemplar for sample in buckets) is shown
    assert buckets[-1].value == 1.0


def test_counter_carries_the_exemplar() -> None:
    """A counter's sample may have one too."""
    total = Total("ragtrace_sli_requests_total", SLI, 2.0, Exemplar(TRACE, 1.0, 1700000000.0))
    marked = [sample for sample in _samples(Snapshot([total]), "ragtrace_sli_requests_total") if sample.exemplar]
    assert [(sample.labels, sample.value) for sample in marked] == [(dict(SLI), 2.0)]


def test_bound_added_later_keeps_buckets_cumulative() -> None:
    """Totals from before a bound was added do not make a larger bucket smaller than a lower one."""
    totals = [total for total in _coverage(0.2) if dict(total.labels).get("le") != "0.5"]
    values = [sample.value for sample in _samples(Snapshot(totals), "ragtrace_query_coverage_ratio_bucket")]
    assert values == sorted(values)
    assert values[3] == 1.0


def test_sli_counters_start_at_zero_for_a_known_segment() -> None:
    """A segment that only has requests yet already has good and total counters at 0, for each stage, as today's rules
    would judge it."""
    requests = (*SHOP, ("status", "ok"), ("stratum", "random"))
    held = Snapshot([Total("ragtrace_requests_total", requests, 1.0)])
    for name in ("ragtrace_sli_requests_total", "ragtrace_sli_good_requests_total"):
        samples = _samples(held, name)
        assert {sample.value for sample in samples} == {0.0}
        assert {sample.labels["stage"] for sample in samples} == {"retrieval", "ranking", "generation", "citation"}
        assert {sample.labels["judge"] for sample in samples} == {judge_id()}
        assert len(samples) == 4 * 2 * 2 * 3
        assert {(s.labels["scope"], s.labels["stratum"], s.labels["reference"]) for s in samples} == set(
            product(("all", "conditional"), ("random", "flagged"), ("oracle", "proxy", "none"))
        )
    late = _samples(held, "ragtrace_late_evaluations_total")
    assert [(sample.labels, sample.value) for sample in late] == [(dict(SHOP), 0.0)]
    assert _samples(held, UNJUDGED) == []


def _sli(name: str = "ragtrace_sli_requests_total", /, value: float = 1.0, **changed: str) -> Total:
    return Total(name, tuple(sorted({**dict(SLI), **changed}.items())), value)


def test_counters_start_at_zero_with_the_judges_of_their_service() -> None:
    """Every segment of a service has them with each judge that was seen there, and with no other."""
    held = Snapshot([_sli(), _sli(judge="j2", segment="stock"), _sli(judge="d1", service="desk")])
    shown: dict[tuple[str, str], set[str]] = defaultdict(set)
    for sample in _samples(held, "ragtrace_sli_requests_total"):
        shown[sample.labels["service"], sample.labels["segment"]].add(sample.labels["judge"])
    assert shown == {("shop", "price"): {"j1", "j2"}, ("shop", "stock"): {"j1", "j2"}, ("desk", "price"): {"d1"}}


def test_only_the_last_two_judges_of_a_service_are_shown() -> None:
    """A third one takes the place of the first, in each counter; a service beside it keeps its own."""
    good = "ragtrace_sli_good_requests_total"
    earlier = [_sli(judge="j1"), _sli(good, judge="j1"), _sli(judge="d1", service="desk"), _sli(judge="j2")]
    why = {"state": "suspected", "reason": "low_match"}
    later = [_sli(UNJUDGED, value=1.0, judge=judge, **why) for judge in ("j3", "j1")]

    def shown(totals: list[Total], name: str) -> set[tuple[str, str]]:
        return {(one.labels["service"], one.labels["judge"]) for one in _samples(Snapshot(totals), name)}

    assert shown(earlier, good) == {("shop", "j1"), ("shop", "j2"), ("desk", "d1")}
    for name in ("ragtrace_sli_requests_total", good):
        assert shown([*earlier, *later], name) == {("shop", "j2"), ("shop", "j3"), ("desk", "d1")}
    assert shown([*earlier, *later], UNJUDGED) == {("shop", "j2"), ("shop", "j3")}


def test_unjudged_counters_start_at_zero_with_what_the_service_has_shown() -> None:
    """A state and its reason that were seen in one segment stand at 0 in the others and with the other judge; what no
    segment has shown stands nowhere."""
    why = {"stage": "generation", "state": "not_known", "reason": "refused"}
    held = Snapshot([_sli(UNJUDGED, value=3.0, **why), _sli(segment="stock", judge="j2"), _sli(service="desk")])
    samples = _samples(held, UNJUDGED)
    assert {(s.labels["segment"], s.labels["judge"]): s.value for s in samples} == {
        ("price", "j1"): 3.0,
        ("price", "j2"): 0.0,
        ("stock", "j1"): 0.0,
        ("stock", "j2"): 0.0,
    }
    common = {"service": "shop", "scope": "all", "stratum": "random", "reference": "none", **why}
    assert all(common.items() <= sample.labels.items() for sample in samples)


def test_good_counter_stands_beside_every_total_counter() -> None:
    """A stage that was never sound has a good counter at 0, also with labels that are not foreseen."""
    held = Snapshot([_sli(stage="former", value=3.0)])
    good = [s for s in _samples(held, "ragtrace_sli_good_requests_total") if s.labels["stage"] == "former"]
    assert [sample.value for sample in good] == [0.0]


def test_zero_never_hides_a_count() -> None:
    """A series that has a total shows the total."""
    held = Snapshot([Total("ragtrace_sli_requests_total", SLI, 3.0)])
    shown = [s.value for s in _samples(held, "ragtrace_sli_requests_total") if s.labels == dict(SLI)]
    assert shown == [3.0]


def test_faults_are_counted_by_place() -> None:
    """Faults of all services and kinds at one place are one counter, but for those that say what was dropped: each one
    counts once, and each reason is there from the beginning."""
    faults = [
        Fault(service="shop", where="coerce.retrieve", kind="int", count=2),
        Fault(service="desk", where="coerce.retrieve", kind="str", count=3),
        Fault(service="shop", where="sink.queue", kind="full", count=7),
        Fault(service="shop", where="sink.encode", kind="RecordError"),
        Fault(service="shop", where="sink.spool", kind="OSError"),
    ]
    held = Snapshot(faults=faults)
    errors = {s.labels["where"]: s.value for s in _samples(held, "ragtrace_internal_errors_total")}
    dropped = {s.labels["reason"]: s.value for s in _samples(held, "ragtrace_dropped_total")}
    assert errors == {"coerce.retrieve": 5.0, "sink.spool": 1.0}
    assert dropped == dict.fromkeys(DROPS.values(), 0.0) | {"queue_full": 7.0, "unwritable": 1.0}


def test_only_the_newest_releases_are_shown() -> None:
    """A component's releases are bounded; times are Unix seconds."""
    many = [Release("shop", "index", f"v{number}", number * 10**9) for number in range(BUDGETS["version"] + 5)]
    samples = _samples(
        Snapshot(releases=[*many, Release("shop", "model", "m1", 5 * 10**8)]), "ragtrace_release_timestamp_seconds"
    )
    shown = {sample.labels["version"]: sample.value for sample in samples if sample.labels["component"] == "index"}
    assert shown == {f"v{number}": float(number) for number in range(5, BUDGETS["version"] + 5)}
    assert [sample.value for sample in samples if sample.labels["component"] == "model"] == [0.5]


def test_the_newest_version_of_each_component_is_shown() -> None:
    """The one that came into use last, by the recorded time where there is one."""
    known = [
        Release("shop", "index", "v1", 10**9),
        Release("shop", "index", "v2", 2 * 10**9),
        Release("shop", "model", "m1", 9 * 10**9, recorded_at=3 * 10**9),
        Release("shop", "model", "m2", recorded_at=4 * 10**9),
    ]
    samples = _samples(Snapshot(releases=known), "ragtrace_version_info")
    assert [(s.labels["component"], s.labels["version"], s.value) for s in samples] == [
        ("index", "v2", 1.0),
        ("model", "m2", 1.0),
    ]


def test_sources_past_the_limit_show_the_worst() -> None:
    """Of the sources that are folded: the longest delay, the oldest news and report, all documents."""
    named = {("source", "shop"): tuple(f"s{number}" for number in range(50))}
    states = [
        SourceState("shop", "s0", 5 * 10**9, documents=1, newest_at=4 * 10**9, delay_seconds=1.0),
        SourceState("shop", "x", 6 * 10**9, documents=10, newest_at=3 * 10**9, delay_seconds=9.0),
        SourceState("shop", "y", 7 * 10**9, documents=20, newest_at=2 * 10**9, delay_seconds=8.0),
        SourceState("shop", "z", 8 * 10**9),
    ]
    held = Snapshot(sources=states, exposed=named)
    expected = {
        "ragtrace_source_delay_seconds": {"s0": 1.0, "other": 9.0},
        "ragtrace_source_newest_timestamp_seconds": {"s0": 4.0, "other": 2.0},
        "ragtrace_source_documents": {"s0": 1.0, "other": 30.0},
        "ragtrace_source_report_timestamp_seconds": {"s0": 5.0, "other": 6.0},
    }
    for name, values in expected.items():
        assert {sample.labels["source"]: sample.value for sample in _samples(held, name)} == values


def test_both_results_of_an_outcome_are_there() -> None:
    """Where only good judgments came, the bad ones stand at 0: a share is never silence."""
    labels = (("outcome", "task"), ("result", "good"), *SHOP)
    samples = _samples(Snapshot([Total("ragtrace_outcomes_total", labels, 3.0)]), "ragtrace_outcomes_total")
    assert {sample.labels["result"]: sample.value for sample in samples} == {"good": 3.0, "bad": 0.0}


def test_every_judgment_of_a_page_is_there() -> None:
    """Where one page was right, wrong and false ones stand at 0, and a judged page makes no segment of requests."""
    labels = (("judgment", "right"), *SHOP, ("severity", "page"), ("stage", "retrieval"))
    held = Snapshot([Total("ragtrace_page_judgments_total", labels, 2.0)])
    judged = {s.labels["judgment"]: s.value for s in _samples(held, "ragtrace_page_judgments_total")}
    assert judged == {"right": 2.0, "wrong_stage": 0.0, "false": 0.0}
    assert _samples(held, "ragtrace_sli_requests_total") == []


def test_corrected_rates_are_of_the_last_window_that_has_any() -> None:
    """With their interval's ends, for 30 days from the window's end; a service that counts as `other` has none."""
    day, now = 86_400, 1_700_000_000.0

    def drawing(service: str, days_ago: int, rate: float | None) -> Drawing:
        rates = () if rate is None else (CorrectedRate("retrieval", rate, rate / 2, 2 * rate, 0.01, 150),)
        until = int((now - days_ago * day) * 1e9)
        return Drawing(f"{service}{days_ago}", service, 0, until, {}, "j1", until, 0.5, rates)

    given = [drawing("shop", 1, None), drawing("shop", 5, 0.2), drawing("shop", 9, 0.1), drawing("old", 31, 0.3)]
    held = Snapshot(drawings=given, at=now)
    bounds = {
        (sample.labels["service"], sample.labels["stage"], sample.labels["bound"]): sample.value
        for sample in _samples(held, "ragtrace_corrected_rate_ratio")
    }
    assert bounds == {("shop", "retrieval", name): value for name, value in zip(BOUNDS, (0.2, 0.1, 0.4), strict=True)}
    (at,) = _samples(held, "ragtrace_corrected_rate_timestamp_seconds")
    assert (at.labels, at.value) == ({"service": "shop"}, now - 5 * day)
    full = {("service", ""): tuple(f"s{number}" for number in range(BUDGETS["service"]))}
    assert _samples(Snapshot(drawings=given, at=now, exposed=full), "ragtrace_corrected_rate_ratio") == []


def test_gauges_of_an_empty_store() -> None:
    """With nothing recorded the queue's states are 0, the build is known, and nothing else is there."""
    read = _read(Snapshot())
    queues = {"ragtrace_queue_jobs", "ragtrace_attribution_jobs"}
    of_itself = {f"ragtrace_{name}" for name in ("label_folds", "exposition_series", "exposition_series_dropped")}
    others = {"ragtrace_queue_oldest_seconds", "ragtrace_dropped", "ragtrace_build_info"}
    assert set(read) == {*queues, *of_itself, *others}
    for name in queues:
        jobs = {sample.labels["state"]: sample.value for sample in read[name].samples}
        assert jobs == {"pending": 0.0, "leased": 0.0, "dead": 0.0}
    assert [sample.value for sample in read["ragtrace_build_info"].samples] == [1.0]


def test_state_of_queue_and_analyzer_is_shown() -> None:
    """Jobs by state, explanations apart, and the last success by service."""
    waiting = {"coverage": Backlog(pending=7, dead=1, oldest=100.0), "attribution": Backlog(leased=2)}
    held = Snapshot(backlog=waiting, last_success={"shop": 1700000000.25}, at=160.0)
    jobs = {sample.labels["state"]: sample.value for sample in _samples(held, "ragtrace_queue_jobs")}
    assert jobs == {"pending": 7.0, "leased": 0.0, "dead": 1.0}
    deep = {sample.labels["state"]: sample.value for sample in _samples(held, "ragtrace_attribution_jobs")}
    assert deep == {"pending": 0.0, "leased": 2.0, "dead": 0.0}
    ages = {sample.labels["job_kind"]: sample.value for sample in _samples(held, "ragtrace_queue_oldest_seconds")}
    assert ages == {"coverage": 60.0, "attribution": 0.0}
    last = _samples(held, "ragtrace_analyzer_last_success_timestamp_seconds")
    assert [(sample.labels, sample.value) for sample in last] == [({"service": "shop"}, 1700000000.25)]


def test_type_help_and_unit_come_from_the_registry() -> None:
    """Each family says what the registry says of it."""
    for name, metric in _read(Snapshot(_coverage(0.5))).items():
        instrument = next(one for one in INSTRUMENTS.values() if one.name.removesuffix("_total") == name)
        assert (metric.type, metric.documentation) == (instrument.kind, instrument.brief)
    assert _read(Snapshot(_coverage(0.5)))["ragtrace_query_coverage_ratio"].unit == "ratio"


@given(service=st.text(), segment=st.text())
def test_label_values_survive_both_formats(service: str, segment: str) -> None:
    """Quotes, backslashes, newlines and any other character of a label come back as they were."""
    labels = (("segment", segment), ("service", service))
    registry = _registry(Snapshot([Total("ragtrace_late_evaluations_total", labels, 1.0)]))
    for parsed in (_from_text(registry), _from_openmetrics(registry)):
        samples = [s for metric in parsed for s in metric.samples if s.name == "ragtrace_late_evaluations_total"]
        assert [(sample.labels, sample.value) for sample in samples] == [(dict(labels), 1.0)]


def test_what_the_last_accepted_calibration_promises() -> None:
    """Of injected losses by stage and of all, and the bound of false blame; none in shadow or of other rules counts."""
    faults = (
        FaultFigures("ranking", 40, 30, 2, 4),
        FaultFigures("generation", 10, 0, 0, 5),
        FaultFigures("citation", 0, 0, 0, 0),
    )
    at_work = ServiceCalibration(calibration_id="a", service="shop", judge="j", state="active", accepted_at=5,
                                 blamed=0.01, blamed_high=0.02, faults=faults)  # fmt: skip
    before = replace(at_work, calibration_id="b", accepted_at=4, blamed=0.5)
    shadow = replace(at_work, calibration_id="c", state="shadow", accepted_at=None, blamed=0.7)
    outdated = replace(at_work, calibration_id="d", accepted_at=9, rules="coverage-0", blamed=0.8)
    held = Snapshot(calibrations=[at_work, before, shadow, outdated])
    named = {s.labels["stage"]: s.value for s in _samples(held, "ragtrace_calibration_named_ratio")}
    assert named == {"ranking": 0.75, "generation": 0.0, "any": 0.6}
    blamed = {s.labels["bound"]: s.value for s in _samples(held, "ragtrace_calibration_blamed_ratio")}
    assert blamed == {"estimate": 0.01, "high": 0.02}
