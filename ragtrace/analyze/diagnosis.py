"""The first broken stage of a request, its owner, its proof and the rollout to suspect; used by everything that judges.

The states of the stages come from `ragtrace.analyze._stage_states`. The verdict names the first stage that is broken,
in the order of the path, and says what is not known before it. A request is healthy only where every stage that applies
is sound; where none is broken and some are suspected or not known, no break was found.
Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from ragtrace.registry.instruments import STAGES
from ragtrace.registry.types import StageInfo
from ragtrace.types import Diagnosis, FacetMatch, IndexProbe, LostChunk, Reference, Stage, StageFinding, StageState

__all__ = [
    "CAUSE_COMPONENTS",
    "PROMPT_HASH",
    "RETURNED_BEFORE",
    "VersionStart",
    "answered_right",
    "diagnose",
    "doubt_reason",
    "first_broken",
    "is_new",
    "is_rollout",
    "not_known_before",
    "replaces",
    "stages_in_scope",
    "suspected_rollout",
]

_STAGES: Final[dict[Stage, StageInfo]] = {stage.name: stage for stage in STAGES}  # type: ignore[misc]
CAUSE_COMPONENTS: Final = {  # those that a cause points at go before the stage's others
    "lost_in_rewrite": ("rewriter",),
    "not_indexed": ("index", "chunker", "embedding"),
    "missed_by_search": ("index", "retriever", "embedding"),
    "below_depth": ("retriever", "embedding", "rewriter"),
    "filtered": ("retriever", "index"),
    "returned_before": ("retriever", "embedding", "rewriter"),
    "absent_from_candidates": ("index", "embedding", "chunker", "retriever"),
    "lost_in_rerank": ("reranker",),
    "lost_in_packing": ("packer",),
    "truncated": ("packer",),
}
RETURNED_BEFORE: Final = "the index holds it: this version returned it to another request"
"""Why a chunk that was lost in retrieval is in the index, where the store knows that."""
PROMPT_HASH: Final = "prompt_hash"
"""The component whose version the store infers where the host states none: from the tenth prompt of a frame on."""
SETTLED: Final = 600_000_000_000  # nanoseconds from a service's first request until all of its components have shown up
_LOSSES: Final = {  # in the order of the path: what was lost first names the cause
    "rerank": "lost_in_rerank",
    "packing": "lost_in_packing",
    "truncation": "truncated",
}


class VersionStart(Protocol):
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

    @property
    def first_seen_at(self) -> int | None:
        """When a request first carried it; None while none has."""
        ...


def diagnose(
    findings: Sequence[StageFinding],
    *,
    reference: Reference = "none",
    facets: Sequence[FacetMatch] = (),
    lost: Sequence[LostChunk] = (),
    probe: IndexProbe | None = None,
    contradicted: bool = False,
    versions: Mapping[str, str] | None = None,
    releases: Sequence[VersionStart] = (),
    judge: str | None = None,
) -> Diagnosis:
    """Name the first broken stage, its owner, the proof, and the rollout to suspect.

    findings: of the stages that apply, in the order of the path; none where nothing had to be retrieved. facets and
    lost tell the cause, `contradicted` whether the prompt contradicts the answer. versions are the request's, releases
    its service's (see `suspected_rollout`). judge: what judged.
    Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §4.
    """
    known = {"reference": reference, "stages": tuple(findings), "judge": judge}
    broken = first_broken(findings)
    if broken is None:
        is_healthy = all(found.state == "sound" for found in findings)
        verdict = "no_retrieval_needed" if not findings else "healthy" if is_healthy else "no_break_found"
        return Diagnosis(verdict=verdict, **known)  # type: ignore[arg-type]
    stage, labels = _STAGES[broken.stage], dict(versions or {})
    cause = _cause(broken.stage, facets, lost, probe, contradicted)
    return Diagnosis(
        verdict=stage.failure,
        stage=broken.stage,
        owner=stage.owner,
        cause=cause,
        evidence=broken.evidence,
        versions={name: labels[name] for name in stage.components if name in labels},
        suspected_rollout=suspected_rollout(stage, cause, labels, releases),
        **known,  # type: ignore[arg-type]
    )


def first_broken(findings: Sequence[StageFinding]) -> StageFinding | None:
    """The finding of the first broken stage, if one is."""
    return next((found for found in findings if found.state == "broken"), None)


def not_known_before(diagnosis: Diagnosis) -> tuple[StageFinding, ...]:
    """The stages before the one that the verdict names (all, where it names none) that are not known or suspected."""
    before: list[StageFinding] = []
    for found in diagnosis.stages:
        if found.stage == diagnosis.stage:
            break
        if found.state in ("not_known", "suspected"):
            before.append(found)
    return tuple(before)


def answered_right(broken: Stage | None, states: Mapping[Stage, StageState]) -> bool | None:
    """Whether the answer is right by the verdict: generation sound, and no stage broken; None: it does not tell."""
    if broken is not None:
        return False
    return True if states.get("generation") == "sound" else None


def stages_in_scope(states: Mapping[Stage, StageState]) -> tuple[Stage, ...]:
    """The stages of which a request tells something of their own: those with no broken or suspected stage before.

    states: of the stages that apply. What `scope="conditional"` counts.
    """
    reached: list[Stage] = []
    for stage in _STAGES:
        if stage in states:
            reached.append(stage)
            if states[stage] in ("broken", "suspected"):
                break
    return tuple(reached)


def _cause(
    stage: Stage,
    facets: Sequence[FacetMatch],
    lost: Sequence[LostChunk],
    probe: IndexProbe | None,
    contradicted: bool,
) -> str:
    places = {loss.where for loss in lost}
    if stage == "retrieval":
        dropped = any(match.in_rewrite is False for match in facets)
        if probe is not None and probe.cause is not None and not (dropped and probe.cause == "below_depth"):
            return probe.cause
        unmet = [match for match in facets if match.match < 0.5 and match.reason is None]
        if dropped and not any(match.in_rewrite for match in unmet):
            return "lost_in_rewrite"
        returned = [loss.reason for loss in lost if loss.where == "retrieval"]
        if returned and all(reason == RETURNED_BEFORE for reason in returned):
            return "returned_before"
        return "absent_from_candidates" if "retrieval" in places or unmet else "facets_unmet"
    if stage == "ranking":
        return next((cause for where, cause in _LOSSES.items() if where in places), "evidence_not_packed")
    if stage == "generation":
        return "contradicted" if contradicted else "unsupported"
    return "uncited"


def doubt_reason(stage: Stage, reason: str | None) -> str:
    """Why a stage that is not broken is in doubt. reason: of its state, which at retrieval and ranking may be another,
    or none, since the answer counts there, too."""
    if stage in ("retrieval", "ranking") and reason not in ("facet_not_found", "corpus_gap"):
        return "low_match"
    return reason or "undecided"


def suspected_rollout(
    stage: StageInfo, cause: str, versions: Mapping[str, str], releases: Sequence[VersionStart]
) -> str | None:
    """`component=version`: of the stage's components, the version of this request that was rolled out last.

    The components that the cause points at (the rewriter for a facet lost in the rewrite, the index for one that was
    asked of it and that it does not hold) go before the others. None where no version was rolled out: see `is_rollout`.
    """
    seen = {(release.component, release.version): release for release in releases}
    rolled_out: list[tuple[bool, int, str]] = []
    for component in stage.components:
        version = versions.get(component)
        found = seen.get((component, version or ""))
        if version and found and is_rollout(found, releases):
            rolled_out.append((component in CAUSE_COMPONENTS.get(cause, ()), found.at, f"{component}={version}"))
    return max(rolled_out)[2] if rolled_out else None


def is_rollout(release: VersionStart, releases: Sequence[VersionStart]) -> bool:
    """Whether a release changed a service that ran: it replaced another version, or it brought a new component."""
    return replaces(release, releases) or is_new(release, releases)


def replaces(release: VersionStart, releases: Sequence[VersionStart]) -> bool:
    """Whether another version of the component was there before this one came into use."""
    return any(
        other.component == release.component and other.version != release.version and other.known_since < release.at
        for other in releases
    )


def is_new(release: VersionStart, releases: Sequence[VersionStart]) -> bool:
    """Whether the release is the first version of its component, and the service had requests long enough before it.

    A component that shows up within the first ten minutes of a service has been there from the beginning: not every
    request names all components. The first hash of a prompt is never new: it is inferred once enough prompts were seen.
    """
    if release.component == PROMPT_HASH:
        return False
    began = min((other.first_seen_at for other in releases if other.first_seen_at is not None), default=None)
    return began is not None and release.known_since > began + SETTLED and not replaces(release, releases)
