"""Generation: does the prompt support what the answer claims?"""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards.model import Dashboard, Panel, Section, Target
from ragtrace.dashboards.panels import (
    ANALYZE,
    FEW_SAMPLES,
    commands,
    distribution,
    durations,
    means,
    sound_by_segment,
    sound_now,
    stage_of,
    states,
    undefined,
    versions_in_use,
)
from ragtrace.dashboards.promql import RANGE, mean, share_upto
from ragtrace.registry.instruments import ANSWER_COVERAGE, ANSWER_RELEVANCE, CLAIM_SUPPORT, CONTRADICTION_RATE

__all__ = ["GENERATION"]

_STAGE: Final = stage_of("generation")

_TREND: Final = Panel(
    title="Contradicted claims, and in the time before",
    kind="timeseries",
    description=f"{CONTRADICTION_RATE.brief} Mean over requests, beside the same in the range before this one: "
    "growth, not "
    "level, points at a release.",
    unit="percentunit",
    targets=(
        Target(mean(CONTRADICTION_RATE), "now", exemplar=True),
        Target(mean(CONTRADICTION_RATE, offset=RANGE), "the range before"),
    ),
    width=12,
    minimum=0,
    least_step=FEW_SAMPLES,
    empty=ANALYZE,
)

_UNSUPPORTED: Final = Panel(
    title="Claims with weak words",
    kind="timeseries",
    description=f"{CLAIM_SUPPORT.brief} Share of the claims whose support is at most one half, by segment: people call "
    "a third of them unsupported.",
    unit="percentunit",
    targets=(Target(share_upto(CLAIM_SUPPORT, 0.5, "segment"), "{{segment}}"),),
    width=12,
    minimum=0,
    maximum=1,
    least_step=FEW_SAMPLES,
    empty=ANALYZE,
)

GENERATION: Final = Dashboard(
    uid="ragtrace-generation",
    title="ragtrace: generation",
    description="Does the prompt support what the answer claims? Owner: generation-governance.",
    sections=(
        Section("Objective", (sound_now(_STAGE), sound_by_segment(_STAGE))),
        Section("How much is known", states(_STAGE)),
        Section(
            "What the prompt says of the claims",
            (
                distribution(CLAIM_SUPPORT, title="Support of claims: distribution"),
                _UNSUPPORTED,
                _TREND,
                means("Support of answers", (ANSWER_COVERAGE,)),
            ),
        ),
        Section(
            "Whether it answers the question",
            (
                distribution(ANSWER_RELEVANCE, title="Relevance of answers: distribution"),
                means("Relevance of answers", (ANSWER_RELEVANCE,)),
            ),
        ),
        Section("What changed, and how it runs", (versions_in_use("generation"), durations("generate"))),
        Section("Undefined scores", (undefined(ANSWER_COVERAGE, CONTRADICTION_RATE, ANSWER_RELEVANCE, width=24),)),
        commands(),
    ),
)
