"""Citation: are the claims cited, and do the cited chunks support them?"""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards.model import Dashboard, Panel, Section, Target
from ragtrace.dashboards.panels import (
    ANALYZE,
    FEW_SAMPLES,
    commands,
    distribution,
    means,
    sound_by_segment,
    sound_now,
    stage_of,
    states,
    undefined,
    versions_in_use,
)
from ragtrace.dashboards.promql import share_upto
from ragtrace.registry.instruments import CITATION_COVERAGE, CITATION_PRECISION, CITATION_RECALL, DANGLING_CITATIONS

__all__ = ["CITATION"]

_STAGE: Final = stage_of("citation")
_CITES: Final = "It fills when answers cite: a service that never cited is not judged by its citations."

_DANGLING: Final = Panel(
    title="Answers that cite what is not in the prompt",
    kind="timeseries",
    description=f"{DANGLING_CITATIONS.brief} Share of the answers with at least one, by segment.",
    unit="percentunit",
    targets=(Target(f"1 - {share_upto(DANGLING_CITATIONS, 0, 'segment')}", "{{segment}}"),),
    width=12,
    minimum=0,
    maximum=1,
    least_step=FEW_SAMPLES,
    empty=ANALYZE,
)

CITATION: Final = Dashboard(
    uid="ragtrace-citation",
    title="ragtrace: citation",
    description="Are the claims cited, and do the cited chunks support them? Owner: release-guard.",
    sections=(
        Section("Objective", (sound_now(_STAGE, empty=_CITES), sound_by_segment(_STAGE, empty=_CITES))),
        Section("How much is known", states(_STAGE, empty=_CITES)),
        Section(
            "Are the citations right?",
            (
                means("Citations that support, claims that are cited", (CITATION_PRECISION, CITATION_RECALL)),
                _DANGLING,
                distribution(CITATION_COVERAGE),
                distribution(CITATION_PRECISION),
            ),
        ),
        Section("What changed", (versions_in_use("citation"), undefined(CITATION_COVERAGE, CITATION_PRECISION))),
        commands(),
    ),
)
