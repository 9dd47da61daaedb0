"""Attribution and alignment: do answers rest on the documents that the retriever ranked high?"""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards._panels import (
    EXPLAIN,
    Dashboard,
    Panel,
    PanelSection,
    Target,
    commands,
    distribution,
    means,
    over_time,
    quantiles,
    with_others,
)
from ragtrace.dashboards._promql import gained, mean_over_range, rate, selector
from ragtrace.registry.instruments import (
    ANALYSIS_COST,
    ATTRIBUTION_BUDGET_EXHAUSTED,
    ATTRIBUTION_DURATION,
    ATTRIBUTION_EVALUATIONS,
    ATTRIBUTION_JOBS,
    COMPLETENESS_DELTA,
    INSTRUMENTS,
    NOISE_DISTRACTION,
    WARG,
    WARG_ADJUSTED,
    WARG_CHANCE,
    WARG_FLOOR,
    WASTED_RETRIEVAL,
)

__all__ = ["ATTRIBUTION"]


def _now(title: str, description: str, expr: str, **given: object) -> Panel:
    return Panel(
        title=title,
        kind="stat",
        description=description,
        targets=(Target(expr, title),),
        width=8,
        height=5,
        empty=EXPLAIN,
        **given,  # type: ignore[arg-type]  # fields of Panel
    )


_COST: Final = over_time(
    "What explanations take",
    f"{ANALYSIS_COST.brief} Seconds of CPU and GPU time in each second: 1 is one device that never rests.",
    Target(rate(ANALYSIS_COST, "resource", job_kind="attribution"), "{{resource}}"),
    width=8,
    empty=EXPLAIN,
)

_EXHAUSTED: Final = Panel(
    title="Days on which the budget was used up",
    kind="stat",
    description=ATTRIBUTION_BUDGET_EXHAUSTED.brief,
    unit="short",
    targets=(Target(f"round({gained(ATTRIBUTION_BUDGET_EXHAUSTED, 'resource')})", "{{resource}}"),),
    width=8,
    decimals=0,
    empty="It stays empty as long as no budget was used up.",
)

_JOBS: Final = over_time(
    "Explanations that wait",
    ATTRIBUTION_JOBS.brief,
    Target(f"sum by (state) ({selector(ATTRIBUTION_JOBS)})", "{{state}}"),
    width=8,
    empty="It fills when the exporter runs.",
    least_step=None,
)

_SECTIONS: Final = (
    PanelSection(
        "Does the answer follow the ranking?",
        (
            _now(
                "Distance of use and ranking",
                f"{WARG_ADJUSTED.brief} Mean over the whole range.",
                mean_over_range(WARG_ADJUSTED),
                unit="short",
                decimals=2,
                minimum=0,
                maximum=WARG_ADJUSTED.buckets[-1],
            ),
            _now(
                "First document hardly used",
                f"{WASTED_RETRIEVAL.brief} Share over the whole range.",
                mean_over_range(WASTED_RETRIEVAL),
                unit="percentunit",
                decimals=1,
                minimum=0,
                maximum=1,
            ),
            _now(
                "Answer rests on a low rank",
                f"{NOISE_DISTRACTION.brief} Share over the whole range.",
                mean_over_range(NOISE_DISTRACTION),
                unit="percentunit",
                decimals=1,
                minimum=0,
                maximum=1,
            ),
        ),
    ),
    PanelSection(
        "Since when?",
        (
            means("WARG, beside its floor and chance", (WARG, WARG_FLOOR, WARG_CHANCE), empty=EXPLAIN),
            distribution(WARG_ADJUSTED, title="WARG, adjusted for chance: distribution", empty=EXPLAIN),
            means("First document hardly used, by segment", (WASTED_RETRIEVAL,), by="segment", empty=EXPLAIN),
            means("Answer rests on a low rank, by segment", (NOISE_DISTRACTION,), by="segment", empty=EXPLAIN),
        ),
    ),
    PanelSection(
        "Are the explanations sound?",
        (
            distribution(COMPLETENESS_DELTA, title="Error of token attributions: distribution", empty=EXPLAIN),
            quantiles(ATTRIBUTION_EVALUATIONS, title="Evaluations for one explanation", empty=EXPLAIN),
            quantiles(ATTRIBUTION_DURATION, title="Duration of one explanation", empty=EXPLAIN, width=24),
        ),
    ),
    PanelSection("What do they cost?", (_COST, _JOBS, _EXHAUSTED)),
)

ATTRIBUTION: Final = Dashboard(
    uid="ragtrace-attribution",
    title="ragtrace: attribution and alignment",
    description="Do answers rest on the documents that the retriever ranked high?",
    sections=(
        *with_others(_SECTIONS, (one for one in INSTRUMENTS.values() if one.analysis == "attribution")),
        commands(),
    ),
)
