"""Gate reports of known content: what each surface has to show, without the arithmetic that decides it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from ragtrace.gate._breaks import find_breaks, stage_shares
from ragtrace.gate._judgment import questions
from ragtrace.gate.reports.sentences import headline, next_steps
from ragtrace.gate.types import Cell, Comparison, Decision, GateReport, Policy, Population, Rule, SideSummary
from tests.gate.populations import pair, population

SEGMENTS: Final = ("claims-de", "claims-en", "limits", "deadlines", "<script>alert(1)</script>")
RULES: Final = (
    Rule(metric="candidate_recall", kind="score", direction="higher", margin=0.02, stage="retrieval"),
    Rule(metric="evidence_recall", kind="score", direction="higher", margin=0.02, stage="ranking"),
    Rule(metric="answer_coverage", kind="score", direction="higher", margin=0.02, stage="generation", floor=0.6),
    Rule(metric="contradiction_rate", kind="score", direction="lower", margin=0.02, stage="generation", guardrail=True),
    Rule(metric="broken_generation", kind="boolean", direction="lower", margin=0.02, stage="generation"),
    Rule(
        metric="suspected_generation",
        kind="boolean",
        direction="lower",
        margin=0.1,
        stage="generation",
        action="warn",
        segment_action="warn",
    ),
    Rule(metric="citation_coverage", kind="score", direction="higher", margin=0.05, stage="citation"),
    Rule(metric="latency", kind="quantity", direction="lower", margin=0.2, relative=True, action="warn"),
)
VERSIONS: Final = {"model": {"gpt-x": 200}, "index": {"2026-10": 200}, "reranker": {"r-1": 200}}


def cell(metric: str = "answer_coverage", segment: str | None = None, **other: Any) -> Cell:
    """A cell that passes, unless said otherwise."""
    rule = next(rule for rule in RULES if rule.metric == metric)
    base = 1.4 if rule.kind == "quantity" else 0.9
    given: dict[str, Any] = {
        "metric": metric,
        "stage": rule.stage,
        "segment": segment,
        "family": "overall" if segment is None else "segments",
        "kind": rule.kind,
        "direction": rule.direction,
        "outcome": "pass",
        "action": rule.action,
        "reason": "not worse by the margin",
        "n": (200, 200) if segment is None else (40, 40),
        "baseline": base,
        "candidate": base + 0.004,
        "difference": 0.004,
        "low": -0.008,
        "high": 0.016,
        "margin": 0.28 if rule.kind == "quantity" else rule.margin,
        "p_harm": 0.6,
        "p_adjusted": 1.0,
        "p_inferior": 0.001,
        "detectable": 0.018,
        "needed": 180,
        "method": "BCa bootstrap",
    }
    return Cell(**(given | other))


def failed(metric: str = "answer_coverage", segment: str | None = None, harm: float = 0.12, **other: Any) -> Cell:
    """A cell whose metric is worse by `harm`, with four points to both sides."""
    sign = -1.0 if next(rule for rule in RULES if rule.metric == metric).direction == "higher" else 1.0
    ends = sorted((sign * (harm - 0.04), sign * (harm + 0.04)))
    given = {
        "outcome": "fail",
        "reason": "significantly worse",
        "baseline": 0.82,
        "candidate": 0.82 + sign * harm,
        "difference": sign * harm,
        "low": ends[0],
        "high": ends[1],
        "p_harm": 0.00001,
        "p_adjusted": 0.0008,
        "p_inferior": 0.99,
    }
    return cell(metric, segment, **(given | other))


def unclear(metric: str = "answer_coverage", segment: str | None = None, **other: Any) -> Cell:
    """A cell that proves nothing."""
    given = {"outcome": "inconclusive", "difference": -0.011, "low": -0.034, "high": 0.012, "detectable": 0.045,
             "needed": 1900, "decides": 1900, "reason": "neither worse nor surely within the margin"}  # fmt: skip
    return cell(metric, segment, **(given | other))


def empty(metric: str = "answer_coverage", segment: str | None = "claims-de", **other: Any) -> Cell:
    """A cell without enough data."""
    nothing = dict.fromkeys(("baseline", "candidate", "difference", "low", "high", "p_harm", "p_adjusted", "p_inferior",
                             "detectable", "needed"))  # fmt: skip
    return cell(metric, segment, **{"outcome": "not_enough_data", "reason": "12 of at least 30", "n": (12, 12),
                                    **nothing, **other})  # fmt: skip


def comparison(*, segments: Sequence[str] = SEGMENTS, paired: bool = True, hurt: str = "claims-de") -> Comparison:
    """200 questions; the candidate's answers to those of one segment are not supported any more, and one is mended."""
    count = 200
    names = [segments[row % len(segments)] for row in range(count)]
    worse = np.array([name == hurt for name in names]) & (np.arange(count) % 3 > 0)
    coverage = np.full(count, 0.95)
    before = _side("baseline", names, coverage, np.arange(count) == 7)
    after = _side("candidate", names, np.where(worse, 0.4, coverage), worse)
    both = pair(before, after)
    return both if paired else Comparison(before, after, None)


def _side(name: str, segments: Sequence[str], coverage: Any, broken: Any) -> Population:
    new = {"model": {"gpt-y": 200}, "index": {"2026-11": 200}}
    return population(
        {"answer_coverage": coverage, "broken_generation": broken.astype(float)},
        name=name,
        segments=list(segments),
        states={"generation": ["broken" if bad else "sound" for bad in broken]},
        causes=["unsupported_claims" if bad else "" for bad in broken],
        versions=VERSIONS | (new if name == "candidate" else {}),
        analyzer_versions={"1": 200},
    )


def side(found: Population, *, unmatched: int = 0, excluded: dict[str, int] | None = None) -> SideSummary:
    """A population in figures."""
    return SideSummary(
        name=f"version:model={next(iter(found.versions['model']))}",
        requests=len(found),
        unmatched=unmatched,
        excluded=excluded or {},
        versions={name: dict(counts) for name, counts in found.versions.items()},
        analyzer_versions=dict(found.analyzer_versions),
        since=1_763_000_000_000_000_000,
        until=1_763_003_600_000_000_000,
    )


def report(decision: Decision, cells: Sequence[Cell], **other: Any) -> GateReport:
    """A report of these cells over `comparison()`."""
    found = other.pop("comparison", None) or comparison()
    blocking = [each for each in cells if each.blocks and each.stage is not None]
    given: dict[str, Any] = {
        "decision": decision,
        "baseline": side(found.baseline),
        "candidate": side(found.candidate),
        "paired": found.paired,
        "pairs": 200 if found.paired else None,
        "alpha": 0.05,
        "cells": tuple(cells),
        "stages": stage_shares(found),
        "breaks": find_breaks(found, cells),
        "warnings": (),
        "policy": Policy(rules=RULES),
        "needed": questions(cells, Policy(rules=RULES), 200) if decision == "undecided" else None,
        "first_broken": blocking[0].stage if blocking else None,
        "run_id": "0199",
        "created_at": 1_763_003_700_000_000_000,
    }
    made = GateReport(**(given | other))
    return msgspec.structs.replace(made, headline=headline(made), next_steps=next_steps(made))


def grid(*changed: Cell) -> list[Cell]:
    """Every rule over all requests and in every segment; those that are given stand for their like."""
    known = {(each.metric, each.segment): each for each in changed}
    places = [None, *SEGMENTS]
    return [known.get((rule.metric, name)) or cell(rule.metric, name) for rule in RULES for name in places]


def blocked() -> GateReport:
    """One segment lost answer coverage; all else holds, some of it unproven."""
    hostile = SEGMENTS[-1]
    cells = grid(
        failed("answer_coverage", "claims-de"),
        failed("broken_generation", "claims-de", 0.6),
        unclear("contradiction_rate", "claims-en", low=-0.02, high=0.05, difference=0.014),
        unclear("citation_coverage", hostile),
        empty("evidence_recall", "limits"),
        failed("latency", None, 0.5, baseline=1.4, candidate=1.9, action="warn"),
    )
    return report(
        "block",
        cells,
        baseline=side(comparison().baseline, unmatched=12, excluded={"not analyzed": 3}),
        warnings=("the policy's margin of 2 points for evidence recall cannot be detected with 40 pairs",),
    )


def passed() -> GateReport:
    """Every cell passes."""
    return report("pass", grid())


def undecided() -> GateReport:
    """Answer coverage proves nothing."""
    return report("undecided", grid(unclear("answer_coverage")))


def missing() -> GateReport:
    """A required segment has too little data."""
    return report("block", grid(*(empty(rule.metric, "claims-de", required=True) for rule in RULES)))
