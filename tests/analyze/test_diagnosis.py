"""The diagnosis table: every combination of good, bad and undefined, its proof, and the rollout to suspect."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest

from ragtrace.analyze.diagnosis import diagnose, stage_health, stages_reached
from ragtrace.types import Citation, Claim, Facet, FacetMatch, LostChunk, Reference

GOOD = {
    "query_coverage": 1.0,
    "joint_query_coverage": 1.0,
    "evidence_presence": 1.0,
    "candidate_recall": 1.0,
    "evidence_recall": 1.0,
    "answer_coverage": 1.0,
    "contradiction_rate": 0.0,
    "citation_coverage": 1.0,
}
BAD = dict.fromkeys(GOOD, 0.0) | {"contradiction_rate": 1.0}
STATES = ("good", "bad", "unknown")


@dataclass
class Seen:
    """A release as the store gives it."""

    component: str
    version: str
    at: int

    @property
    def known_since(self) -> int:
        """Since it came into use."""
        return self.at


def value(metric: str, state: str) -> float | None:
    """A metric's value in one of the three states."""
    return {"good": GOOD[metric], "bad": BAD[metric], "unknown": None}[state]


def expected_verdict(reference: Reference, state: dict[str, str]) -> str:
    """The table of METHODS in the words of a person: written down a second time, independently of the code."""
    facets = (state["query_coverage"], state["joint_query_coverage"])
    estimate = state["candidate_recall" if reference == "oracle" else "evidence_presence"]
    if "bad" in facets or estimate == "bad":
        return "recall_failure"
    if state["evidence_recall"] == "bad":
        return "selection_failure"
    answer = (state["answer_coverage"], state["contradiction_rate"])
    if "bad" in answer and state["evidence_recall"] == "good":
        return "grounding_failure"
    by_facets = reference != "oracle" and estimate == "unknown" and facets == ("good", "good")
    recall_known = estimate == "good" or by_facets
    fine = recall_known and state["evidence_recall"] == "good" and answer == ("good", "good")
    if fine and state["citation_coverage"] == "bad":
        return "citation_failure"
    return "healthy" if fine and state["citation_coverage"] == "good" else "undetermined"


@pytest.mark.parametrize("reference", ["oracle", "proxy", "none"])
def test_every_combination_has_the_verdict_of_the_table(reference: Reference) -> None:
    """All 3^8 combinations of good, bad and undefined values, for each kind of reference."""
    for states in product(STATES, repeat=len(GOOD)):
        state = dict(zip(GOOD, states, strict=True))
        scores = {metric: value(metric, of) for metric, of in state.items()}
        diagnosis = diagnose(scores, reference=reference)
        assert diagnosis.verdict == expected_verdict(reference, state), state
        assert (diagnosis.stage is None) == (diagnosis.verdict in ("healthy", "undetermined"))
        assert bool(diagnosis.missing) == (diagnosis.verdict == "undetermined")


@pytest.mark.parametrize("reference", ["oracle", "proxy", "none"])
def test_an_answer_that_is_not_meant_to_cite_is_judged_by_the_other_stages(reference: Reference) -> None:
    """Whatever its citation coverage is, the verdict is that of a well cited answer, and citation is never missing."""
    for states in product(STATES, repeat=len(GOOD)):
        state = dict(zip(GOOD, states, strict=True))
        scores = {metric: value(metric, of) for metric, of in state.items()}
        diagnosis = diagnose(scores, reference=reference, cites=False)
        assert diagnosis.verdict == expected_verdict(reference, state | {"citation_coverage": "good"}), state
        assert "citation_coverage" not in diagnosis.missing


def test_absent_scores_are_undefined_scores() -> None:
    """Nothing known is undetermined, and all that is missing is named."""
    diagnosis = diagnose({})
    assert diagnosis.verdict == "undetermined"
    assert "evidence_recall" in diagnosis.missing
    assert "query_coverage" in diagnosis.missing


def test_an_answer_built_on_the_wrong_chunks_is_a_recall_failure() -> None:
    """It is fully supported and cited all the same."""
    diagnosis = diagnose(GOOD | {"joint_query_coverage": 0.6})
    assert (diagnosis.verdict, diagnosis.stage, diagnosis.owner) == (
        "recall_failure",
        "retrieval",
        "retrieval-indexing",
    )


def test_stages_are_judged_each_on_its_own() -> None:
    """A stage's health does not depend on the stages before it; only the first broken one is named."""
    scores = GOOD | {"query_coverage": 0.5, "citation_coverage": 0.0}
    assert stage_health(scores) == {"retrieval": "bad", "ranking": "good", "generation": "good", "citation": "bad"}


FACET = Facet(kind="time", value="2024")
RELEASES = [
    Seen("index", "1", 10),
    Seen("index", "2", 20),
    Seen("rewriter", "a", 10),
    Seen("rewriter", "b", 15),
    Seen("reranker", "r1", 10),
    Seen("packer", "p1", 10),
    Seen("packer", "p2", 12),
    Seen("model", "m1", 10),
]
VERSIONS = {"index": "2", "rewriter": "b", "reranker": "r1", "packer": "p2", "model": "m1"}


def test_recall_failure_names_the_lost_chunk_and_the_newest_rollout() -> None:
    """The index changed last among retrieval's components."""
    lost = LostChunk(chunk_id="c7", where="retrieval")
    found = diagnose(
        GOOD | {"candidate_recall": 0.0}, reference="oracle", lost=[lost], versions=VERSIONS, releases=RELEASES
    )
    assert found.cause == "absent_from_candidates"
    assert found.suspected_rollout == "index=2"
    assert "c7" in found.evidence[0]
    assert found.versions == {"index": "2", "rewriter": "b"}


def test_evidence_that_is_probably_absent_is_a_recall_failure_without_an_oracle() -> None:
    """Whatever the answer says; an oracle knows better."""
    scores = GOOD | {"query_coverage": None, "joint_query_coverage": None, "evidence_presence": 0.2}
    found = diagnose(scores, reference="proxy")
    assert (found.stage, found.cause) == ("retrieval", "absent_from_candidates")
    assert found.evidence == ("probably no candidate holds the answer (evidence presence 0.20)",)
    assert diagnose(scores, reference="oracle").verdict == "healthy"


def test_a_facet_lost_in_the_rewrite_points_at_the_rewriter() -> None:
    """Although the index changed later."""
    match = FacetMatch(facet=FACET, match=0.0, in_rewrite=False)
    found = diagnose(GOOD | {"query_coverage": 0.5}, facets=[match], versions=VERSIONS, releases=RELEASES)
    assert (found.cause, found.suspected_rollout) == ("lost_in_rewrite", "rewriter=b")
    assert "the rewritten query dropped the time “2024”" in found.evidence


def test_a_facet_that_was_asked_for_and_is_nowhere_points_at_the_index() -> None:
    """Although the rewriter, which changed later, dropped another facet, and dropped none that no candidate meets."""
    lost = Facet(kind="jurisdiction", value="Ireland")
    matches = [FacetMatch(facet=FACET, match=1.0, in_rewrite=False), FacetMatch(facet=lost, match=0.0, in_rewrite=True)]
    releases = [*RELEASES, Seen("rewriter", "c", 30)]
    found = diagnose(
        GOOD | {"query_coverage": 0.5}, facets=matches, versions=VERSIONS | {"rewriter": "c"}, releases=releases
    )
    assert (found.cause, found.suspected_rollout) == ("absent_from_index", "index=2")
    assert "the rewritten query dropped the time “2024”" in found.evidence
    assert "no candidate meets the jurisdiction “Ireland”" in found.evidence


def test_a_contradicted_facet_says_by_what_and_an_unknown_one_is_no_proof() -> None:
    """Another year's chunk is named; where no candidate could be read, none is said to fail."""
    contradicted = FacetMatch(facet=FACET, match=0.0, contradicted_by="c3", given="2023")
    unknown = FacetMatch(facet=Facet(kind="entity", value="Home"), match=0.0, reason="no_candidate_text")
    found = diagnose(GOOD | {"query_coverage": 0.5}, facets=[contradicted, unknown])
    assert found.evidence == ("no candidate meets the time “2024” (c3 states 2023)",)


def test_what_was_lost_first_on_the_way_names_the_cause() -> None:
    """One chunk is truncated, another one was lost in rerank: the reranker comes first, whatever their order."""
    lost = [LostChunk(chunk_id="c1", where="truncation"), LostChunk(chunk_id="c2", where="rerank", rank_before=1)]
    for given in (lost, lost[::-1]):
        assert diagnose(GOOD | {"evidence_recall": 0.0}, lost=given).cause == "lost_in_rerank"


def test_a_request_tells_of_the_stages_that_it_reached_unbroken() -> None:
    """Behind a broken stage nothing is told, an unknown one tells nothing of itself."""
    good = stage_health(GOOD)
    assert stages_reached(good) == ("retrieval", "ranking", "generation", "citation")
    assert stages_reached(good | {"retrieval": "bad"}) == ("retrieval",)
    assert stages_reached(good | {"ranking": "bad"}) == ("retrieval", "ranking")
    assert stages_reached(good | {"retrieval": "unknown"}) == ("ranking", "generation")
    assert stages_reached(good | {"ranking": "unknown"}) == ("retrieval",)
    assert stages_reached(good | {"generation": "bad"}) == ("retrieval", "ranking", "generation")


@pytest.mark.parametrize(
    ("where", "cause", "rollout"),
    [
        ("rerank", "lost_in_rerank", "packer=p2"),
        ("packing", "lost_in_packing", "packer=p2"),
        ("truncation", "truncated", "packer=p2"),
    ],
)
def test_selection_failure_tells_where(where: str, cause: str, rollout: str) -> None:
    """Lost in rerank, in packing or by truncation; a reranker that never changed is no suspect."""
    lost = LostChunk(chunk_id="c7", where=where, rank_before=2, rank_after=40, reason="budget")  # type: ignore[arg-type]  # parametrized literal
    found = diagnose(GOOD | {"evidence_recall": 0.0}, lost=[lost], versions=VERSIONS, releases=RELEASES)
    assert (found.stage, found.owner, found.cause) == ("ranking", "ranking-context", cause)
    assert found.suspected_rollout == rollout
    assert "rank 2 before rerank, 40 after; budget" in found.evidence[0]


def test_no_reranker_dropped_what_was_never_reranked() -> None:
    """Only the ranks that are known are said."""
    lost = LostChunk(chunk_id="c7", where="packing", rank_before=2, reason="budget")
    assert diagnose(GOOD | {"evidence_recall": 0.0}, lost=[lost]).evidence == (
        "evidence c7 was lost in packing (rank 2; budget)",
    )


def test_a_claim_that_is_hardly_contradicted_is_not_said_to_be() -> None:
    """A verifier's low probability is no contradiction; the proof of an unsupported claim says what is missing."""
    claim = Claim(start=0, end=5, text="Five.", support=0.2, contradiction=0.1, best_chunk="c1", reason="5 is nowhere")
    found = diagnose(GOOD | {"answer_coverage": 0.0}, claims=[claim])
    assert (found.cause, found.evidence) == ("unsupported", ("not supported by the prompt: “Five.” (5 is nowhere)",))


def test_a_dangling_citation_is_said_to_dangle() -> None:
    """The claim has a mark, so that "no citation" would be untrue."""
    claim = Claim(start=0, end=5, text="Five [9].", support=1.0, citations=(Citation(marker="[9]"),))
    found = diagnose(GOOD | {"citation_coverage": 0.0}, claims=[claim])
    assert found.evidence == ("[9] names no chunk of the prompt: “Five [9].”",)


def test_grounding_failure_quotes_the_claim() -> None:
    """A component with one version only is never a suspected rollout."""
    claim = Claim(
        start=0,
        end=1,
        text="It pays €6.",
        support=0.0,
        contradiction=1.0,
        best_chunk="c1",
        reason="€6, the evidence says €5",
    )
    found = diagnose(GOOD | {"contradiction_rate": 1.0}, claims=[claim], versions=VERSIONS, releases=RELEASES)
    assert (found.stage, found.cause, found.suspected_rollout) == ("generation", "contradicted", None)
    assert "It pays €6." in found.evidence[0]
    assert "the evidence says €5" in found.evidence[0]


def test_unsupported_claims_tell_of_support_outside_the_prompt() -> None:
    """Support by an unselected chunk is part of the proof."""
    claim = Claim(start=0, end=1, text="It pays.", support=0.1, contradiction=0.0, unselected_chunk="c9")
    found = diagnose(GOOD | {"answer_coverage": 0.0}, claims=[claim])
    assert found.cause == "unsupported"
    assert "but by c9, which it does not hold in full" in found.evidence[0]


def test_citation_failure_lists_uncited_claims_only() -> None:
    """Cited and non-factual claims are no proof."""
    mark = Citation(marker="[1]", chunk_id="c1", start=0)
    claims = [
        Claim(start=0, end=1, text="Cited.", support=1.0, citations=(mark,)),
        Claim(start=0, end=1, text="Bare.", support=1.0),
        Claim(start=0, end=1, text="Hello!", factual=False),
    ]
    found = diagnose(GOOD | {"citation_coverage": 0.5}, claims=claims)
    assert (found.owner, found.evidence) == ("release-guard", ("no citation: “Bare.”",))
