"""The alerts about ragtrace itself: what would otherwise be silence, and what it could not do."""

from __future__ import annotations

from collections.abc import Iterator

from ragtrace.alerts.annotations import explained
from ragtrace.alerts.durations import Duration
from ragtrace.alerts.policy import PLATFORM, Policy
from ragtrace.alerts.promql import Pattern, either, increase, selector
from ragtrace.alerts.recording import Rule

__all__ = ["platform_alerts"]


def platform_alerts(made: Policy) -> Iterator[Rule]:
    """The alerts of the stage `platform`."""
    yield _exporter_down(made)
    yield _requests_gone(made)
    yield _analyzer_stale(made)
    yield _sli_absent(made)
    yield _backlog(made)
    yield _oldest_job(made)
    yield _dead_jobs(made)
    yield _late(made)
    yield _internal_errors(made)
    yield _dropped(made)
    yield _receiver_refuses(made)
    yield _receiver_lags(made)


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


def _requests_gone(made: Policy) -> Rule:
    """Totals are for good, so a service that was counted and is no more has its counts in another database.

    A database that never held a request is no cause: it cannot be told from a fresh installation.
    """
    counted = made.series("requests")
    day = Duration.parse("1d", made.settings.platform.hold.scale)
    up = selector("up", job=made.settings.platform.job)
    return _alert(
        made,
        "RequestsGone",
        "build_info",
        expr=f"group by (service) (last_over_time({counted}[{day}]))\n"
        f"unless on (service) group by (service) ({counted})\nand on () (max({up}) == 1)",
        hold=made.settings.platform.exporter_down,
        severity="page",
        summary="platform: the exporter has no requests of {{ $labels.service }} any more",
        description="It answers, and within a day it counted requests of this service; counts are never deleted. "
        "It reads another database, or this service had an exporter of its own that is down. "
        "Nothing else can alert on this service.",
        labels=("service",),
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
    """An indicator that no longer counts, or a service of which nothing is counted, where enough was to be counted.

    What is to be counted by an indicator follows from the requests that arrived, and from the share of them that it
    counted over a day: few requests say nothing. A service of few requests is looked at over a day.
    """
    limits = made.settings.platform
    within, least = limits.sli_absent, f"{limits.sli_expected:g}"
    day = Duration(24 * within.milliseconds, within.scale)

    def counted(by: str, window: Duration) -> str:
        judged = {"scope": "all", "stratum": "random"}
        return increase(made.series("sli_requests"), window, by=by, labels=judged)

    def arrived(window: Duration) -> str:
        return increase(made.series("requests"), window, by="service", labels={"stratum": "random"})

    one = "\n".join(
        [
            counted("service, metric", day),
            f"  * on (service) group_left () ({arrived(within)} / ({arrived(day)} > 0)) >= {least}",
            f"unless on (service, metric) {counted('service, metric', within)} > 0",
            f"and on (service) {counted('service', within)} > 0",
        ]
    )
    none = [f"{arrived(over)} >= {least}\nunless on (service) {counted('service', over)} > 0" for over in (within, day)]
    return _alert(
        made,
        "SliAbsent",
        "sli_requests",
        expr=either(one, *none),
        hold=limits.hold,
        severity="page",
        summary="platform: {{ $labels.service }} is counted by "
        "{{ with $labels.metric }}the indicator {{ . }} no more{{ else }}no indicator{{ end }}",
        description='About {{ $value | printf "%.0f" }} sampled requests were to be counted within '
        f"{within.name} ({day.name} where few arrive), and none was. The alerts on it keep still.",
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
    return _alert(
        made,
        "InternalErrors",
        "internal_errors",
        expr=_risen(made, "internal_errors", "where", limits.internal_errors_per_hour),
        hold=limits.hold,
        summary="platform: faults inside ragtrace at {{ $labels.where }}",
        description='{{ $value | printf "%.0f" }} faults in the last hour. The hosts are unharmed, '
        "what they recorded may lack parts.",
    )


def _dropped(made: Policy) -> Rule:
    return _alert(
        made,
        "DroppedRecords",
        "dropped",
        expr=_risen(made, "dropped", "reason", 0),
        hold=None,
        summary="platform: records were dropped: {{ $labels.reason }}",
        description='{{ $value | printf "%.0f" }} records in the last hour are not in the store.',
    )


def _receiver_refuses(made: Policy) -> Rule:
    limits = made.settings.platform
    all_, refused = (  # whoever has no token sends as often as he likes
        f"sum(increase({selector(made.series('receiver_requests'), answer=Pattern(answers))}[{_hour(made)}]))"
        for answers in ("accepted|partial|invalid|busy|failed", "busy|failed")
    )
    return _alert(
        made,
        "ReceiverRefuses",
        "receiver_requests",
        expr=f"{refused}\n/ ({all_} > 0)\n> {limits.refused_share:g}",
        hold=limits.hold,
        summary="platform: the receiver sends senders away",
        description="{{ $value | humanizePercentage }} of the known senders' requests of the last hour were not taken. "
        "Senders try again for a while, and then drop their spans.",
    )


def _receiver_lags(made: Policy) -> Rule:
    limits = made.settings.platform
    return _alert(
        made,
        "ReceiverLags",
        "receiver_oldest",
        expr=f"max({made.series('receiver_oldest')}) > {limits.backlog_age.seconds:g}",
        hold=limits.hold,
        summary="platform: received traces wait long for their assembly",
        description="The oldest one that is due has waited {{ $value | humanizeDuration }}. Nothing of it is analyzed.",
    )


def _risen(made: Policy, id_: str, by: str, least: float) -> str:
    """A counter that rose by more than `least` in an hour.

    One that begins above 0 has no increase: it is found by not having been there.
    """
    name = made.series(id_)
    begun = f"sum by ({by}) ({name} unless {name} offset {_hour(made)}) > {least:g}"
    return either(f"{increase(name, _hour(made), by=by)} > {least:g}", begun)


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
