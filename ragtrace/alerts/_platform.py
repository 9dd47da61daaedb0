"""The alerts about ragtrace itself: what would otherwise be silence, and what it could not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ragtrace.alerts._annotations import of_instrument
from ragtrace.alerts._policy import PLATFORM, AlertPolicy
from ragtrace.alerts._recording_rules import Pattern, Rule, either, increase, quoted, selector
from ragtrace.alerts.settings import Duration

__all__ = ["platform_alerts"]


_ALERTS: Final[list[Callable[[AlertPolicy], Rule]]] = []


def platform_alerts(made: AlertPolicy) -> Iterator[Rule]:
    """The alerts of the stage `platform`."""
    return (rule(made) for rule in _ALERTS)


def _declares(rule: Callable[[AlertPolicy], Rule]) -> Callable[[AlertPolicy], Rule]:
    """Makes the function's rule one of the alerts, in the order of this module."""
    _ALERTS.append(rule)
    return rule


@_declares
def _exporter_down(made: AlertPolicy) -> Rule:
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
        action="see that ragtrace export runs, and that Prometheus reaches it",
    )


@_declares
def _requests_gone(made: AlertPolicy) -> Rule:
    """Totals are for good, so a service that was counted and is no more has its counts in another database, unless
    somebody had them forgotten.

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
        f"unless on (service) group by (service) ({counted})\n"
        f"unless on (service) group by (service) (last_over_time({made.series('totals_forgotten')}[{day}]))\n"
        f"and on () (max({up}) == 1)",
        hold=made.settings.platform.exporter_down,
        severity="page",
        summary="platform: the exporter has no requests of {{ $labels.service }} any more",
        description="It answers, and within a day it counted requests of this service; only ragtrace totals forget "
        "deletes counts. "
        "It reads another database, or this service had an exporter of its own that is down. "
        "Nothing else can alert on this service.",
        action="see which database the exporter was started with (ragtrace export --store URL)",
        labels=("service",),
    )


@_declares
def _analyzer_stale(made: AlertPolicy) -> Rule:
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
        action="see that ragtrace analyze --follow runs with this store, and read its log",
        labels=("service",),
    )


@_declares
def _sli_absent(made: AlertPolicy) -> Rule:
    """A stage of which nothing is counted any more, or a service of which nothing is, where enough was to be counted.

    A state is counted, whichever it is: what cannot be judged is no silence. What is to be counted of a stage follows
    from the requests of the service that are counted now, and from the stage's share of them over a day; of a service,
    from the requests that arrived and in which a stage applies. A service of few requests is looked at over a day.
    """
    limits = made.settings.platform
    within, least = limits.sli_absent, f"{limits.sli_expected:g}"
    day = Duration(24 * within.milliseconds, within.scale)
    idle = Pattern("no_retrieval_needed|error")

    def any_stage(window: Duration) -> str:
        return f"max by (service) ({_counted(made, window)})"

    def arrived(window: Duration) -> str:
        every = increase(made.series("requests"), window, by="service", labels={"stratum": "random"})
        without = increase(
            made.series("diagnoses"), window, by="service", labels={"stratum": "random", "verdict": idle}
        )
        return f"({every} - ({without} or 0 * {every}))"

    stage = "\n".join(
        [
            _counted(made, day),
            f"  * on (service) group_left () ({any_stage(within)} / ({any_stage(day)} > 0)) >= {least}",
            f"unless on (service, stage) {_counted(made, within)} > 0",
        ]
    )
    service = [f"{arrived(over)} >= {least}\nunless on (service) {any_stage(over)} > 0" for over in (within, day)]
    return _alert(
        made,
        "SliAbsent",
        "sli_requests",
        expr=either(stage, *service),
        hold=limits.hold,
        severity="page",
        summary="platform: {{ with $labels.stage }}{{ . }}{{ else }}no stage{{ end }} of {{ $labels.service }} is "
        "counted{{ if $labels.stage }} no more{{ end }}",
        description='About {{ $value | printf "%.0f" }} sampled requests were to be counted within '
        f"{within.name} ({day.name} where few arrive), and none was. The alerts on it keep still.",
        action="see which stages are not judged any more and why (ragtrace triage segment)",
        labels=("service",),
    )


def _counted(made: AlertPolicy, window: Duration, *, only: Sequence[str] = (), is_judged: bool = False) -> str:
    """Requests by service and stage (`only` these) in which the stage has a state, or is sound or broken."""
    labels = {"scope": "all", "stratum": "random"} | ({"stage": Pattern("|".join(only))} if only else {})
    ids = ("sli_requests",) if is_judged else ("sli_requests", "sli_unjudged_requests")
    rises = (f"increase({selector(made.series(id_), labels)}[{window}])" for id_ in ids)
    return f"sum by (service, stage) ({' or '.join(rises)})"


_HELP: Final = {
    "corpus_gap": "The index was asked and holds nothing better: tell the owners of the sources what people ask for.",
    "facet_not_found": "Give gold evidence for some of the questions, so that a gap of the corpus is told from a loss.",
    "low_match": "Give facets of the question (the host knows them), gold evidence for some questions, or a model.",
    "unsupported": "Let a model judge the claims (ragtrace analyze --verifier).",
    "contradicted": "Let a model judge the claims (ragtrace analyze --verifier).",
    "refused": "Give gold evidence for some of the questions: it tells whether the answers decline rightly.",
    "not_recorded": "Record every stage, and capture the texts (capture_content).",
    "language": "Let a model of that language judge the claims (ragtrace analyze --verifier), or give gold evidence.",
    "undecided": "Give facets of the question (the host knows them), retrieve more candidates, give gold evidence for "
    "some questions, or let a model judge the claims (ragtrace analyze --verifier).",
}
"""What would help, by the label `reason`."""


@_declares
def _unjudged(made: AlertPolicy) -> Rule:
    """Requests flow and are analyzed, and in next to none of them any of the stages that matter is sound or broken.

    Few requests are looked at over four windows.
    """
    limits = made.settings.platform.unjudged

    def rare(window: Duration) -> str:
        judged, counted = (_counted(made, window, only=limits.stages, is_judged=one) for one in (True, False))
        ratio = f"({judged} or 0 * {counted})\n  / ({counted} >= {limits.minimum:g})"
        return f"max by (service) (\n  {ratio}\n) < {limits.share:g}"

    matchers = f'stage=~{quoted("|".join(limits.stages))},scope="all",stratum="random"'
    series = f"{made.series('sli_unjudged_requests')}{{service=%q,{matchers}}}"
    reason = f"query (printf `topk(1, sum by (reason) (increase({series}[{limits.window}])))` $labels.service)"
    help_ = "".join(
        f'{{{{ {"if" if number == 0 else "else if"} eq . "{word}" }}}}{text}'
        for number, (word, text) in enumerate(_HELP.items())
    )
    return _alert(
        made,
        "Unjudged",
        "sli_unjudged_requests",
        expr=either(rare(limits.window), rare(Duration(4 * limits.window.milliseconds, limits.window.scale))),
        hold=made.settings.hold.ticket,
        summary="platform: requests of {{ $labels.service }} cannot be judged",
        description=f"{' and '.join(limits.stages).capitalize()} can be judged in at most "
        "{{ $value | humanizePercentage }} of the requests. Breaks there alert nobody."
        f'{{{{ with {reason} }}}}{{{{ with . | first | label "reason" }}}} Most frequent reason: {{{{ . }}}}. '
        f"{help_}{{{{ end }}}}{{{{ end }}}}{{{{ end }}}}",
        action="give the service what it lacks to be judged by (ragtrace triage segment and doctor name it)",
        labels=("service",),
    )


@_declares
def _backlog(made: AlertPolicy) -> Rule:
    limits = made.settings.platform
    return _alert(
        made,
        "QueueBacklog",
        "queue_jobs",
        expr=f"{selector(made.series('queue_jobs'), state='pending')} > {limits.backlog_jobs:g}",
        hold=limits.hold,
        summary="platform: many requests wait to be analyzed",
        description='{{ $value | printf "%.0f" }} jobs of coverage wait.',
        action="start another ragtrace analyze --follow where the number of waiting jobs does not fall",
    )


@_declares
def _oldest_job(made: AlertPolicy) -> Rule:
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
        action="start another ragtrace analyze --follow where the number of waiting jobs does not fall",
    )


@_declares
def _dead_jobs(made: AlertPolicy) -> Rule:
    return _alert(
        made,
        "DeadJobs",
        "queue_jobs",
        expr=f"{selector(made.series('queue_jobs'), state='dead')} > 0",
        hold=made.settings.platform.hold,
        summary="platform: the analysis of some requests was given up",
        description='{{ $value | printf "%.0f" }} jobs of coverage failed as often as they may.',
        action="see which with ragtrace jobs list --state dead, and why in the log of ragtrace analyze",
    )


@_declares
def _late(made: AlertPolicy) -> Rule:
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
        action="look at the queue of the analysis, and at the way from the host to the store",
        labels=("service",),
    )


@_declares
def _internal_errors(made: AlertPolicy) -> Rule:
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
        action="look for the traceback in the log of the host",
    )


@_declares
def _dropped(made: AlertPolicy) -> Rule:
    return _alert(
        made,
        "DroppedRecords",
        "dropped",
        expr=_risen(made, "dropped", "reason", 0),
        hold=None,
        summary="platform: records were dropped: {{ $labels.reason }}",
        description='{{ $value | printf "%.0f" }} records in the last hour are not in the store.',
        action="look at the reason that the alert names, and at the log of the host",
    )


@_declares
def _label_budget(made: AlertPolicy) -> Rule:
    return _alert(
        made,
        "LabelBudget",
        "label_folds",
        expr=_risen(made, "label_folds", "label", 0),
        hold=None,
        summary="platform: names beyond the budget of the label {{ $labels.label }} count as other",
        description="They did so in the last hour, and no alert is about one of them alone. ragtrace totals list shows "
        "the names that count.",
        action="run ragtrace totals list, and look who sends names that nobody knows",
    )


@_declares
def _series_limit(made: AlertPolicy) -> Rule:
    return _alert(
        made,
        "SeriesLimit",
        "exposition_dropped",
        expr=f"max({made.series('exposition_dropped')}) > 0",
        hold=made.settings.platform.hold,
        summary="platform: the exporter leaves out series",
        description='{{ $value | printf "%.0f" }} series are more than its limit: histograms first, then what alerts '
        "watch of the newest services.",
        action="run ragtrace totals list, and forget the services that must not be",
    )


@_declares
def _receiver_refuses(made: AlertPolicy) -> Rule:
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
        action="look for errors of the store in the log of ragtrace serve, and at its commits",
    )


@_declares
def _receiver_lags(made: AlertPolicy) -> Rule:
    limits = made.settings.platform
    return _alert(
        made,
        "ReceiverLags",
        "receiver_oldest",
        expr=f"max({made.series('receiver_oldest')}) > {limits.backlog_age.seconds:g}",
        hold=limits.hold,
        summary="platform: received traces wait long for their assembly",
        description="The oldest one that is due has waited {{ $value | humanizeDuration }}. Nothing of it is analyzed.",
        action="raise ragtrace serve --assemblers, or start another one, where traces wait ever longer",
    )


def _risen(made: AlertPolicy, id_: str, by: str, least: float) -> str:
    """A counter that rose by more than `least` in an hour.

    One that begins above 0 has no increase: it is found by not having been there.
    """
    name = made.series(id_)
    begun = f"sum by ({by}) ({name} unless {name} offset {_hour(made)}) > {least:g}"
    return either(f"{increase(name, _hour(made), by=by)} > {least:g}", begun)


def _hour(made: AlertPolicy) -> Duration:
    return Duration.parse("1h", made.settings.platform.hold.scale)


def _alert(
    made: AlertPolicy,
    name: str,
    watched: str,
    *,
    expr: str,
    hold: Duration | None,
    summary: str,
    description: str,
    action: str,
    severity: str = "ticket",
    labels: tuple[str, ...] = (),
) -> Rule:
    told = {"severity": severity, "stage": PLATFORM}
    return {
        "alert": f"Ragtrace{name}",
        "expr": expr,
        **({"for": str(hold)} if hold else {}),
        "labels": {**told, "owner": made.owner(PLATFORM)},
        "annotations": {
            **of_instrument(made, made.instrument(watched), severity, summary, description, labels),
            "action": action,
        },
    }
