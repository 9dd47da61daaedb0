"""The alerts about ragtrace itself: what would otherwise be silence, and what it could not do."""

from __future__ import annotations

from collections.abc import Iterator

from ragtrace.alerts.annotations import explained
from ragtrace.alerts.durations import Duration
from ragtrace.alerts.policy import PLATFORM, Policy
from ragtrace.alerts.promql import either, increase, selector
from ragtrace.alerts.recording import Rule

__all__ = ["platform_alerts"]


def platform_alerts(made: Policy) -> Iterator[Rule]:
    """The alerts of the stage `platform`."""
    yield _exporter_down(made)
    yield _analyzer_stale(made)
    yield _sli_absent(made)
    yield _backlog(made)
    yield _oldest_job(made)
    yield _dead_jobs(made)
    yield _late(made)
    yield _internal_errors(made)
    yield _dropped(made)


def _exporter_down(made: Policy) -> Rule:
    up = selector("up", job=made.settings.platform.job)
    return _alert(
        made,
        "ExporterDown",
        "build_info",
        expr=either(f"max({up}) == 0", f"group(absent({up}))"),
        hold=made.settings.platform.exporter_down,
        severity="page",
        summary="platform: no exporter of ragtrace can be scraped",
        description=f"Prometheus reaches no target of the job {made.settings.platform.job}. No other alert can fire.",
    )


def _analyzer_stale(made: Policy) -> Rule:
    """Only where requests arrive: a service that rests has nothing to analyze."""
    after = made.settings.platform.analyzer_stale
    newest = f"time() - max by (service) ({made.series('analyzer_last_success')})"
    arriving = increase(made.series("requests"), after, by="service")
    return _alert(
        made,
        "AnalyzerStale",
        "analyzer_last_success",
        expr=f"{newest} > {after.seconds:g}\nand on (service) {arriving} > 0",
        hold=made.settings.platform.hold,
        severity="page",
        summary="platform: requests of {{ $labels.service }} are not analyzed",
        description="The last analysis was committed {{ $value | humanizeDuration }} ago, and requests arrive. "
        "Nothing else can alert on this service.",
        labels=("service",),
    )


def _sli_absent(made: Policy) -> Rule:
    """An indicator that no longer counts, a service of which nothing is counted, or no indicator at all."""
    within = made.settings.platform.sli_absent
    day = Duration(24 * within.milliseconds, within.scale)
    sli, judged = made.series("sli_requests"), {"scope": "all", "stratum": "random"}
    counts = f"{increase(sli, within, by='service', labels=judged)} > 0"
    one = "\n".join(
        [
            f"{increase(sli, day, by='service, metric', labels=judged)} > 0",
            f"unless on (service, metric) {increase(sli, within, by='service, metric', labels=judged)} > 0",
            f"and on (service) {counts}",
        ]
    )
    arriving = increase(made.series("requests"), within, by="service", labels={"stratum": "random"})
    none = f"{arriving} >= 3\nunless on (service) {counts}"
    up = selector("up", job=made.settings.platform.job)
    nowhere = f"group(absent({selector(sli, judged)}))\nand on () max({up}) == 1"
    return _alert(
        made,
        "SliAbsent",
        "sli_requests",
        expr=either(one, none, nowhere),
        hold=made.settings.platform.hold,
        severity="page",
        summary="platform: {{ with $labels.service }}{{ . }}{{ else }}no service{{ end }} is counted by "
        "{{ with $labels.metric }}the indicator {{ . }}{{ else }}any indicator{{ end }}",
        description=f"Sampled requests arrived within {within.name}, and none of them was counted. "
        "The alerts on it keep still.",
        labels=("service",),
    )


def _backlog(made: Policy) -> Rule:
    limits = made.settings.platform
    return _alert(
        made,
        "QueueBacklog",
        "queue_jobs",
        expr=f"{selector(made.series('queue_jobs'), state='pending')} > {limits.backlog_jobs:g}",
        hold=limits.hold,
        summary="platform: many requests wait to be analyzed",
        description='{{ $value | printf "%.0f" }} jobs of coverage wait.',
    )


def _oldest_job(made: Policy) -> Rule:
    limits = made.settings.platform
    return _alert(
        made,
        "QueueOld",
        "queue_oldest",
        expr=f"{selector(made.series('queue_oldest'), job_kind='coverage')} > {limits.backlog_age.seconds:g}",
        hold=limits.hold,
        summary="platform: requests wait long to be analyzed",
        description="The oldest job of coverage has waited {{ $value | humanizeDuration }}. "
        "What is analyzed late counts in no indicator.",
    )


def _dead_jobs(made: Policy) -> Rule:
    return _alert(
        made,
        "DeadJobs",
        "queue_jobs",
        expr=f"{selector(made.series('queue_jobs'), state='dead')} > 0",
        hold=made.settings.platform.hold,
        summary="platform: the analysis of some requests was given up",
        description='{{ $value | printf "%.0f" }} jobs of coverage failed as often as they may.',
    )


def _late(made: Policy) -> Rule:
    limits = made.settings.platform
    late, arrived = (increase(made.series(id_), _hour(made), by="service") for id_ in ("late_evaluations", "requests"))
    return _alert(
        made,
        "LateEvaluations",
        "late_evaluations",
        expr=f"{late}\n/ ({arrived} > 0)\n> {limits.late_share:g}",
        hold=limits.hold,
        summary="platform: results of {{ $labels.service }} come too late for its indicators",
        description="{{ $value | humanizePercentage }} as many results came late in the last hour as requests arrived.",
        labels=("service",),
    )


def _internal_errors(made: Policy) -> Rule:
    limits = made.settings.platform
    errors = increase(made.series("internal_errors"), _hour(made), by="where")
    return _alert(
        made,
        "InternalErrors",
        "internal_errors",
        expr=f"{errors} > {limits.internal_errors_per_hour:g}",
        hold=limits.hold,
        summary="platform: faults inside ragtrace at {{ $labels.where }}",
        description='{{ $value | printf "%.0f" }} faults in the last hour. The hosts are unharmed, '
        "what they recorded may lack parts.",
    )


def _dropped(made: Policy) -> Rule:
    """A counter that begins above 0 has no increase: it is found by not having been there."""
    dropped = made.series("dropped")
    risen = f"{increase(dropped, _hour(made), by='reason')} > 0"
    begun = f"sum by (reason) ({dropped} unless {dropped} offset {_hour(made)}) > 0"
    return _alert(
        made,
        "DroppedRecords",
        "dropped",
        expr=either(risen, begun),
        hold=None,
        summary="platform: records were dropped: {{ $labels.reason }}",
        description='{{ $value | printf "%.0f" }} records in the last hour are not in the store.',
    )


def _hour(made: Policy) -> Duration:
    return Duration.parse("1h", made.settings.platform.hold.scale)


def _alert(
    made: Policy,
    name: str,
    watched: str,
    *,
    expr: str,
    hold: Duration | None,
    summary: str,
    description: str,
    severity: str = "ticket",
    labels: tuple[str, ...] = (),
) -> Rule:
    told = {"severity": severity, "stage": PLATFORM}
    return {
        "alert": f"Ragtrace{name}",
        "expr": expr,
        **({"for": str(hold)} if hold else {}),
        "labels": {**told, "owner": made.owner(PLATFORM)},
        "annotations": explained(made, made.instrument(watched), told, summary, description, labels),
    }
