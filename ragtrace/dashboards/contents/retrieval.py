"""Retrieval: do the candidates hold what the question requires, and how deep must one read to find it?"""

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
from ragtrace.dashboards.promql import increase, share_upto
from ragtrace.registry.instruments import (
    CANDIDATE_RECALL,
    CHUNK_DRIFT,
    EVIDENCE_DEPTH,
    EVIDENCE_PRESENCE,
    JOINT_QUERY_COVERAGE,
    QUERY_COVERAGE,
)

__all__ = ["RETRIEVAL"]

_STAGE: Final = stage_of("retrieval")

_DEPTH: Final = Panel(
    title="Recall by candidate depth",
    kind="timeseries",
    description="Share of the requests whose whole reference evidence stands among the first candidates, best first. "
    "Depths "
    "far apart: the evidence is found but ranked low. All depths low: it is not found at all.",
    unit="percentunit",
    targets=tuple(
        Target(
            share_upto(EVIDENCE_DEPTH, depth, "reference", of=CANDIDATE_RECALL), f"first {depth:g} ({{{{reference}}}})"
        )
        for depth in EVIDENCE_DEPTH.buckets
    ),
    width=12,
    minimum=0,
    maximum=1,
    least_step=FEW_SAMPLES,
    empty=ANALYZE,
)

_DRIFT: Final = Panel(
    title="Chunks that the newest index holds differently",
    kind="stacked",
    description=f"{CHUNK_DRIFT.brief} Rewritten: gold sets name evidence that has changed. Renumbered: gold sets and "
    "stored "
    "citations name ids that are gone. `ragtrace drift` lists them.",
    unit="short",
    targets=(Target(increase(CHUNK_DRIFT, "kind", window="$__rate_interval"), "{{kind}}"),),
    width=12,
    minimum=0,
    least_step=FEW_SAMPLES,
    empty="It stays empty until chunks are found under two versions of an index.",
)

RETRIEVAL: Final = Dashboard(
    uid="ragtrace-retrieval",
    title="ragtrace: retrieval",
    description="Do the candidates hold what the question requires? Owner: retrieval-indexing.",
    sections=(
        Section("Objective", (sound_now(_STAGE), sound_by_segment(_STAGE))),
        Section("How much is known", states(_STAGE)),
        Section(
            "What is missing",
            (
                means("Coverage of the question", (QUERY_COVERAGE, JOINT_QUERY_COVERAGE)),
                distribution(QUERY_COVERAGE),
                _DEPTH,
                means("Evidence among the candidates, known and estimated", (CANDIDATE_RECALL, EVIDENCE_PRESENCE)),
            ),
        ),
        Section("What changed", (versions_in_use("retrieval"), _DRIFT)),
        Section("How it runs", (durations("retrieve"), undefined(QUERY_COVERAGE, CANDIDATE_RECALL, EVIDENCE_DEPTH))),
        commands(),
    ),
)
