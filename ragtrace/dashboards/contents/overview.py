"""A service as a whole. The overview: which stage is failing, everywhere or in one segment, since which rollout, and
how much is known. Outcomes: what people and verifiers say of the answers, beside what the stages say."""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards._panels import (
    ANALYZE,
    APART,
    APPLIES,
    HARDLY_JUDGED,
    Dashboard,
    Link,
    Panel,
    PanelSection,
    Target,
    Threshold,
    commands,
    durations,
    over_time,
    requests,
    shares_over_time,
    sound_share,
    state_shares,
    steps_of,
)
from ragtrace.dashboards._promql import KNOWN_RELEASES, RANGE, WINDOW, gained, increase, rate, selector, share
from ragtrace.registry.instruments import (
    CALIBRATION_BLAMED,
    CALIBRATION_NAMED,
    CORRECTED_RATE,
    CORRECTED_RATE_TIMESTAMP,
    DIAGNOSES,
    OUTCOMES as JUDGMENTS,
    PAGE_JUDGMENTS,
    RELEASE_TIMESTAMP,
    REQUESTS,
    SLI_REQUESTS,
    SLI_UNJUDGED_REQUESTS,
    STAGE_COST,
    STAGE_TOKENS,
    STAGES,
)

__all__ = ["OUTCOMES", "OVERVIEW"]

_LEAST_TARGET: Final = min(stage.target for stage in STAGES)
_COLORS: Final = steps_of(_LEAST_TARGET)
_STAGES: Final = "~" + "|".join(stage.name for stage in STAGES)


def _most_frequent_reason() -> str:
    """Of stages that are hardly judged, the share of requests with the most frequent state and reason."""
    keys = ("service", "stage", "judge")
    every = increase(APPLIES, *keys, scope="all")
    reasons = increase(SLI_UNJUDGED_REQUESTS, *keys, "state", "reason", scope="all")
    judged = share(increase(SLI_REQUESTS, *keys, scope="all"), every)
    shares = share(f"topk by ({', '.join(keys)}) (1, {reasons})", every, on=", ".join(keys))
    return f"{shares} and on ({', '.join(keys)}) {judged} < {HARDLY_JUDGED:g}"


_OF_PAGES: Final = ("severity", "stage")
_EVERY_PAGE: Final = increase(PAGE_JUDGMENTS, *_OF_PAGES)

_BY_STAGE: Final = Panel(
    title="Requests in which each stage is sound, of those in which it is sound or broken",
    kind="stat",
    description="First stage first. Each counts only requests in which no earlier stage is broken or suspected: the "
    "first that is not green is where to look, and what follows it is judged without the requests that it broke.",
    unit="percentunit",
    targets=tuple(
        Target(sound_share(stage, window=RANGE), f"{stage.name} ({{{{reference}}}}, {{{{judge}}}})") for stage in STAGES
    ),
    width=16,
    height=6,
    minimum=0,
    maximum=1,
    decimals=1,
    line=_LEAST_TARGET,
    thresholds=_COLORS,
    empty=ANALYZE,
)

_VERDICTS: Final = Panel(
    title="Requests by verdict",
    kind="stat",
    description="Share of all diagnosed requests. `healthy`: every stage is sound; `no_break_found`: none is broken, "
    "and some are not judged; the others name the first broken stage.",
    unit="percentunit",
    targets=(
        Target(
            f"sort_desc({share(increase(DIAGNOSES, 'verdict'), increase(DIAGNOSES), on='')} > 0)",
            "{{verdict}}",
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
    title="Requests in which each stage is sound, by segment",
    kind="table",
    description="A column that is red in every row is a fault of that stage; a single red cell is one of a segment. "
    "Of requests in which the stage is sound or broken, and no earlier one broken or suspected. Oracle and proxy "
    "references stand apart, and so do judges.",
    unit="percentunit",
    targets=(
        *(Target(sound_share(stage, "service", "segment", window=RANGE), stage.name) for stage in STAGES),
        Target(requests("service", "segment", *APART, stage=STAGES[0].name), "requests", unit="short"),
    ),
    width=24,
    height=9,
    minimum=0,
    maximum=1,
    decimals=1,
    thresholds=_COLORS,
    key=("service", "segment", *APART),
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
    width=14,
    height=7,
    key=("alertname", "service", "segment", "owner"),
    empty="No alert of ragtrace fires, or its rules are not loaded into this Prometheus.",
)

_PAGES: Final = Panel(
    title="Were the alerts right?",
    kind="table",
    description=f"{PAGE_JUDGMENTS.brief} By `ragtrace triage judge`, in the whole range: choose weeks. Four of five "
    "pages should be right.",
    unit="percentunit",
    targets=(
        Target(share(increase(PAGE_JUDGMENTS, *_OF_PAGES, judgment="right"), _EVERY_PAGE), "right"),
        *(
            Target(
                f"round({gained(PAGE_JUDGMENTS, *_OF_PAGES, judgment=judgment)})"
                f" and on ({', '.join(_OF_PAGES)}) {_EVERY_PAGE} > 0",
                legend,
                unit="short",
            )
            for legend, judgment in (("wrong stage", "wrong_stage"), ("false", "false"), ("judged", "~.+"))
        ),
    ),
    width=10,
    height=7,
    minimum=0,
    maximum=1,
    decimals=0,
    thresholds=(Threshold(None, "red"), Threshold(0.6, "orange"), Threshold(0.8, "green")),
    key=("severity", "stage"),
    empty="It fills when on-call judges an alert: `ragtrace triage judge`.",
)

_KNOWN: Final = Panel(
    title="How much of each stage is known",
    kind="table",
    description="Share of requests by the state of each stage. Sound and broken are proven; suspected points to a "
    "break without proof; nothing tells of what is not known.",
    unit="percentunit",
    targets=state_shares("service", "stage", *APART),
    width=24,
    height=8,
    minimum=0,
    maximum=1,
    decimals=0,
    key=("service", "stage", *APART),
    empty=ANALYZE,
)

_REASONS: Final = Panel(
    title="Why requests are not judged",
    kind="table",
    description=f"{SLI_UNJUDGED_REQUESTS.brief} Most frequent first; `ragtrace doctor` says what would change it.",
    unit="short",
    targets=(
        Target(
            f"round({gained(SLI_UNJUDGED_REQUESTS, 'service', 'stage', 'state', 'reason', scope='all')}) > 0",
            "requests",
        ),
    ),
    width=12,
    height=8,
    key=("service", "stage", "state", "reason"),
    largest_first=True,
    empty="It stays empty as long as every stage of every request is sound or broken.",
)

_HARDLY_JUDGED: Final = Panel(
    title="Stages of which next to nothing can be judged",
    kind="table",
    description=f"Stages that are sound or broken in less than {HARDLY_JUDGED:.0%} of a service's requests, so that "
    "no alert can speak for them, and the most frequent reason. `ragtrace doctor` says what would change it.",
    unit="percentunit",
    targets=(Target(_most_frequent_reason(), "share of requests"),),
    width=12,
    height=8,
    minimum=0,
    maximum=1,
    decimals=0,
    key=("service", "stage", "judge", "state", "reason"),
    empty=f"Each stage is sound or broken in {HARDLY_JUDGED:.0%} of the requests or more, or nothing was analyzed.",
)

_PROMISED: Final = Panel(
    title="What is named of injected losses, and blamed of sound requests",
    kind="table",
    description=f"{CALIBRATION_NAMED.brief} Natural losses are others. Blamed: {CALIBRATION_BLAMED.brief.lower()}",
    unit="percentunit",
    targets=(
        *(
            Target(f"max by (service) ({selector(CALIBRATION_NAMED, stage=stage.name)})", stage.name)
            for stage in STAGES
        ),
        Target(f"max by (service) ({selector(CALIBRATION_NAMED, stage='any')})", "named of all"),
        Target(f"max by (service) ({selector(CALIBRATION_BLAMED, bound='estimate')})", "blamed, at most"),
        Target(f"max by (service) ({selector(CALIBRATION_BLAMED, bound='high')})", "upper end"),
    ),
    width=24,
    height=6,
    minimum=0,
    maximum=1,
    decimals=1,
    key=("service",),
    empty="It fills once a calibration is accepted: `ragtrace calibrate --service S` (docs/how-to/calibrate.md).",
)

_SINCE: Final = shares_over_time(
    "Requests in which each stage is sound, over time",
    "Vertical lines are releases. A line that falls behind one names the suspect. Of requests in which the "
    "stage is sound or broken, and no earlier one broken or suspected.",
    *(
        Target(sound_share(stage, window=WINDOW), f"{stage.name} ({{{{reference}}}}, {{{{judge}}}})", exemplar=True)
        for stage in STAGES
    ),
    width=14,
    height=10,
    line=_LEAST_TARGET,
    named="stages",
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
    largest_first=True,
    empty="It fills when records carry versions: `ragtrace.configure(versions={...})` or `ragtrace release record`.",
)

_TOKENS: Final = over_time(
    "Tokens in a minute, by stage",
    f"{STAGE_TOKENS.brief} Counts that providers report, of a model's tokenizer, and estimates by the "
    "length of texts stand apart.",
    Target(f"60 * {rate(STAGE_TOKENS, 'stage', 'direction', 'counted')}", "{{stage}} {{direction}} ({{counted}})"),
    unit="cpm",
)

_COST: Final = over_time(
    "Cost in an hour, by stage and model",
    f"{STAGE_COST.brief}",
    Target(f"3600 * {rate(STAGE_COST, 'stage', 'model')}", "{{stage}}, {{model}}"),
    empty="It fills when the worker knows prices: `ragtrace analyze --prices` or `configure(prices=)`.",
)

_FIRST_BREAKS: Final = over_time(
    "Share of requests by the stage that broke first, over time",
    f"{DIAGNOSES.brief} The whole height is the share of requests that broke anywhere.",
    Target(
        share(
            increase(DIAGNOSES, "stage", window=WINDOW, stage=_STAGES),
            increase(DIAGNOSES, window=WINDOW),
            on="",
        ),
        "{{stage}}",
        exemplar=True,
    ),
    kind="stacked",
    unit="percentunit",
    width=24,
    height=8,
    links=(
        Link(
            "The dashboard of this stage",
            "/d/ragtrace-${__field.labels.stage}?${__url_time_range}&${datasource:queryparam}&${service:queryparam}"
            "&${segment:queryparam}&${stratum:queryparam}",
        ),
    ),
    named="stages",
)

OVERVIEW: Final = Dashboard(
    uid="ragtrace-overview",
    title="ragtrace: overview",
    description="Which stage is failing, everywhere or in one segment, since which rollout, and how much is known.",
    sections=(
        PanelSection("Which stage is failing?", (_BY_STAGE, _VERDICTS)),
        PanelSection("Everywhere, or in one segment?", (_BY_SEGMENT, _ALERTS, _PAGES)),
        PanelSection("Since when, and since which rollout?", (_SINCE, _RELEASES, _FIRST_BREAKS)),
        PanelSection(
            "What do the stages take?", (durations("retrieve", "rerank", "pack", "generate", width=24), _TOKENS, _COST)
        ),
        PanelSection("How much can be judged?", (_KNOWN, _HARDLY_JUDGED, _REASONS, _PROMISED)),
        commands(),
    ),
)


# outcomes

_FEEDBACK: Final = "It fills when the application calls `ragtrace.feedback` on a request."
_WORDS: Final = {
    "task": "Tasks that succeeded",
    "rating": "Answers that people rated as good",
    "verifier": "Answers that passed the verifier",
}


def _good(outcome: str, *by: str, window: str) -> str:
    return share(
        increase(JUDGMENTS, *by, window=window, outcome=outcome, result="good"),
        increase(JUDGMENTS, *by, window=window, outcome=outcome),
    )


def _now(outcome: str, title: str) -> Panel:
    return Panel(
        title=title,
        kind="stat",
        description=f"{JUDGMENTS.brief} Share of `{outcome}` judgments that are good, over the whole range.",
        unit="percentunit",
        targets=(Target(_good(outcome, window=RANGE), title),),
        width=8,
        height=5,
        minimum=0,
        maximum=1,
        decimals=1,
        empty=_FEEDBACK,
    )


def _by_segment(outcome: str, title: str) -> Panel:
    return shares_over_time(
        f"{title}, by segment",
        f"{JUDGMENTS.brief} Share of `{outcome}` judgments that are good.",
        Target(_good(outcome, "segment", window=WINDOW), "{{segment}}", exemplar=True),
        width=8,
        empty=_FEEDBACK,
    )


_BESIDE: Final = shares_over_time(
    "Outcomes beside the diagnosis",
    "Share of good judgments, and shares of diagnosed requests in which no stage is broken, and in which "
    "all are sound. Where outcomes fall and the diagnosis does not, something breaks that no stage measures.",
    *(Target(_good(outcome, window=WINDOW), title.lower()) for outcome, title in _WORDS.items()),
    Target(
        share(increase(DIAGNOSES, window=WINDOW, stage="none"), increase(DIAGNOSES, window=WINDOW)),
        "no stage is broken",
    ),
    Target(
        share(increase(DIAGNOSES, window=WINDOW, verdict="healthy"), increase(DIAGNOSES, window=WINDOW)),
        "every stage is sound",
    ),
    width=16,
)

_JUDGED: Final = over_time(
    "Judgments",
    f"{JUDGMENTS.brief} Few judgments make shares that jump.",
    Target(f"60 * {rate(JUDGMENTS, 'outcome', 'result')}", "{{outcome}}: {{result}}"),
    kind="stacked",
    unit="cpm",
    width=8,
    empty=_FEEDBACK,
)

_LABELS: Final = "It fills once `ragtrace label rates` had labels enough (docs/how-to/label.md)."

_CORRECTED: Final = Panel(
    title="How often does each stage really break?",
    kind="table",
    description=f"{CORRECTED_RATE.brief} The last window that was labeled; alerts do not rest on it.",
    unit="percentunit",
    targets=tuple(
        Target(f"max by (service, stage) ({selector(CORRECTED_RATE, bound=bound)})", name)
        for bound, name in (("estimate", "share"), ("low", "at least"), ("high", "at most"))
    ),
    width=16,
    key=("service", "stage"),
    decimals=1,
    empty=_LABELS,
)

_LABELED: Final = Panel(
    title="Time since the labeled window ended",
    kind="stat",
    description=f"{CORRECTED_RATE_TIMESTAMP.brief} What changed since then is not in the rates.",
    unit="s",
    targets=(Target(f"time() - max by (service) ({selector(CORRECTED_RATE_TIMESTAMP)})", "{{service}}"),),
    width=8,
    height=8,
    empty=_LABELS,
)

_RECORDED: Final = over_time(
    "Recorded requests, by segment",
    f"{REQUESTS.brief} All that follows speaks for these.",
    Target(f"60 * {rate(REQUESTS, 'segment')}", "{{segment}}", exemplar=True),
    kind="stacked",
    unit="cpm",
    empty="It fills when the application records requests.",
)

_ERRORS: Final = over_time(
    "Requests that ended with an exception",
    f"{REQUESTS.brief} Share of those whose status is `error`, by segment.",
    Target(share(rate(REQUESTS, "segment", status="error"), rate(REQUESTS, "segment")), "{{segment}}", exemplar=True),
    unit="percentunit",
    empty="It stays empty as long as no request ended with an exception.",
)

OUTCOMES: Final = Dashboard(
    uid="ragtrace-outcomes",
    title="ragtrace: outcomes",
    description="Task success, ratings and verifiers, beside what the diagnosis says.",
    sections=(
        PanelSection("How good are the answers?", tuple(_now(*each) for each in _WORDS.items())),
        PanelSection("In which segment?", tuple(_by_segment(*each) for each in _WORDS.items())),
        PanelSection("Does the diagnosis agree?", (_BESIDE, _JUDGED)),
        PanelSection("What people's labels say", (_CORRECTED, _LABELED)),
        PanelSection("Traffic", (_RECORDED, _ERRORS)),
        commands(),
    ),
)
