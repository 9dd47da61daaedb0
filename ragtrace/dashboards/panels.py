"""Panels that several dashboards have: shares of good requests, means, distributions, durations, versions, commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ragtrace.dashboards.model import Link, Panel, Section, Target, Unit, steps_of
from ragtrace.dashboards.promql import RANGE, WINDOW, increase, mean, quantile, rate, selector, share
from ragtrace.registry import Instrument, Objective
from ragtrace.registry.instruments import (
    INSTRUMENTS,
    RELEASE_TIMESTAMP,
    SLI_GOOD_REQUESTS,
    SLI_REQUESTS,
    STAGE_DURATION,
    STAGES,
    UNDEFINED,
    VERSION_INFO,
)

__all__ = [
    "ANALYZE",
    "EXPLAIN",
    "FEW_SAMPLES",
    "SLIS",
    "commands",
    "distribution",
    "durations",
    "good_by_segment",
    "good_now",
    "good_share",
    "means",
    "named",
    "objective_of",
    "only_this_segment",
    "quantiles",
    "undefined",
    "versions_in_use",
]

FEW_SAMPLES: Final = "10m"

ANALYZE: Final = "It fills when `ragtrace analyze --follow` scores requests."
EXPLAIN: Final = "It fills when `ragtrace analyze --generator MODEL --retriever MODEL` explains requests."

_UNITS: Final[dict[str, Unit]] = {"1": "percentunit", "s": "s"}

_ORDER: Final = {stage.name: stage.order for stage in STAGES}

SLIS: Final[tuple[Instrument, ...]] = tuple(
    sorted((one for one in INSTRUMENTS.values() if one.sli), key=lambda one: _ORDER[one.stage or ""])
)
"""The instruments that carry a service level indicator, first stage first."""


def named(instrument: Instrument) -> str:
    """What a person calls the instrument: its id in words."""
    words = instrument.id.replace("_", " ")
    return words.replace("warg", "WARG") if words.startswith("warg") else words.capitalize()


def objective_of(instrument: Instrument) -> Objective:
    """Its objective; an instrument without one is an error of whoever asks."""
    assert instrument.objective is not None, instrument.id
    return instrument.objective


def _goal(instrument: Instrument) -> str:
    objective = objective_of(instrument)
    return f"{objective.direction} {objective.threshold:g} for {objective.target * 100:g} % of the requests"


def good_share(instrument: Instrument, *by: str, window: str, scope: str = "conditional") -> str:
    """Share of the requests that meet the objective, by reference and more labels.

    scope: `conditional` counts only requests whose earlier stages were good, so that a stage answers for itself alone.
    """
    assert instrument.sli is not None, instrument.id
    labels = {"metric": instrument.sli.name, "scope": scope}
    good = increase(SLI_GOOD_REQUESTS, *by, "reference", window=window, **labels)
    return share(good, increase(SLI_REQUESTS, *by, "reference", window=window, **labels))


def good_now(instrument: Instrument) -> Panel:
    """The share of good requests over the whole range, as one number for each reference."""
    return Panel(
        title=f"{named(instrument)}: requests that meet the objective",
        kind="stat",
        description=f"{instrument.brief} Objective: {_goal(instrument)}. Only requests whose earlier stages were good.",
        unit="percentunit",
        targets=(Target(good_share(instrument, window=RANGE), "reference: {{reference}}"),),
        width=6,
        minimum=0,
        maximum=1,
        decimals=1,
        line=objective_of(instrument).target,
        thresholds=steps_of(objective_of(instrument)),
        empty=ANALYZE,
    )


def good_by_segment(instrument: Instrument, width: int = 18) -> Panel:
    """The share of good requests of each segment over time."""
    return Panel(
        title=f"{named(instrument)}: requests that meet the objective, by segment",
        kind="timeseries",
        description=f"{instrument.brief} Objective: {_goal(instrument)}. Only requests whose earlier stages were good; "
        "one line for each segment. All lines down: a release. One line down: its documents or its questions.",
        unit="percentunit",
        targets=(
            Target(good_share(instrument, "segment", window=WINDOW), "{{segment}} ({{reference}})", exemplar=True),
        ),
        width=width,
        minimum=0,
        maximum=1,
        line=objective_of(instrument).target,
        least_step=FEW_SAMPLES,
        links=(only_this_segment("ragtrace-overview"),),
        empty=ANALYZE,
    )


def only_this_segment(uid: str) -> Link:
    """From a value to the dashboard `uid` with nothing but the value's segment and service as before."""
    url = f"/d/{uid}?${{__url_time_range}}&${{datasource:queryparam}}&${{service:queryparam}}&${{stratum:queryparam}}"
    return Link("Only this segment", f"{url}&var-segment=${{__field.labels.segment}}")


def means(
    title: str, instruments: Iterable[Instrument], *, by: str = "", width: int = 12, empty: str = ANALYZE
) -> Panel:
    """Means of scores over time, one line for each reference, or of one score for each value of the label `by`."""
    chosen = tuple(instruments)
    labels = tuple(filter(None, (by,)))
    targets = [
        Target(
            mean(one, *labels, *(("reference",) if "reference" in one.attributes else ())),
            " ".join(filter(None, (f"{{{{{by}}}}}" if by else named(one), _reference(one)))),
            exemplar=True,
        )
        for one in chosen
    ]
    return Panel(
        title=title,
        kind="timeseries",
        description=" ".join(f"{named(one)}: {_in_sentence(one.brief)}" for one in chosen),
        unit="percentunit" if all(one.unit == "1" for one in chosen) else "short",
        targets=tuple(targets),
        width=width,
        minimum=0,
        maximum=1 if all(one.unit == "1" and one.buckets[-1] <= 1 for one in chosen) else None,
        least_step=FEW_SAMPLES,
        empty=empty,
    )


def _in_sentence(brief: str) -> str:
    """A brief behind a colon; an abbreviation at its beginning stays."""
    return brief if brief[1].isupper() else f"{brief[0].lower()}{brief[1:]}"


def _reference(one: Instrument) -> str:
    return "({{reference}})" if "reference" in one.attributes else ""


def distribution(instrument: Instrument, *, title: str = "", width: int = 12, empty: str = ANALYZE) -> Panel:
    """A heatmap of a histogram: time from left to right, buckets from bottom to top, darker where more fell."""
    return Panel(
        title=title or f"{named(instrument)}: distribution",
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
    return Panel(
        title=f"Duration of {' and '.join(stages)}",
        kind="timeseries",
        description=f"{STAGE_DURATION.brief} Median and 95th percentile, estimated from buckets.",
        unit="s",
        targets=tuple(
            Target(f"histogram_quantile({q:g}, {counted})", f"{{{{stage}}}} p{q * 100:g}") for q in (0.5, 0.95)
        ),
        width=width,
        minimum=0,
        least_step=FEW_SAMPLES,
        empty=ANALYZE,
    )


def undefined(*instruments: Instrument, width: int = 12) -> Panel:
    """Why scores are undefined."""
    pattern = "~" + "|".join(one.id for one in instruments)
    return Panel(
        title="Undefined scores, by reason",
        kind="stacked",
        description=f"{UNDEFINED.brief} A share that grows means that the other panels speak for fewer requests.",
        unit="cpm",
        targets=(Target(f"60 * {rate(UNDEFINED, 'metric', 'reason', metric=pattern)} > 0", "{{metric}}: {{reason}}"),),
        width=width,
        minimum=0,
        least_step=FEW_SAMPLES,
        empty="It stays empty as long as every score is defined.",
    )


def versions_in_use(stage: str, width: int = 12) -> Panel:
    """The newest version of each component that belongs to a stage, and since when it is seen."""
    components = next(one.components for one in STAGES if one.name == stage)
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
        newest_first=True,
        empty="It fills when records carry versions: `ragtrace.configure(versions={...})` or `ragtrace release "
        "record`.",
    )


def quantiles(instrument: Instrument, *, title: str, width: int = 12, empty: str = ANALYZE) -> Panel:
    """Median and 95th percentile of what a histogram observed."""
    return Panel(
        title=title,
        kind="timeseries",
        description=f"{instrument.brief} Median and 95th percentile, estimated from buckets.",
        unit=_UNITS.get(instrument.unit, "short"),
        targets=tuple(Target(quantile(q, instrument), f"p{q * 100:g}", exemplar=q > 0.5) for q in (0.5, 0.95)),
        width=width,
        minimum=0,
        least_step=FEW_SAMPLES,
        empty=empty,
    )


def commands(*, width: int = 24, height: int = 6) -> Section:
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
    return Section("What to do next", (panel,))
