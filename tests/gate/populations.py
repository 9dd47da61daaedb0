"""Synthetic populations for the tests of the gate: many exact zeros and ones, segments, clusters, weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.gate.types import NOWHERE, STATES, Comparison, Population, Rule
from ragtrace.types import Stage

SEGMENTS: Final = ("limit", "code", "date", "person", "place", "yes_no", "list", "other")
STAGES: Final[tuple[Stage, ...]] = ("retrieval", "ranking", "generation", "citation")
SHARES: Final = (0.3, 0.2, 0.15, 0.1, 0.08, 0.07, 0.05, 0.05)

RULES: Final = (
    Rule(metric="query_coverage", kind="score", direction="higher", margin=0.05, stage="retrieval"),
    Rule(metric="joint_query_coverage", kind="score", direction="higher", margin=0.05, stage="retrieval"),
    Rule(metric="evidence_presence", kind="boolean", direction="higher", margin=0.05, stage="retrieval"),
    Rule(metric="evidence_recall", kind="score", direction="higher", margin=0.05, stage="ranking"),
    Rule(metric="answer_coverage", kind="score", direction="higher", margin=0.05, stage="generation"),
    Rule(metric="contradiction_rate", kind="score", direction="lower", margin=0.02, stage="generation", guardrail=True),
    Rule(metric="citation_coverage", kind="score", direction="higher", margin=0.05, stage="citation"),
    Rule(metric="broken_retrieval", kind="boolean", direction="lower", margin=0.05, stage="retrieval"),
    Rule(metric="broken_ranking", kind="boolean", direction="lower", margin=0.05, stage="ranking"),
    Rule(metric="broken_generation", kind="boolean", direction="lower", margin=0.05, stage="generation"),
    Rule(metric="broken_citation", kind="boolean", direction="lower", margin=0.05, stage="citation"),
    Rule(metric="latency", kind="quantity", direction="lower", margin=0.2, relative=True),
)
"""Twelve metrics of all three kinds and both directions."""

_DEFINED: Final = {"contradiction_rate": 0.9, "citation_coverage": 0.7, "joint_query_coverage": 0.6}


def population(
    scores: Mapping[str, ArrayLike],
    *,
    name: str = "one",
    questions: Sequence[str] | None = None,
    segments: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    states: Mapping[Stage, Sequence[str]] | None = None,
    **other: Any,
) -> Population:
    """A population of these scores; each request asks a question of its own unless said. states: by stage, "" where it
    does not apply; every stage is sound without."""
    columns = {metric: np.asarray(values, dtype=np.float64) for metric, values in scores.items()}
    count = len(next(iter(columns.values())))
    ids = [f"{name}-{row}" for row in range(count)]
    return Population(
        name=name,
        request_ids=ids,
        questions=questions if questions is not None else [f"q{row}" for row in range(count)],
        segments=segments if segments is not None else ["all"] * count,
        clusters=clusters if clusters is not None else ids,
        weights=np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64),
        scores=columns,
        states={stage: _codes((states or {}).get(stage, ["sound"] * count)) for stage in STAGES},
        causes=other.pop("causes", [""] * count),
        **other,
    )


def _codes(states: Sequence[str]) -> NDArray[np.int8]:
    return np.array([STATES.index(state) if state else NOWHERE for state in states], dtype=np.int8)


def pair(baseline: Population, candidate: Population) -> Comparison:
    """Both sides of the same length, paired row by row."""
    rows = np.arange(len(baseline), dtype=np.int64)
    return Comparison(baseline, candidate, np.column_stack([rows, rows]))


def unpaired(baseline: Population, candidate: Population) -> Comparison:
    """Both sides as independent samples."""
    return Comparison(baseline, candidate, None, (len(baseline), len(candidate)))


def traffic(
    count: int,
    seed: int,
    *,
    name: str = "one",
    segments: Sequence[str] = SEGMENTS,
    shares: Sequence[float] = SHARES,
    cluster_size: int = 1,
    weighted: bool = False,
) -> Population:
    """Requests with the twelve metrics of `RULES`: what is hard about a question is hard in all of them.

    cluster_size: requests of one session, which share a part of the difficulty. weighted: half of them with weight 10.
    """
    chance = np.random.default_rng(seed)
    sessions = np.arange(count) // cluster_size
    shared = chance.normal(size=count)
    if cluster_size > 1:
        shared = 0.7 * chance.normal(size=sessions.max() + 1)[sessions] + 0.7 * shared
    return population(
        {rule.metric: _column(rule, shared, chance) for rule in RULES},
        name=name,
        segments=[segments[at] for at in chance.choice(len(segments), size=count, p=np.array(shares) / sum(shares))],
        clusters=[f"s{session}" for session in sessions] if cluster_size > 1 else None,
        weights=np.where(chance.random(count) < 0.5, 10.0, 1.0) if weighted else None,
    )


def traffic_pair(count: int, seed: int, *, noise: float = 0.3, **options: Any) -> Comparison:
    """The same questions through two equal versions: a request's scores are drawn again in a share `noise` of cases."""
    baseline = traffic(count, seed, name="baseline", **options)
    other = traffic(count, seed + 1_000_003, name="candidate", **options)
    again = np.random.default_rng(seed + 7).random(count) < noise
    scores = {metric: np.where(again, other.scores[metric], values) for metric, values in baseline.scores.items()}
    candidate = population(
        scores,
        name="candidate",
        questions=baseline.questions,
        segments=baseline.segments,
        clusters=baseline.clusters,
        weights=baseline.weights,
    )
    return pair(baseline, candidate)


def _column(rule: Rule, shared: NDArray[np.float64], chance: np.random.Generator) -> NDArray[np.float64]:
    """Scores pile up at the good end and, less so, at the bad one."""
    latent = shared + chance.normal(size=len(shared))
    if rule.kind == "quantity":
        return np.exp(0.3 * latent)
    if rule.kind == "boolean":
        values: NDArray[np.float64] = (latent > 2.2).astype(np.float64)
        values = np.asarray(1 - values) if rule.direction == "higher" else values
    else:
        values = np.asarray(np.round(np.clip(1.0 - 0.4 * np.maximum(latent, 0) ** 1.5, 0, 1), 2), dtype=np.float64)
        values = 1 - values if rule.direction == "lower" else values
    values[chance.random(len(values)) > _DEFINED.get(rule.metric, 1.0)] = np.nan
    return values
