"""The verdict from the states of the stages: which break comes first, whose it is, and the rollout to suspect."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest

from ragtrace.analyze.diagnosis import RETURNED_BEFORE, diagnose, not_known_before, stages_in_scope
from ragtrace.types import Facet, FacetMatch, IndexProbe, LostChunk, ProbeCause, Stage, StageFinding, StageState

STAGES: tuple[Stage, ...] = ("retrieval", "ranking", "generation", "citation")
STATES: tuple[StageState, ...] = ("sound", "broken", "suspected", "not_known")
FAILURES = dict(
    zip(STAGES, ("recall_failure", "selection_failure", "grounding_failure", "citation_failure"), strict=True)
)
FACET = Facet(kind="time", value="2024")


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

    @property
    def first_seen_at(self) -> int:
        """In the request that brought it."""
        return self.at


RELEASES = [
    Seen("index", "1", 0),
    Seen("index", "2", 20),
    Seen("rewriter", "a", 0),
    Seen("rewriter", "b", 15),
    Seen("reranker", "r0", 1),
    Seen("reranker", "r1", 11),
    Seen("packer", "p1", 2),
    Seen("packer", "p2", 12),
    Seen("model", "m1", 10),
]
VERSIONS = {"index": "2", "rewriter": "b", "reranker": "r1", "packer": "p2", "model": "m1"}


def findings(*states: StageState) -> tuple[StageFinding, ...]:
    """One for each state, in the order of the path."""
    return tuple(
        StageFinding(stage=stage, state=state, evidence=(f"{stage} shows it",))
        for stage, state in zip(STAGES, states, strict=False)
    )


@pytest.mark.parametrize("states", list(product(STATES, repeat=4)))
def test_the_first_broken_stage_is_named_whatever_is_not_known_before_it(states: tuple[StageState, ...]) -> None:
    """Healthy only where all stages are sound; else no break was found."""
    found = diagnose(findings(*states))
    broken = next((stage for stage, state in zip(STAGES, states, strict=True) if state == "broken"), None)
    expected = FAILURES[broken] if broken else "healthy" if set(states) == {"sound"} else "no_break_found"
    assert (found.verdict, found.stage) == (expected, broken)
    assert found.evidence == ((f"{broken} shows it",) if broken else ())
    assert [each.state for each in found.stages] == list(states)


def test_what_is_not_known_before_a_break_is_told_with_it() -> None:
    """Generation broke; whether retrieval broke before is not known."""
    found = diagnose(findings("not_known", "sound", "broken"))
    assert [each.stage for each in not_known_before(found)] == ["retrieval"]
    assert not_known_before(diagnose(findings("sound", "sound", "broken"))) == ()


def test_stages_that_do_not_apply_are_not_asked_for() -> None:
    """Three sound stages are healthy where nothing is cited; without any stage nothing had to be retrieved."""
    assert diagnose(findings("sound", "sound", "sound")).verdict == "healthy"
    assert diagnose(findings("sound", "sound", "sound")).state("citation") is None
    assert diagnose(()).verdict == "no_retrieval_needed"


@pytest.mark.parametrize(
    ("states", "reached"),
    [
        (("sound", "sound", "sound", "broken"), STAGES),
        (("not_known", "not_known", "broken", "sound"), STAGES[:3]),
        (("suspected", "sound", "broken", "sound"), STAGES[:1]),
        (("sound", "broken", "broken", "sound"), STAGES[:2]),
        (("sound", "sound", "suspected"), STAGES[:3]),
    ],
)
def test_a_stage_counts_where_no_earlier_one_is_broken_or_suspected(
    states: tuple[StageState, ...], reached: tuple[Stage, ...]
) -> None:
    """What is not known before it does not keep a stage from counting."""
    assert stages_in_scope(dict(zip(STAGES, states, strict=False))) == reached


def test_recall_failure_names_the_newest_rollout_of_retrieval() -> None:
    """The index changed last among retrieval's components."""
    lost = LostChunk(chunk_id="c7", where="retrieval")
    found = diagnose(findings("broken"), reference="oracle", lost=[lost], versions=VERSIONS, releases=RELEASES)
    assert (found.cause, found.owner) == ("absent_from_candidates", "retrieval-indexing")
    assert found.suspected_rollout == "index=2"
    assert found.versions == {"index": "2", "rewriter": "b"}


def test_a_facet_lost_in_the_rewrite_points_at_the_rewriter() -> None:
    """Although the index changed later."""
    match = FacetMatch(facet=FACET, match=0.0, in_rewrite=False)
    found = diagnose(findings("broken"), facets=[match], versions=VERSIONS, releases=RELEASES)
    assert (found.cause, found.suspected_rollout) == ("lost_in_rewrite", "rewriter=b")


def test_a_facet_that_was_asked_for_and_is_nowhere_points_at_the_index() -> None:
    """Although the rewriter, which changed later, dropped another facet, and dropped none that no candidate meets."""
    lost = Facet(kind="jurisdiction", value="Ireland")
    matches = [FacetMatch(facet=FACET, match=1.0, in_rewrite=False), FacetMatch(facet=lost, match=0.0, in_rewrite=True)]
    releases = [*RELEASES, Seen("rewriter", "c", 30)]
    found = diagnose(findings("broken"), facets=matches, versions=VERSIONS | {"rewriter": "c"}, releases=releases)
    assert (found.cause, found.suspected_rollout) == ("absent_from_candidates", "index=2")


@pytest.mark.parametrize(
    ("cause", "rollout"),
    [
        ("not_indexed", "index=2"),
        ("missed_by_search", "index=2"),
        ("filtered", "index=2"),
        ("below_depth", "rewriter=b"),
    ],
)
def test_the_cause_that_a_probe_found_points_at_its_components(cause: ProbeCause, rollout: str) -> None:
    """It goes before what the losses look like; of the retriever no version is known here."""
    lost = [LostChunk(chunk_id="c7", where="retrieval", reason=RETURNED_BEFORE)]
    probe = IndexProbe(outcome="found", cause=cause)
    found = diagnose(findings("broken"), lost=lost, probe=probe, versions=VERSIONS, releases=RELEASES)
    assert (found.cause, found.suspected_rollout) == (cause, rollout)


def test_a_chunk_that_the_index_returned_before_is_not_called_absent_from_it() -> None:
    """All that was lost must have been: else some of it may not be indexed."""
    before = LostChunk(chunk_id="c7", where="retrieval", reason=RETURNED_BEFORE)
    never = LostChunk(chunk_id="c8", where="retrieval")
    causes = [diagnose(findings("broken"), lost=lost).cause for lost in ([before], [before, never])]
    assert causes == ["returned_before", "absent_from_candidates"]


def test_a_rewrite_that_dropped_what_was_asked_explains_a_low_rank() -> None:
    """The index was asked for something else; that a chunk is not there at all is explained by no rewrite."""
    dropped = [FacetMatch(facet=FACET, match=0.0, in_rewrite=False)]
    causes = [
        diagnose(findings("broken"), facets=dropped, probe=IndexProbe(outcome="found", cause=cause)).cause
        for cause in ("below_depth", "not_indexed")
    ]
    assert causes == ["lost_in_rewrite", "not_indexed"]


@pytest.mark.parametrize(
    ("where", "cause", "rollout"),
    [
        ("rerank", "lost_in_rerank", "reranker=r1"),
        ("packing", "lost_in_packing", "packer=p2"),
        ("truncation", "truncated", "packer=p2"),
    ],
)
def test_a_selection_failure_tells_where_it_was_lost(where: str, cause: str, rollout: str) -> None:
    """And whom to suspect: the component at that place before the others."""
    lost = LostChunk(chunk_id="c1", where=where)  # type: ignore[arg-type]
    found = diagnose(findings("sound", "broken"), lost=[lost], versions=VERSIONS, releases=RELEASES)
    assert (found.cause, found.suspected_rollout) == (cause, rollout)


def test_what_was_lost_first_on_the_way_names_the_cause() -> None:
    """Reranking comes before packing, and packing before the cut."""
    lost = [LostChunk(chunk_id="a", where="truncation"), LostChunk(chunk_id="b", where="rerank")]
    assert diagnose(findings("sound", "broken"), lost=lost).cause == "lost_in_rerank"


def test_a_grounding_failure_says_whether_the_prompt_contradicts_it() -> None:
    """A contradiction is another thing than a lack of support."""
    assert diagnose(findings("sound", "sound", "broken"), contradicted=True).cause == "contradicted"
    assert diagnose(findings("sound", "sound", "broken")).cause == "unsupported"


def test_the_judge_stands_in_the_diagnosis() -> None:
    """With every verdict."""
    for states in (("broken",), ("sound",), ("suspected",)):
        assert diagnose(findings(*states), judge="abc123").judge == "abc123"
