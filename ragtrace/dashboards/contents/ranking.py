"""Ranking: does the evidence that was found reach the prompt, and where is the rest lost?"""

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
    quantiles,
    sound_by_segment,
    sound_now,
    stage_of,
    states,
    undefined,
    versions_in_use,
)
from ragtrace.dashboards.promql import mean, rate, share_upto
from ragtrace.registry.instruments import (
    CANDIDATE_RECALL,
    EVIDENCE_OVERLAP,
    EVIDENCE_PRECISION,
    EVIDENCE_RECALL,
    EVIDENCE_TOKEN_SHARE,
    LOST_EVIDENCE,
    RANK_SHIFT,
    TRUNCATED_TOKENS,
)

__all__ = ["RANKING"]

_STAGE: Final = stage_of("ranking")

_LOST: Final = Panel(
    title="Lost evidence, by place",
    kind="stacked",
    description=f"{LOST_EVIDENCE.brief} `retrieval`: never found; `rerank`: dropped or sunk; `packing`: left out of "
    "the "
    "prompt; `truncation`: cut off.",
    unit="cpm",
    targets=(Target(f"60 * {rate(LOST_EVIDENCE, 'where', 'reference')}", "{{where}} ({{reference}})", exemplar=True),),
    width=12,
    minimum=0,
    least_step=FEW_SAMPLES,
    empty="It stays empty as long as all reference evidence reaches the prompt.",
)

_GAP: Final = Panel(
    title="Found, and kept",
    kind="timeseries",
    description="Mean share of the reference evidence among the candidates, and of that which stands whole in the "
    "prompt. "
    "The gap between the two is what reranking and packing lost.",
    unit="percentunit",
    targets=(
        Target(mean(CANDIDATE_RECALL, "reference"), "among the candidates ({{reference}})"),
        Target(mean(EVIDENCE_RECALL, "reference"), "in the prompt ({{reference}})", exemplar=True),
    ),
    width=12,
    minimum=0,
    maximum=1,
    least_step=FEW_SAMPLES,
    empty=ANALYZE,
)

_TRUNCATED: Final = Panel(
    title="Prompts in which chunks were cut",
    kind="timeseries",
    description=f"{TRUNCATED_TOKENS.brief} Share of the prompts that lost at least one token.",
    unit="percentunit",
    targets=(Target(f"1 - {share_upto(TRUNCATED_TOKENS, 0, 'segment')}", "{{segment}}"),),
    width=12,
    minimum=0,
    maximum=1,
    least_step=FEW_SAMPLES,
    empty="It fills when packed chunks carry their token counts.",
)

RANKING: Final = Dashboard(
    uid="ragtrace-ranking",
    title="ragtrace: ranking and packing",
    description="Does the evidence that was found reach the prompt? Owner: ranking-context.",
    sections=(
        Section("Objective", (sound_now(_STAGE), sound_by_segment(_STAGE))),
        Section("How much is known", states(_STAGE)),
        Section(
            "Where it is lost",
            (
                _LOST,
                _GAP,
                distribution(RANK_SHIFT),
                quantiles(RANK_SHIFT, title="Rank shift of the reference evidence"),
            ),
        ),
        Section(
            "What the prompt is spent on",
            (
                _TRUNCATED,
                distribution(TRUNCATED_TOKENS, empty="It fills when packed chunks carry their token counts."),
                means("Prompt tokens that the evidence got", (EVIDENCE_TOKEN_SHARE,)),
                means("Overlap of the prompt and the evidence", (EVIDENCE_OVERLAP, EVIDENCE_PRECISION)),
            ),
        ),
        Section("What changed, and how it runs", (versions_in_use("ranking"), durations("rerank", "pack"))),
        Section("Undefined scores", (undefined(EVIDENCE_RECALL, RANK_SHIFT, EVIDENCE_TOKEN_SHARE, width=24),)),
        commands(),
    ),
)
