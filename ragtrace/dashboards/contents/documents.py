"""Documents: do answers rest on those that the retriever ranked high, who is passed over, and is what the index is
built from complete, fresh and on time?"""

from __future__ import annotations

from functools import partial
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
from ragtrace.dashboards._promql import gained, mean_over_range, quantile, rate, selector, share
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import (
    ANALYSIS_COST,
    ATTRIBUTION_BUDGET_EXHAUSTED,
    ATTRIBUTION_DURATION,
    ATTRIBUTION_EVALUATIONS,
    ATTRIBUTION_JOBS,
    CANDIDATE_AGE,
    COMPLETENESS_DELTA,
    INSTRUMENTS,
    NOISE_DISTRACTION,
    PROVIDER_ATTRIBUTED_EXPOSURE,
    PROVIDER_DESERVED_EXPOSURE,
    PROVIDER_EXPOSURE,
    PROVIDER_MISUSED,
    PROVIDER_REQUESTS,
    PROVIDER_USEFUL,
    PROVIDER_VALUED,
    SOURCE_DELAY,
    SOURCE_DOCUMENTS,
    SOURCE_NEWEST_TIMESTAMP,
    SOURCE_REPORT_TIMESTAMP,
    WARG,
    WARG_ADJUSTED,
    WARG_CHANCE,
    WARG_FLOOR,
    WASTED_RETRIEVAL,
)

__all__ = ["ATTRIBUTION", "EXPOSURE", "SOURCES"]


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


_FILLS: Final = "It fills when `ragtrace analyze --follow` scores requests whose prompt is recorded."
_KNOWN: Final = "~oracle|proxy"
_over_time: Final = partial(over_time, unit="percentunit", empty=_FILLS)
_OWNERS: Final = "by each value of the key that `ragtrace analyze --provider` names (by default the source)"


def _part(instrument: Instrument, *by: str, **labels: str) -> str:
    """Each provider's part of what all providers of a service have, over time."""
    own = rate(instrument, "service", "provider", *by, **labels)
    return share(own, rate(instrument, "service", *by, **labels), ", ".join(("service", *by)))


def _over_range(instrument: Instrument, **labels: str) -> str:
    own = gained(instrument, "service", "provider", **labels)
    return share(own, gained(instrument, "service", **labels), "service")


_TABLE: Final = Panel(
    title="Providers",
    kind="table",
    description=f"Of the range, {_OWNERS}: parts of all places in prompts, of what documents deserve by gold evidence "
    "or the proxy reference, and of what answers use by their claims.",
    unit="percentunit",
    targets=(
        Target(_over_range(PROVIDER_EXPOSURE), "in prompts"),
        Target(_over_range(PROVIDER_DESERVED_EXPOSURE, reference=_KNOWN), "deserved"),
        Target(_over_range(PROVIDER_ATTRIBUTED_EXPOSURE, used_by="claims"), "of all used"),
        Target(gained(PROVIDER_REQUESTS, "service", "provider"), "requests", unit="short"),
    ),
    width=24,
    height=8,
    key=("provider", "service"),
    largest_first=True,
    empty=_FILLS,
)

EXPOSURE: Final = Dashboard(
    uid="ragtrace-exposure",
    title="ragtrace: exposure",
    description="Whose documents stand in prompts, whose do answers use, who is passed over? Owner: ranking-context.",
    sections=(
        PanelSection("All providers", (_TABLE,)),
        PanelSection(
            "Who gets the places, and who deserves them?",
            (
                _over_time(
                    "Part of the places in prompts",
                    PROVIDER_EXPOSURE.brief + " As a part of all places.",
                    Target(_part(PROVIDER_EXPOSURE), "{{provider}}"),
                ),
                _over_time(
                    "In prompts less deserved",
                    "Above 0 a provider has more places than its useful documents deserve, below 0 fewer; only of "
                    f"requests with a reference. {PROVIDER_DESERVED_EXPOSURE.brief}",
                    Target(
                        f"{_part(PROVIDER_EXPOSURE, 'reference', reference=_KNOWN)} - "
                        f"{_part(PROVIDER_DESERVED_EXPOSURE, 'reference', reference=_KNOWN)}",
                        "{{provider}} ({{reference}})",
                    ),
                    minimum=None,
                ),
            ),
        ),
        PanelSection(
            "What do answers use?",
            (
                _over_time(
                    "Part of what answers use",
                    f"{PROVIDER_ATTRIBUTED_EXPOSURE.brief} As a part of all such places, by what says so. A fall after "
                    "a release without a fall of what is deserved is a ticket.",
                    Target(_part(PROVIDER_ATTRIBUTED_EXPOSURE, "used_by"), "{{provider}} ({{used_by}})"),
                ),
                _over_time(
                    "Used and contradicted",
                    f"{PROVIDER_MISUSED.brief} As a share of the provider's used places.",
                    Target(
                        share(
                            rate(PROVIDER_MISUSED, "service", "provider", "used_by"),
                            rate(PROVIDER_ATTRIBUTED_EXPOSURE, "service", "provider", "used_by"),
                        ),
                        "{{provider}} ({{used_by}})",
                    ),
                ),
            ),
        ),
        PanelSection(
            "What would answers be worth with one document alone?",
            (
                _over_time(
                    "Useful candidates",
                    f"{PROVIDER_USEFUL.brief} As a share of the provider's candidates that were looked at, in prompts "
                    "or not: where it is high and the part of the places is small, answers miss something.",
                    Target(
                        share(
                            rate(PROVIDER_USEFUL, "service", "provider", "useful_by"),
                            rate(PROVIDER_VALUED, "service", "provider", "useful_by"),
                        ),
                        "{{provider}} ({{useful_by}})",
                    ),
                    width=24,
                    empty="It fills when `ragtrace analyze --generator MODEL --explain-utility-rate SHARE` runs.",
                ),
            ),
        ),
        commands(),
    ),
)


_REPORTS: Final = "It fills when ingestion jobs run `ragtrace source report` or call `ragtrace.source_report`."
_reported: Final = partial(over_time, empty=_REPORTS, least_step=None)
_DATES: Final = "It fills when candidates carry a date in their metadata."


def _latest(instrument: Instrument, ago: str = "") -> str:
    return f"max by (service, source) ({selector(instrument)}{ago})"


def _age(instrument: Instrument) -> str:
    return f"time() - {_latest(instrument)}"


_SOURCE_TABLE: Final = Panel(
    title="Sources",
    kind="table",
    description="One row for each source that ingestion reports: how late, how old, how much, and when it last "
    "reported.",
    unit="s",
    targets=(
        Target(_latest(SOURCE_DELAY), "ingestion delay"),
        Target(_age(SOURCE_NEWEST_TIMESTAMP), "age of the newest document"),
        Target(_age(SOURCE_REPORT_TIMESTAMP), "time since the last report"),
        Target(_latest(SOURCE_DOCUMENTS), "documents", unit="short"),
        Target(
            f"{share(_latest(SOURCE_DOCUMENTS), _latest(SOURCE_DOCUMENTS, ' offset $__range'))} - 1",
            "change of documents over the range",
            unit="percentunit",
        ),
    ),
    width=24,
    height=8,
    key=("source", "service"),
    empty=_REPORTS,
)

_CHANGE: Final = over_time(
    "Change of documents over the range",
    f"{SOURCE_DOCUMENTS.brief} Beside the number one range earlier: −100 % is a source that came empty.",
    Target(f"{share(_latest(SOURCE_DOCUMENTS), _latest(SOURCE_DOCUMENTS, ' offset $__range'))} - 1", "{{source}}"),
    unit="percentunit",
    empty=_REPORTS,
    minimum=None,
    least_step=None,
)

_CANDIDATES: Final = over_time(
    "Age of the documents that requests find",
    f"{CANDIDATE_AGE.brief} Median, estimated from buckets: it rises where an index no longer takes "
    "news, even if "
    "ingestion reports that all is well.",
    Target(quantile(0.5, CANDIDATE_AGE, "source"), "{{source}}"),
    unit="s",
    width=24,
    empty=_DATES,
)

SOURCES: Final = Dashboard(
    uid="ragtrace-sources",
    title="ragtrace: source health",
    description="Is what the index is built from complete, fresh and on time? Owner: retrieval-indexing.",
    sections=(
        PanelSection("All sources", (_SOURCE_TABLE,)),
        PanelSection(
            "Late or stale?",
            (
                _reported("Ingestion delay", SOURCE_DELAY.brief, Target(_latest(SOURCE_DELAY), "{{source}}"), unit="s"),
                _reported(
                    "Age of the newest document",
                    f"{SOURCE_NEWEST_TIMESTAMP.brief} It rises by itself until something new arrives.",
                    Target(_age(SOURCE_NEWEST_TIMESTAMP), "{{source}}"),
                    unit="s",
                ),
                _CANDIDATES,
            ),
        ),
        PanelSection(
            "Complete?",
            (
                _reported("Documents", SOURCE_DOCUMENTS.brief, Target(_latest(SOURCE_DOCUMENTS), "{{source}}")),
                _CHANGE,
            ),
        ),
        commands(),
    ),
)
