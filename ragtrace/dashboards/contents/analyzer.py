"""The analyzer itself: does it keep up, what does it cost, what does it lose?"""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards._panels import (
    ANALYZE,
    Dashboard,
    Panel,
    PanelSection,
    Target,
    Threshold,
    Unit,
    over_time,
    quantiles,
)
from ragtrace.dashboards._promql import WINDOW, gained, increase, rate, selector, share
from ragtrace.registry.instruments import (
    ANALYSES,
    ANALYSIS_COST,
    ANALYZER_LAG,
    ANALYZER_LAST_SUCCESS,
    BUILD_INFO,
    DROPPED,
    EXPOSITION_DROPPED,
    EXPOSITION_SERIES,
    INTERNAL_ERRORS,
    LABEL_FOLDS,
    LATE_EVALUATIONS,
    QUEUE_JOBS,
    QUEUE_OLDEST,
    RECEIVER_BYTES,
    RECEIVER_CLAIMS,
    RECEIVER_COMMIT,
    RECEIVER_ITEMS,
    RECEIVER_OLDEST,
    RECEIVER_REQUESTS,
    RECEIVER_ROOM,
    RECEIVER_TRACES,
    RECEIVER_WAITING,
    REQUESTS,
    TOTALS_FORGOTTEN,
    UNDEFINED,
)

__all__ = ["ANALYZER"]

_EXPORTER: Final = "It fills when the exporter runs."
_RECEIVER: Final = "It fills when `ragtrace serve` runs and Prometheus scrapes its /metrics."


def _stat(
    title: str, description: str, expr: str, legend: str, unit: Unit, *marks: float, empty: str = _EXPORTER
) -> Panel:
    """A number that is green, orange from the first mark, red from the second."""
    colors = [Threshold(mark, color) for mark, color in zip(marks, ("orange", "red"), strict=False)]  # type: ignore[arg-type]  # colors
    return Panel(
        title=title,
        kind="stat",
        description=description,
        unit=unit,
        targets=(Target(expr, legend),),
        width=6,
        height=5,
        thresholds=(Threshold(None, "green"), *colors) if marks else (),
        empty=empty,
    )


def _over_time(
    title: str,
    description: str,
    expr: str,
    legend: str,
    *,
    unit: Unit = "short",
    width: int = 12,
    empty: str = _EXPORTER,
) -> Panel:
    return over_time(title, description, Target(expr, legend), unit=unit, width=width, empty=empty)


ANALYZER: Final = Dashboard(
    uid="ragtrace-analyzer",
    title="ragtrace: the analyzer",
    description="Does the analyzer keep up, what does it cost, what does it lose? Owner: platform.",
    sections=(
        PanelSection(
            "Does it keep up?",
            (
                _stat(
                    "Time since the last result",
                    f"{ANALYZER_LAST_SUCCESS.brief} A stalled analyzer is silence on all other dashboards.",
                    f"time() - max by (service) ({selector(ANALYZER_LAST_SUCCESS)})",
                    "{{service}}",
                    "s",
                    600,
                    1800,
                ),
                _stat(
                    "Age of the oldest job",
                    f"{QUEUE_OLDEST.brief} Past five minutes, results no longer count in the indicators.",
                    f"max by (job_kind) ({selector(QUEUE_OLDEST)})",
                    "{{job_kind}}",
                    "s",
                    120,
                    300,
                ),
                _stat(
                    "Results that came too late",
                    f"{LATE_EVALUATIONS.brief} In the whole range.",
                    f"round({gained(LATE_EVALUATIONS)})",
                    "requests",
                    "short",
                    1,
                    100,
                ),
                _stat(
                    "Dropped",
                    f"{DROPPED.brief} In the whole range.",
                    f"round({gained(DROPPED)})",
                    "items",
                    "short",
                    1,
                    100,
                ),
                quantiles(ANALYZER_LAG, title="From a request's end to its result"),
                _over_time("Jobs", QUEUE_JOBS.brief, f"sum by (state) ({selector(QUEUE_JOBS)})", "{{state}}"),
            ),
        ),
        PanelSection(
            "What does it cost?",
            (
                _over_time(
                    "Results", ANALYSES.brief, f"60 * {rate(ANALYSES, 'job_kind')}", "{{job_kind}}", unit="cpm", width=8
                ),
                _over_time(
                    "Time spent",
                    f"{ANALYSIS_COST.brief} Seconds in each second: 1 is one processor that never rests.",
                    rate(ANALYSIS_COST, "job_kind", "resource"),
                    "{{job_kind}} on {{resource}}",
                    width=8,
                ),
                _over_time(
                    "Cost of one result",
                    f"{ANALYSIS_COST.brief} Divided by the results of the same kind.",
                    share(
                        rate(ANALYSIS_COST, "job_kind", "resource"),
                        rate(ANALYSES, "job_kind"),
                        on="job_kind",
                    ),
                    "{{job_kind}} on {{resource}}",
                    unit="s",
                    width=8,
                ),
            ),
        ),
        PanelSection(
            "What is lost, or not known?",
            (
                _over_time(
                    "Dropped, by reason",
                    DROPPED.brief,
                    increase(DROPPED, "reason", window=WINDOW),
                    "{{reason}}",
                    empty="It stays empty as long as nothing was dropped.",
                ),
                _over_time(
                    "Faults inside ragtrace, by place",
                    f"{INTERNAL_ERRORS.brief} `ragtrace doctor` names them.",
                    increase(INTERNAL_ERRORS, "where", window=WINDOW),
                    "{{where}}",
                    empty="It stays empty as long as nothing went wrong.",
                ),
                _over_time(
                    "Undefined scores, for each request",
                    f"{UNDEFINED.brief} Divided by the recorded requests.",
                    share(rate(UNDEFINED, "metric"), rate(REQUESTS), on=""),
                    "{{metric}}",
                    unit="percentunit",
                    empty=ANALYZE,
                ),
                _over_time(
                    "Results that came too late, by segment",
                    LATE_EVALUATIONS.brief,
                    increase(LATE_EVALUATIONS, "segment", window=WINDOW),
                    "{{segment}}",
                    empty=ANALYZE,
                ),
            ),
        ),
        PanelSection(
            "Does the receiver take what is sent?",
            (
                _stat(
                    "Senders that are asked to come back",
                    f"{RECEIVER_REQUESTS.brief} In the whole range, those that were busy or failed.",
                    f"round({gained(RECEIVER_REQUESTS, answer='~busy|failed')})",
                    "requests",
                    "short",
                    1,
                    100,
                    empty=_RECEIVER,
                ),
                _stat(
                    "Senders without a token",
                    f"{RECEIVER_REQUESTS.brief} In the whole range, those without a tenant's token.",
                    f"round({gained(RECEIVER_REQUESTS, answer='unauthorized')})",
                    "requests",
                    "short",
                    1,
                    100,
                    empty=_RECEIVER,
                ),
                _stat(
                    "Room that is taken",
                    RECEIVER_ROOM.brief,
                    f"max({selector(RECEIVER_ROOM)})",
                    "room",
                    "percentunit",
                    0.5,
                    1,
                    empty=_RECEIVER,
                ),
                _stat(
                    "Oldest trace that is due",
                    RECEIVER_OLDEST.brief,
                    f"max({selector(RECEIVER_OLDEST)})",
                    "overdue",
                    "s",
                    60,
                    600,
                    empty=_RECEIVER,
                ),
                _over_time(
                    "Requests, by answer",
                    RECEIVER_REQUESTS.brief,
                    f"60 * {rate(RECEIVER_REQUESTS, 'protocol', 'answer')}",
                    "{{answer}} over {{protocol}}",
                    unit="cpm",
                    empty=_RECEIVER,
                ),
                _over_time(
                    "Spans and log records, by fate",
                    RECEIVER_ITEMS.brief,
                    f"60 * {rate(RECEIVER_ITEMS, 'signal', 'fate')}",
                    "{{signal}} {{fate}}",
                    unit="cpm",
                    empty=_RECEIVER,
                ),
                quantiles(RECEIVER_COMMIT, title="Until a request is durable", empty=_RECEIVER),
                _over_time(
                    "Bytes", RECEIVER_BYTES.brief, rate(RECEIVER_BYTES, "signal"), "{{signal}}", empty=_RECEIVER
                ),
                _over_time(
                    "Traces that wait",
                    RECEIVER_WAITING.brief,
                    f"max({selector(RECEIVER_WAITING)})",
                    "traces",
                    empty=_RECEIVER,
                ),
                _over_time(
                    "Assembled traces",
                    RECEIVER_TRACES.brief,
                    f"60 * {rate(RECEIVER_TRACES, 'fate')}",
                    "{{fate}}",
                    unit="cpm",
                    empty=_RECEIVER,
                ),
                _over_time(
                    "What tenants say of sampling",
                    RECEIVER_CLAIMS.brief,
                    f"60 * {rate(RECEIVER_CLAIMS, 'claim')}",
                    "{{claim}}",
                    unit="cpm",
                    width=24,
                    empty=_RECEIVER,
                ),
            ),
        ),
        PanelSection(
            "What runs?",
            (
                Panel(
                    title="Versions of ragtrace",
                    kind="table",
                    description=BUILD_INFO.brief,
                    unit="short",
                    targets=(Target(f"count by (version) ({selector(BUILD_INFO)})", "exporters"),),
                    width=12,
                    height=6,
                    key=("version",),
                    empty=_EXPORTER,
                ),
                _over_time("Series", EXPOSITION_SERIES.brief, f"max({selector(EXPOSITION_SERIES)})", "shown", width=6),
                _over_time(
                    "Series left out",
                    EXPOSITION_DROPPED.brief,
                    f"max({selector(EXPOSITION_DROPPED)})",
                    "left out",
                    width=6,
                ),
                _over_time(
                    "Counted as `other`, by label",
                    LABEL_FOLDS.brief,
                    increase(LABEL_FOLDS, "label", window=WINDOW),
                    "{{label}}",
                    empty="It stays empty as long as every budget holds.",
                ),
                _over_time(
                    "Since somebody had a service forgotten",
                    TOTALS_FORGOTTEN.brief,
                    f"time() - max by (service) ({selector(TOTALS_FORGOTTEN)})",
                    "{{service}}",
                    unit="s",
                    empty="It stays empty where nobody had a service forgotten.",
                ),
            ),
        ),
    ),
)
