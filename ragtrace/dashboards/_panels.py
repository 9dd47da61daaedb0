"""Dashboards as data: dashboard, section, panel, target, threshold, link; and the panels that several dashboards have:
states of a stage, means, distributions, durations, versions, commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ragtrace.dashboards._promql import RANGE, WINDOW, gained, increase, mean, quantile, rate, selector, share
from ragtrace.registry import Instrument, Objective, StageInfo
from ragtrace.registry.instruments import (
    RELEASE_TIMESTAMP,
    SLI_DISTANT_REQUESTS,
    SLI_DOUBTED_REQUESTS,
    SLI_GOOD_REQUESTS,
    SLI_REQUESTS,
    SLI_UNJUDGED_REQUESTS,
    STAGE_DURATION,
    STAGES,
    UNDEFINED,
    VERSION_INFO,
)

__all__ = [
    "ANALYZE",
    "APART",
    "APPLIES",
    "COLORS",
    "EXPLAIN",
    "FEW_SAMPLES",
    "HARDLY_JUDGED",
    "Dashboard",
    "Link",
    "Panel",
    "PanelSection",
    "Target",
    "Threshold",
    "Unit",
    "commands",
    "distribution",
    "durations",
    "means",
    "over_time",
    "quantiles",
    "requests",
    "shares_over_time",
    "sound_by_segment",
    "sound_now",
    "sound_share",
    "stage_of",
    "state_shares",
    "states",
    "steps_of",
    "undefined",
    "versions_in_use",
    "with_others",
]

_Kind: TypeAlias = Literal["timeseries", "stacked", "stat", "table", "heatmap", "text"]
_Color: TypeAlias = Literal["green", "orange", "red"]
Unit: TypeAlias = Literal["percentunit", "short", "s", "cpm", "dateTimeAsIso", "none"]
_Named: TypeAlias = Literal["stages", "states"]

COLORS: Final[Mapping[_Named, Mapping[str, str]]] = {
    "stages": {"retrieval": "blue", "ranking": "orange", "generation": "green", "citation": "yellow"},
    "states": {"sound": "green", "broken": "red", "suspected": "orange", "not_known": "gray"},
}
"""The color of a series by the beginning of its name, where a panel's series are named after stages or states."""
FEW_SAMPLES: Final = "10m"
ANALYZE: Final = "It fills when `ragtrace analyze --follow` scores requests."
EXPLAIN: Final = "It fills when `ragtrace analyze --generator MODEL --retriever MODEL` explains requests."
APART: Final = ("reference", "judge")
"""Labels whose values are never mixed in one ratio."""
APPLIES: Final = (SLI_REQUESTS, SLI_UNJUDGED_REQUESTS)
"""What counts the requests to which a stage applies: those in which it is sound or broken, and the others."""
HARDLY_JUDGED: Final = 0.1
"""Share of the requests in which a stage is sound or broken, below which next to nothing of it is judged."""
_UNITS: Final[dict[str, Unit]] = {"1": "percentunit", "s": "s"}
_JUDGED: Final = "Only requests in which no earlier stage is broken or suspected; each reference and judge by itself."


class Target(msgspec.Struct, frozen=True):
    """One query. `legend` names its series (`{{label}}` is filled in) or, in a table, its column.

    `unit` differs from the panel's in tables only. `exemplar` asks for the traces behind the values.
    """

    expr: str
    legend: str
    unit: Unit | None = None
    exemplar: bool = False


class Threshold(msgspec.Struct, frozen=True):
    """A color from `value` upwards; the first threshold of a panel has none and holds from below."""

    value: float | None
    color: _Color


class Link(msgspec.Struct, frozen=True):
    """Where a value leads; `${__data.fields.label}` is the label of the value that was chosen."""

    title: str
    url: str


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One panel.

    `empty` says what fills the panel where it has no series. `line` is the target of a stage, or the threshold of a
    score, drawn as a line; `thresholds` color what lies on its sides. A point covers `least_step` at least, so that
    ratios of few requests do not jump. `key` lists the labels of a table that are its columns. `named`: what its series
    are named after, which have their colors. `text` is Markdown, of a text panel, which has no target.
    """

    title: str
    kind: _Kind
    description: str
    unit: Unit = "short"
    targets: tuple[Target, ...] = ()
    width: int = 8
    height: int = 8
    minimum: float | None = None
    maximum: float | None = None
    decimals: int | None = None
    line: float | None = None
    thresholds: tuple[Threshold, ...] = ()
    least_step: str | None = None
    key: tuple[str, ...] = ()
    largest_first: bool = False
    named: _Named | None = None
    links: tuple[Link, ...] = ()
    empty: str = ""
    text: str = ""


class PanelSection(msgspec.Struct, frozen=True):
    """Panels under one heading, from left to right and from top to bottom."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """One dashboard. `uid` is its address, which alerts link to."""

    uid: str
    title: str
    description: str
    sections: tuple[PanelSection, ...]

    @property
    def panels(self) -> Iterator[Panel]:
        """All panels in order."""
        return (panel for section in self.sections for panel in section.panels)


def over_time(
    title: str,
    description: str,
    *targets: Target,
    width: int = 12,
    minimum: float | None = 0,
    least_step: str | None = FEW_SAMPLES,
    empty: str = ANALYZE,
    kind: _Kind = "timeseries",
    **others: Any,
) -> Panel:
    """Lines over time, or what is `stacked`; others: as `Panel` has them."""
    return Panel(
        title=title,
        kind=kind,
        description=description,
        targets=targets,
        width=width,
        minimum=minimum,
        least_step=least_step,
        empty=empty,
        **others,
    )


def shares_over_time(title: str, description: str, *targets: Target, **others: Any) -> Panel:
    """Lines of shares from 0 to 1; others: as `over_time` has them."""
    return over_time(title, description, *targets, unit="percentunit", maximum=1, **others)


def steps_of(target: float) -> tuple[Threshold, ...]:
    """Colors of a share of good requests: green at the target, orange until its budget is used twice, red below."""
    return (
        Threshold(None, "red"),
        Threshold(round(1 - 2 * (1 - target), 4), "orange"),
        Threshold(target, "green"),
    )


def stage_of(name: str) -> StageInfo:
    """The stage of the registry by its name."""
    return next(stage for stage in STAGES if stage.name == name)


def _named(instrument: Instrument) -> str:
    """What a person calls the instrument: its id in words."""
    words = instrument.id.replace("_", " ")
    return words.replace("warg", "WARG") if words.startswith("warg") else words.capitalize()


def _target(stage: StageInfo) -> str:
    return f"Target: sound in {stage.target * 100:g} % of the requests in which {stage.name} is sound or broken."


def sound_share(stage: StageInfo, *by: str, window: str, scope: str = "conditional") -> str:
    """Share of the requests in which a stage is sound or broken in which it is sound, by reference, judge and more
    labels: two judges in one ratio would make a change of rules look like one of quality.

    scope: `conditional` counts only requests in which no earlier stage is broken or suspected, so that a stage answers
    for itself alone.
    """
    labels = {"stage": stage.name, "scope": scope}
    sound = increase(SLI_GOOD_REQUESTS, *by, *APART, window=window, **labels)
    return share(sound, increase(SLI_REQUESTS, *by, *APART, window=window, **labels))


def requests(*by: str, **labels: str) -> str:
    """How many requests a stage applied to in the range."""
    return f"round({gained(APPLIES, *by, scope='all', **labels)}) > 0"


def state_shares(*by: str, **labels: str) -> tuple[Target, ...]:
    """Shares of the range's requests in which a stage is sound, broken, suspected and not known, by labels, and how
    many requests there are: the columns of a table."""
    chosen = {"scope": "all", **labels}
    every = increase(APPLIES, *by, **chosen)
    judged, sound = (increase(one, *by, **chosen) for one in (SLI_REQUESTS, SLI_GOOD_REQUESTS))
    unjudged = {
        state: f"({increase(SLI_UNJUDGED_REQUESTS, *by, state=state, **chosen)} or 0 * {every})"
        for state in ("suspected", "not_known")
    }
    counts = {"sound": sound, "broken": f"({judged} - {sound})", **unjudged}
    return (
        *(Target(share(count, every), state) for state, count in counts.items()),
        Target(requests(*by, **labels), "requests", unit="short"),
    )


def sound_now(stage: StageInfo, *, empty: str = ANALYZE) -> Panel:
    """The share of requests in which a stage is sound over the whole range, as one number for each reference."""
    return Panel(
        title=f"{stage.name.capitalize()}: sound, of what is sound or broken",
        kind="stat",
        description=f"{_target(stage)} {_JUDGED}",
        unit="percentunit",
        targets=(Target(sound_share(stage, window=RANGE), "{{reference}}, judge {{judge}}"),),
        width=6,
        minimum=0,
        maximum=1,
        decimals=1,
        line=stage.target,
        thresholds=steps_of(stage.target),
        empty=empty,
    )


def sound_by_segment(stage: StageInfo, *, empty: str = ANALYZE) -> Panel:
    """The share of requests in which a stage is sound, of each segment over time."""
    return shares_over_time(
        f"{stage.name.capitalize()}: sound, of what is sound or broken, by segment",
        f"{_target(stage)} {_JUDGED} All lines down: a release. One line down: its documents or its questions.",
        Target(sound_share(stage, "segment", window=WINDOW), "{{segment}} ({{reference}}, {{judge}})", exemplar=True),
        width=18,
        line=stage.target,
        links=(_only_this_segment("ragtrace-overview"),),
        empty=empty,
    )


def states(stage: StageInfo, *, empty: str = ANALYZE) -> tuple[Panel, Panel, Panel]:
    """The states of a stage: shares by segment, counts over time with the reasons why it is not judged, and in which
    share of each segment's requests it is in doubt."""
    labels = {"stage": stage.name, "scope": "all"}
    judged, sound = rate(SLI_REQUESTS, **labels), rate(SLI_GOOD_REQUESTS, **labels)
    unjudged = f"60 * {rate(SLI_UNJUDGED_REQUESTS, 'state', 'reason', **labels)} > 0"
    return (
        Panel(
            title=f"{stage.name.capitalize()}: share of requests by state",
            kind="table",
            description="Broken is proven, suspected is not; nothing tells of what is not known. Of all requests, also "
            "those in which an earlier stage broke.",
            unit="percentunit",
            targets=state_shares("segment", *APART, stage=stage.name),
            width=14,
            minimum=0,
            maximum=1,
            decimals=0,
            key=("segment", *APART),
            empty=empty,
        ),
        over_time(
            f"{stage.name.capitalize()}: requests by state, and why it is not judged",
            f"{SLI_UNJUDGED_REQUESTS.brief} `ragtrace doctor` says what would tell more. All judges and "
            "references together.",
            Target(f"60 * {sound}", "sound"),
            Target(f"60 * ({judged} - {sound})", "broken", exemplar=True),
            Target(unjudged, "{{state}}: {{reason}}", exemplar=True),
            kind="stacked",
            unit="cpm",
            width=10,
            named="states",
            empty=empty,
        ),
        shares_over_time(
            f"{stage.name.capitalize()}: share of requests in which it is in doubt, by segment",
            f"{SLI_DOUBTED_REQUESTS.brief} It proves nothing of one request; a share that has clearly "
            "risen is a ticket to the owner of the first stage that rose."
            + (f" Far from the question: {SLI_DISTANT_REQUESTS.brief}" if stage.name == "generation" else ""),
            *(
                Target(
                    share(
                        increase(counted, "segment", *APART, window=WINDOW, stage=stage.name),
                        increase(APPLIES, "segment", *APART, window=WINDOW, **labels),
                    ),
                    f"{{{{segment}}}}{named} ({{{{reference}}}}, {{{{judge}}}})",
                    exemplar=True,
                )
                for counted, named in (
                    (SLI_DOUBTED_REQUESTS, ""),
                    *([(SLI_DISTANT_REQUESTS, ", far from the question")] if stage.name == "generation" else []),
                )
            ),
            width=24,
            links=(_only_this_segment("ragtrace-overview"),),
            empty=empty,
        ),
    )


def _only_this_segment(uid: str) -> Link:
    """From a value to the dashboard `uid` with nothing but the value's segment and service as before."""
    url = f"/d/{uid}?${{__url_time_range}}&${{datasource:queryparam}}&${{service:queryparam}}&${{stratum:queryparam}}"
    return Link("Only this segment", f"{url}&var-segment=${{__field.labels.segment}}")


def means(
    title: str, instruments: Iterable[Instrument], *, by: str = "", width: int = 12, empty: str = ANALYZE
) -> Panel:
    """Means of scores over time, one line for each reference, or of one score for each value of the label `by`.

    The threshold of a score that stands alone is drawn: what one request should reach. It is no target, and no request
    is judged by it.
    """
    chosen = tuple(instruments)
    alone = chosen[0].objective if len(chosen) == 1 else None
    labels = tuple(filter(None, (by,)))
    targets = [
        Target(
            mean(one, *labels, *(("reference",) if "reference" in one.attributes else ())),
            " ".join(filter(None, (f"{{{{{by}}}}}" if by else _named(one), _reference(one)))),
            exemplar=True,
        )
        for one in chosen
    ]
    return over_time(
        title,
        " ".join(f"{_named(one)}: {_in_sentence(one.brief)}" for one in chosen)
        + (f" One request should reach {alone.direction} {alone.threshold:g}." if alone else ""),
        *targets,
        unit="percentunit" if all(one.unit == "1" for one in chosen) else "short",
        width=width,
        maximum=1 if all(one.unit == "1" and one.buckets[-1] <= 1 for one in chosen) else None,
        line=alone.threshold if alone else None,
        thresholds=_sides_of(alone) if alone else (),
        empty=empty,
    )


def _sides_of(objective: Objective) -> tuple[Threshold, Threshold]:
    """Green on the side of a threshold that a score should be on, red on the other."""
    below, above = ("red", "green") if objective.direction == ">=" else ("green", "red")
    return Threshold(None, below), Threshold(objective.threshold, above)  # type: ignore[arg-type]  # colors


def _in_sentence(brief: str) -> str:
    """A brief behind a colon; an abbreviation at its beginning stays."""
    return brief if brief[1].isupper() else f"{brief[0].lower()}{brief[1:]}"


def _reference(one: Instrument) -> str:
    return "({{reference}})" if "reference" in one.attributes else ""


def distribution(instrument: Instrument, *, title: str = "", width: int = 12, empty: str = ANALYZE) -> Panel:
    """A heatmap of a histogram: time from left to right, buckets from bottom to top, darker where more fell."""
    return Panel(
        title=title or f"{_named(instrument)}: distribution",
        kind="heatmap",
        description=f"{instrument.brief} Darker: more of them in this bucket at this time.",
        unit="short" if instrument.buckets[-1] > 1 and instrument.unit == "1" else _UNITS.get(instrument.unit, "short"),
        targets=(Target(increase(instrument, "le", part="_bucket", window=WINDOW), "{{le}}"),),
        width=width,
        least_step=FEW_SAMPLES,
        empty=empty,
    )


def durations(*stages: str, width: int = 12) -> Panel:
    """Quantiles of the wall time of runs of stages."""
    pattern = "~" + "|".join(stages)
    counted = rate(STAGE_DURATION, "le", "stage", part="_bucket", stage=pattern)
    return over_time(
        f"Duration of {' and '.join(stages)}",
        f"{STAGE_DURATION.brief} Median and 95th percentile, estimated from buckets.",
        *(Target(f"histogram_quantile({q:g}, {counted})", f"{{{{stage}}}} p{q * 100:g}") for q in (0.5, 0.95)),
        unit="s",
        width=width,
    )


def undefined(*instruments: Instrument, width: int = 12) -> Panel:
    """Why scores are undefined."""
    pattern = "~" + "|".join(one.id for one in instruments)
    return over_time(
        "Undefined scores, by reason",
        f"{UNDEFINED.brief} A share that grows means that the other panels speak for fewer requests.",
        Target(f"60 * {rate(UNDEFINED, 'metric', 'reason', metric=pattern)} > 0", "{{metric}}: {{reason}}"),
        kind="stacked",
        unit="cpm",
        width=width,
        empty="It stays empty as long as every score is defined.",
    )


def with_others(sections: tuple[PanelSection, ...], scores: Iterable[Instrument]) -> tuple[PanelSection, ...]:
    """The sections of a dashboard, and one more for those of its scores that none of their panels shows: a new score of
    the registry is seen before somebody draws a better panel of it."""
    shown = "\n".join(target.expr for section in sections for panel in section.panels for target in panel.targets)
    unseen = [one for one in scores if not re.search(rf"\b{one.name}_(bucket|sum|count)\b", shown)]
    if not unseen:
        return sections
    panels = (
        means(_named(one), (one,), width=24) if one.unit == "1" else quantiles(one, title=_named(one), width=24)
        for one in unseen
    )
    return (*sections, PanelSection("Other scores", (*panels, undefined(*unseen, width=24))))


def versions_in_use(stage: str, width: int = 12) -> Panel:
    """The newest version of each component that belongs to a stage, and since when it is seen."""
    components = stage_of(stage).components
    pattern = "~" + "|".join(components)
    keys = "service, component, version"
    newest = f"max by ({keys}) ({selector(VERSION_INFO, component=pattern)})"
    first_seen = f"max by ({keys}) ({selector(RELEASE_TIMESTAMP, component=pattern)})"
    return Panel(
        title="Versions in use, and since when",
        kind="table",
        description=f"{RELEASE_TIMESTAMP.brief} Components of this stage: {', '.join(components)}.",
        unit="dateTimeAsIso",
        targets=(Target(f"1000 * {first_seen} * on ({keys}) {newest}", "first seen"),),
        width=width,
        key=("service", "component", "version"),
        largest_first=True,
        empty="It fills when records carry versions: `ragtrace.configure(versions={...})` or `ragtrace release "
        "record`.",
    )


def quantiles(instrument: Instrument, *, title: str, width: int = 12, empty: str = ANALYZE) -> Panel:
    """Median and 95th percentile of what a histogram observed."""
    return over_time(
        title,
        f"{instrument.brief} Median and 95th percentile, estimated from buckets.",
        *(Target(quantile(q, instrument), f"p{q * 100:g}", exemplar=q > 0.5) for q in (0.5, 0.95)),
        unit=_UNITS.get(instrument.unit, "short"),
        width=width,
        empty=empty,
    )


def commands(*, width: int = 24, height: int = 6) -> PanelSection:
    """What to run next, with the names and times that are chosen, and the way to a trace."""
    text = """\
The dots on a line are traces of single requests. Click one for its `trace_id`, or put an id into **Trace id** above \
and open [this trace](${trace_url:raw}${trace_id:raw}).

```sh
# what broke first in these requests, with proof, owner, suspected release and three examples
ragtrace triage segment SEGMENT --service SERVICE --since ${__from:date:iso}
# the evidence path of one request
ragtrace show REQUEST_ID
```
"""
    panel = Panel(
        title="From here to single requests",
        kind="text",
        description="Commands that lead from a panel to the requests behind it.",
        text=text,
        width=width,
        height=height,
    )
    return PanelSection("What to do next", (panel,))
