"""The first broken stage of a request: one ordered table of rules, used by worker, alerts, triage, gate and pages.

Each stage is good, bad or unknown by the objectives of the metric registry. The first rule that holds names the
stage: retrieval bad; ranking bad; generation bad while the evidence is in the prompt; citation bad while all else is
good. A request is healthy only where all four are known to be good, otherwise it is undetermined. Citation is no stage
of a request whose answer is not meant to cite.
Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias

from ragtrace.coverage.thresholds import SUPPORTED
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from ragtrace.registry.model import StageInfo
from ragtrace.types import Claim, Diagnosis, FacetMatch, LostChunk, Reference, Stage

__all__ = [
    "CAUSE_COMPONENTS",
    "Health",
    "Release",
    "diagnose",
    "is_rollout",
    "judge",
    "stage_health",
    "stages_reached",
    "suspected_rollout",
]

Health: TypeAlias = Literal["good", "bad", "unknown"]
Scores: TypeAlias = Mapping[str, float | None]

_STAGES: Final = {stage.name: stage for stage in STAGES}
CAUSE_COMPONENTS: Final = {  # those that a cause points at go before the stage's others
    "lost_in_rewrite": ("rewriter",),
    "absent_from_index": ("index", "embedding", "chunker", "retriever"),
    "lost_in_rerank": ("reranker",),
    "lost_in_packing": ("packer",),
    "truncated": ("packer",),
}
_LOSSES: Final = {  # in the order of the path: what was lost first names the cause
    "rerank": "lost_in_rerank",
    "packing": "lost_in_packing",
    "truncation": "truncated",
}


class Release(Protocol):
    """A version of a component and when it came into use (nanoseconds since the epoch)."""

    @property
    def component(self) -> str:
        """`index`, `model`, `reranker` and the like."""
        ...

    @property
    def version(self) -> str:
        """The component's label."""
        ...

    @property
    def at(self) -> int:
        """When it came into use."""
        ...

    @property
    def known_since(self) -> int:
        """The earliest that is known of it."""
        ...


def stage_health(scores: Scores, reference: Reference = "none") -> dict[Stage, Health]:
    """Health of each stage on its own, in the order in which a break is looked for.

    scores: metric id -> value, None or absent when undefined. With an oracle reference, evidence absent from the
    candidates shows a bad retrieval, and its presence is enough for a good one; a proxy reference is drawn from the
    candidates, so then retrieval is known by its facets and by the estimated presence of evidence.
    """
    facets = [judge(scores, "query_coverage"), judge(scores, "joint_query_coverage")]
    if reference == "oracle":
        recall = judge(scores, "candidate_recall")
        retrieval = "bad" if "bad" in (recall, *facets) else recall
    else:
        presence = judge(scores, "evidence_presence")
        known = _worst(facets) if presence == "unknown" else presence
        retrieval = "bad" if "bad" in facets else known
    return {
        "retrieval": retrieval,
        "ranking": judge(scores, "evidence_recall"),
        "generation": _worst([judge(scores, "answer_coverage"), judge(scores, "contradiction_rate")]),
        "citation": judge(scores, "citation_coverage"),
    }


def diagnose(
    scores: Scores,
    *,
    reference: Reference = "none",
    cites: bool = True,
    facets: Sequence[FacetMatch] = (),
    lost: Sequence[LostChunk] = (),
    claims: Sequence[Claim] = (),
    versions: Mapping[str, str] | None = None,
    releases: Sequence[Release] = (),
) -> Diagnosis:
    """Name the first broken stage, its owner, the proof, and the rollout to suspect.

    scores: metric id -> value in the metric's range, None or absent when undefined. cites: whether the answer is meant
    to cite its sources (`RequestRecord.cites`). facets, lost and claims are the proof; versions are the request's,
    releases its service's (see `suspected_rollout`).
    Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §4.
    """
    health = stage_health(scores, reference)
    if not cites:
        del health["citation"]
    labels = dict(versions or {})
    broken = _first_broken(health)
    if broken is None:
        missing = () if set(health.values()) == {"good"} else _missing(scores, reference, cites)
        return Diagnosis(verdict="undetermined" if missing else "healthy", missing=missing, reference=reference)
    cause, evidence = _PROOFS[broken](scores, facets, lost, claims)
    stage = _STAGES[broken]
    return Diagnosis(
        verdict=stage.failure,
        stage=broken,
        owner=stage.owner,
        cause=cause,
        evidence=evidence,
        reference=reference,
        versions={name: labels[name] for name in stage.components if name in labels},
        suspected_rollout=suspected_rollout(stage, cause, labels, releases),
    )


def suspected_rollout(
    stage: StageInfo, cause: str, versions: Mapping[str, str], releases: Sequence[Release]
) -> str | None:
    """`component=version`: the stage's component whose version of this request came last after another version.

    A component that has only ever had one version cannot have been rolled out. The components that the cause points
    at (the rewriter for a facet lost in the rewrite, the index for one that was asked of it and that it does not hold)
    go before the others.
    """
    seen = {(release.component, release.version): release for release in releases}
    rolled_out: list[tuple[bool, int, str]] = []
    for component in stage.components:
        version = versions.get(component)
        found = seen.get((component, version or ""))
        if version and found and is_rollout(found, releases):
            rolled_out.append((component in CAUSE_COMPONENTS.get(cause, ()), found.at, f"{component}={version}"))
    return max(rolled_out)[2] if rolled_out else None


def is_rollout(release: Release, releases: Sequence[Release]) -> bool:
    """Whether another version of the component was there before this one came into use."""
    return any(
        other.component == release.component and other.version != release.version and other.known_since < release.at
        for other in releases
    )


def stages_reached(health: Mapping[Stage, Health]) -> tuple[Stage, ...]:
    """The stages of known health that this request tells something of: nothing that must hold before them was broken.

    Ranking is told by a request whose retrieval is not bad, generation by one whose evidence is in the prompt besides,
    citation by one that is good up to there. The first of them that is bad is the request's first broken stage.
    """
    reached: list[Stage] = ["retrieval"]
    if health["retrieval"] != "bad":
        reached.append("ranking")
        if health["ranking"] == "good":
            reached.append("generation")
            if health["retrieval"] == health["generation"] == "good":
                reached.append("citation")
    return tuple(stage for stage in reached if health.get(stage, "unknown") != "unknown")


def _first_broken(health: Mapping[Stage, Health]) -> Stage | None:
    return next((stage for stage in stages_reached(health) if health[stage] == "bad"), None)


def judge(scores: Scores, metric: str) -> Health:
    """Whether one metric meets its objective; unknown where it is undefined or has none."""
    value = scores.get(metric)
    objective = INSTRUMENTS[metric].objective
    if value is None or objective is None:
        return "unknown"
    return "good" if objective.met(value) else "bad"


def _worst(parts: Sequence[Health]) -> Health:
    return "bad" if "bad" in parts else "unknown" if "unknown" in parts else "good"


def _missing(scores: Scores, reference: Reference, cites: bool) -> tuple[str, ...]:
    facets = ("query_coverage", "joint_query_coverage") if scores.get("evidence_presence") is None else ()
    retrieval = ("candidate_recall",) if reference == "oracle" else (*facets, "evidence_presence")
    cited = ("citation_coverage",) if cites else ()
    needed = (*retrieval, "evidence_recall", "answer_coverage", "contradiction_rate", *cited)
    return tuple(metric for metric in needed if scores.get(metric) is None)


def _retrieval_proof(
    scores: Scores, facets: Sequence[FacetMatch], lost: Sequence[LostChunk], claims: Sequence[Claim]
) -> tuple[str, tuple[str, ...]]:
    absent = [loss for loss in lost if loss.where == "retrieval"]
    dropped = [match for match in facets if match.in_rewrite is False]
    unmet = [match for match in facets if match.match < 0.5 and match.reason is None]
    proof = [f"evidence {loss.chunk_id} is not among the candidates" for loss in absent]
    proof += [f"the rewritten query dropped {_named(match)}" for match in dropped]
    proof += [f"no candidate meets {_named(match)}{_instead(match)}" for match in unmet]
    is_absent = judge(scores, "evidence_presence") == "bad"
    if is_absent:
        proof.append(f"probably no candidate holds the answer (evidence presence {scores['evidence_presence']:.2f})")
    if not proof:
        joint = scores.get("joint_query_coverage")
        apart = "no single candidate meets the facets together"
        proof = ["query coverage is low" if joint is None else f"{apart} (joint query coverage {joint:.2f})"]
    return _retrieval_cause(dropped, unmet, bool(absent) or is_absent), tuple(proof)


def _retrieval_cause(dropped: Sequence[FacetMatch], unmet: Sequence[FacetMatch], absent: bool) -> str:
    """What no candidate meets although the rewritten query asked for it is no fault of the rewrite."""
    if any(match.in_rewrite for match in unmet):
        return "absent_from_index"
    return "lost_in_rewrite" if dropped else "absent_from_candidates" if absent else "facets_unmet"


def _ranking_proof(
    scores: Scores, facets: Sequence[FacetMatch], lost: Sequence[LostChunk], claims: Sequence[Claim]
) -> tuple[str, tuple[str, ...]]:
    proof = []
    for loss in lost:
        known = "; ".join(filter(None, (_ranks(loss), loss.reason)))
        proof.append(f"evidence {loss.chunk_id} was lost in {loss.where} ({known})")
    places = {loss.where for loss in lost}
    return next((cause for where, cause in _LOSSES.items() if where in places), "evidence_not_packed"), tuple(proof)


def _generation_proof(
    scores: Scores, facets: Sequence[FacetMatch], lost: Sequence[LostChunk], claims: Sequence[Claim]
) -> tuple[str, tuple[str, ...]]:
    factual = [claim for claim in claims if claim.factual]
    contradicted = [claim for claim in factual if (claim.contradiction or 0) >= SUPPORTED]
    unsupported = [claim for claim in factual if claim not in contradicted and (claim.support or 0) < SUPPORTED]
    proof = [f"contradicts {claim.best_chunk}: “{claim.text}” ({claim.reason})" for claim in contradicted]
    for claim in unsupported:
        where = f", but by {claim.unselected_chunk}, which it does not hold in full" if claim.unselected_chunk else ""
        why = f" ({claim.reason})" if claim.reason else ""
        proof.append(f"not supported by the prompt{where}: “{claim.text}”{why}")
    return "contradicted" if contradicted else "unsupported", tuple(proof)


def _citation_proof(
    scores: Scores, facets: Sequence[FacetMatch], lost: Sequence[LostChunk], claims: Sequence[Claim]
) -> tuple[str, tuple[str, ...]]:
    uncited = [claim for claim in claims if claim.factual and not any(mark.chunk_id for mark in claim.citations)]
    proof = [f"{_uncited(claim)}: “{claim.text}”" for claim in uncited]
    if not any(claim.citations for claim in claims):
        remedy = "if it is not meant to, set cites=False, or ragtrace.cites=false on its spans"
        proof.append(f"the answer cites nothing at all; {remedy}")
    return "uncited", tuple(proof)


_PROOFS: Final = {
    "retrieval": _retrieval_proof,
    "ranking": _ranking_proof,
    "generation": _generation_proof,
    "citation": _citation_proof,
}


def _ranks(loss: LostChunk) -> str:
    """The ranks that are known; without one after it, the loss's reason says whether there was a reranker."""
    if loss.rank_before is None:
        return ""
    return (
        f"rank {loss.rank_before} before rerank, {loss.rank_after} after"
        if loss.rank_after
        else f"rank {loss.rank_before}"
    )


def _uncited(claim: Claim) -> str:
    dangling = dict.fromkeys(mark.marker for mark in claim.citations)
    return f"{', '.join(dangling)} names no chunk of the prompt" if dangling else "no citation"


def _instead(match: FacetMatch) -> str:
    """What is stated in the facet's place, where it is contradicted and not merely missing."""
    return f" ({match.contradicted_by} states {match.given})" if match.contradicted_by else ""


def _named(match: FacetMatch) -> str:
    return f"the {match.facet.kind} “{match.facet.value}”"
