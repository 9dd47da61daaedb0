"""The overview: which stage is failing, everywhere or in one segment, since which rollout."""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards.model import Dashboard, Link, Panel, Section, Target, steps_of
from ragtrace.dashboards.panels import (
    ANALYZE,
    FEW_SAMPLES,
    SLIS,
    commands,
    good_share,
    named,
    objective_of,
)
from ragtrace.dashboards.promql import RANGE, WINDOW, gained, increase, share
from ragtrace.dashboards.variables import KNOWN_RELEASES
from ragtrace.registry.instruments import DIAGNOSES, RELEASE_TIMESTAMP

__all__ = ["OVERVIEW"]

_WORST: Final = min((objective_of(one) for one in SLIS), key=lambda objective: objective.target)
_COLORS: Final = steps_of(_WORST)

_BY_STAGE: Final = Panel(
    title="Requests that meet the objective, by stage",
    kind="stat",
    description="First stage first. Each counts only requests whose earlier stages were good: the first that is not "
    "green "
    "is where to look, and what follows it is judged without the requests that it broke.",
    unit="percentunit",
    targets=tuple(
        Target(good_share(one, window=RANGE), f"{one.stage}: {named(one).lower()} ({{{{reference}}}})") for one in SLIS
    ),
    width=16,
    height=6,
    minimum=0,
    maximum=1,
    decimals=1,
    line=_WORST.target,
    thresholds=_COLORS,
    empty=ANALYZE,
)

_BROKE_FIRST: Final = Panel(
    title="Requests by the stage that broke first",
    kind="stat",
    description=f"{DIAGNOSES.brief} Share of all diagnosed requests; `none` are those where nothing broke.",
    unit="percentunit",
    targets=(
        Target(
            f"sort_desc({share(increase(DIAGNOSES, 'stage'), increase(DIAGNOSES), on='')})",
            "{{stage}}",
        ),
    ),
    width=8,
    height=6,
    minimum=0,
    maximum=1,
    decimals=1,
    empty=ANALYZE,
)

_BY_SEGMENT: Final = Panel(
    title="Requests that meet the objective, by segment and stage",
    kind="table",
    description="A column that is red in every row is a fault of that stage; a single red cell is one of a segment. "
    "Only requests whose earlier stages were good; oracle and proxy references stand apart.",
    unit="percentunit",
    targets=(
        *(
            Target(good_share(one, "service", "segment", window=RANGE), f"{one.stage}: {named(one).lower()}")
            for one in SLIS
        ),
        Target(f"round({gained(DIAGNOSES, 'service', 'segment', 'reference')}) > 0", "requests", unit="short"),
    ),
    width=24,
    height=9,
    minimum=0,
    maximum=1,
    decimals=1,
    thresholds=_COLORS,
    key=("service", "segment", "reference"),
    links=(
        Link(
            "Only this segment",
            "/d/ragtrace-overview?${__url_time_range}&${datasource:queryparam}&${stratum:queryparam}"
            "&var-service=${__data.fields.service}&var-segment=${__data.fields.segment}",
        ),
    ),
    empty=ANALYZE,
)

_ALERTS: Final = Panel(
    title="Alerts that fire",
    kind="table",
    description="Alerts of ragtrace that Prometheus holds as firing now, with the owner who was told.",
    unit="short",
    targets=(
        Target(
            "sum by (alertname, owner, service, segment)"
            ' (ALERTS{alertname=~"Ragtrace.+",alertstate="firing",service=~"($service)?"})',
            "alerts",
        ),
    ),
    width=24,
    height=7,
    key=("alertname", "service", "segment", "owner"),
    empty="No alert of ragtrace fires, or its rules are not loaded into this Prometheus.",
)

_SINCE: Final = Panel(
    title="Requests that meet the objective, by stage, over time",
    kind="timeseries",
    description="Vertical lines are releases. A line that falls behind one names the suspect. Only requests whose "
    "earlier "
    "stages were good.",
    unit="percentunit",
    targets=tuple(
        Target(good_share(one, window=WINDOW), f"{one.stage}: {named(one).lower()} ({{{{reference}}}})", exemplar=True)
        for one in SLIS
    ),
    width=14,
    height=10,
    minimum=0,
    maximum=1,
    line=_WORST.target,
    least_step=FEW_SAMPLES,
    by_stage=True,
    empty=ANALYZE,
)

_RELEASES: Final = Panel(
    title="Releases",
    kind="table",
    description=f"{RELEASE_TIMESTAMP.brief} Newest first.",
    unit="dateTimeAsIso",
    targets=(Target(KNOWN_RELEASES, "first seen"),),
    width=10,
    height=10,
    key=("component", "version", "service"),
    newest_first=True,
    empty="It fills when records carry versions: `ragtrace.configure(versions={...})` or `ragtrace release record`.",
)

_FIRST_BREAKS: Final = Panel(
    title="Share of requests by the stage that broke first, over time",
    kind="stacked",
    description=f"{DIAGNOSES.brief} The whole height is the share of requests that broke anywhere.",
    unit="percentunit",
    targets=(
        Target(
            share(
                increase(DIAGNOSES, "stage", window=WINDOW, stage="~" + "|".join(one.stage or "" for one in SLIS)),
                increase(DIAGNOSES, window=WINDOW),
                on="",
            ),
            "{{stage}}",
            exemplar=True,
        ),
    ),
    width=24,
    height=8,
    minimum=0,
    least_step=FEW_SAMPLES,
    links=(
        Link(
            "The dashboard of this stage",
            "/d/ragtrace-${__field.labels.stage}?${__url_time_range}&${datasource:queryparam}&${service:queryparam}"
            "&${segment:queryparam}&${stratum:queryparam}",
        ),
    ),
    by_stage=True,
    empty=ANALYZE,
)

OVERVIEW: Final = Dashboard(
    uid="ragtrace-overview",
    title="ragtrace: overview",
    description="Which stage is failing, everywhere or in one segment, and since which rollout.",
    sections=(
        Section("Which stage is failing?", (_BY_STAGE, _BROKE_FIRST)),
        Section("Everywhere, or in one segment?", (_BY_SEGMENT, _ALERTS)),
        Section("Since when, and since which rollout?", (_SINCE, _RELEASES, _FIRST_BREAKS)),
        commands(),
    ),
)
